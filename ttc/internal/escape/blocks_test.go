package escape

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// slowly escapes blocks one byte at a time.
func slowly(s string) (string, int) {
	var out strings.Builder
	done := 0
	for ; len(s)-done >= 16; done += 16 {
		var one strings.Builder
		for _, c := range []byte(s[done : done+16]) {
			switch i := strings.IndexByte("\b\t\n\f\r", c); {
			case c == '"' || c == '\\':
				one.WriteByte('\\')
				one.WriteByte(c)
			case i >= 0:
				one.WriteByte('\\')
				one.WriteByte("btnfr"[i])
			case c < ' ':
				return out.String(), done
			default:
				one.WriteByte(c)
			}
		}
		out.WriteString(one.String())
	}
	return out.String(), done
}

func compare(t *testing.T, before, s string) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("there are no instructions for it")
	}
	got, done := Blocks([]byte(before), s)
	want, end := slowly(s)
	if diff := cmp.Diff(before+want, string(got)); diff != "" || done != end {
		t.Fatalf("%q: %d of %d bytes (-want +got):\n%s", s, done, end, diff)
	}
}

// TestBlocks puts each byte at each place of a block, alone and beside others that are escaped.
func TestBlocks(t *testing.T) {
	for c := range 256 {
		for at := range 32 {
			for _, around := range []string{"a", `"`, "\n", "\xff"} {
				s := []byte(strings.Repeat(around, 41))
				s[at] = byte(c)
				compare(t, "before", string(s))
			}
		}
	}
}

// TestLongTexts escapes texts of more than one chunk, nothing of which, or all, grows.
func TestLongTexts(t *testing.T) {
	for _, s := range []string{"", "a", strings.Repeat("a", 15), strings.Repeat("ab", 20_000), strings.Repeat(`"`, 20_000)} {
		compare(t, "", s)
		compare(t, "x", s+"\x00"+s)
	}
}

// TestRandomTexts compares texts with many escapes, in buffers with and without room.
func TestRandomTexts(t *testing.T) {
	const seed = 17
	r := rand.New(rand.NewPCG(seed, seed))
	kinds := []string{`"`, `\`, "\n", "\t", "\r", "\b", "\f", "a", "bc", " ", "é", "\u2028", "😀", "\x7f", "\x80"}
	for range 20_000 {
		var s strings.Builder
		for n := r.IntN(200); s.Len() < n; {
			if r.IntN(400) == 0 {
				s.WriteByte(byte(r.IntN(32)))
			}
			s.WriteString(kinds[r.IntN(len(kinds))])
		}
		compare(t, strings.Repeat("-", r.IntN(40)), s.String())
	}
}
