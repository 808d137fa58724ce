package pyvalue

import (
	"strings"
	"testing"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
	"github.com/nat-go/nat-go/ttc/json"
)

// TestEscapesAtEveryPlace dumps texts with something to escape at every position in an eight-byte word, and also with
// two such positions.
func TestEscapesAtEveryPlace(t *testing.T) {
	for _, ascii := range []bool{false, true} {
		for _, c := range []string{`"`, `\`, "\n", "\x00", "\x1f", " ", "!", "#", "[", "]", "\x7f", "é", "\u2028", "😀", "\xed\xa0\x80"} {
			for n := range 20 {
				for m := range 20 {
					text := strings.Repeat("a", n) + c + strings.Repeat("b", m%10) + strings.Repeat(c, 1+m)
					got, err := Dump{ASCII: ascii}.Append(nil, Str(text), nil)
					if err != nil {
						t.Fatal(err)
					}
					if want := slowly(text, ascii); string(got) != want {
						t.Fatalf("ascii %v, %q:\n got %s\nwant %s", ascii, text, got, want)
					}
				}
			}
		}
	}
}

// slowly does what Dump.text does, one character at a time.
func slowly(s string, ascii bool) string {
	out := []byte{'"'}
	for i := 0; i < len(s); {
		r, n := pytext.DecodeRune(s[i:])
		switch {
		case r == '"' || r == '\\' || r < ' ':
			out = json.AppendEscape(out, r)
		case ascii && r >= 0x7f:
			out = json.AppendEscape(out, r)
		default:
			out = append(out, s[i:i+n]...)
		}
		i += n
	}
	return string(append(out, '"'))
}

// TestTextOfOtherKinds shows that only a str has a text.
func TestTextOfOtherKinds(t *testing.T) {
	for _, v := range []Value{None, True, Int(7), Float(1.5), NewList([]Value{Str("a")}), OfDict(&Dict{})} {
		if v.Text() != "" {
			t.Errorf("%s has the text %q", v.TypeName(), v.Text())
		}
	}
	if v := Str(""); v.Text() != "" || v.Truth() {
		t.Error("the empty text")
	}
}
