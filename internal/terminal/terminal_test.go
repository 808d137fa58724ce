package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"

	"github.com/nat-go/nat-go/internal/secret"
)

// hostile contains one of everything that controls a terminal or is invisible.
const hostile = "a\x1b[31mred\x1b[0m\x1b]0;title\x07\r\x08\x7f\u009b2J\u202eright\u2066to\u2069left\u200b\u00ad\ufeff\u2028\U000e0041\x00\xff\xed\xa0\xbd\xc3"

func unsafe(s string) rune {
	for _, r := range s {
		if r != '\n' && r != '\t' &&
			(unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && r != '\u200d' && r != '\u200c' || r == '\u2028' ||
				r == unicode.ReplacementChar) {
			return r
		}
	}
	return 0
}

func TestTextAndLine(t *testing.T) {
	for _, s := range []string{hostile, strings.Repeat(hostile, 3), "\x1b"} {
		if r := unsafe(Text(s)); r != 0 {
			t.Errorf("%q still has %q", Text(s), r)
		}
		if r := unsafe(Line(s + "\n\t")); r != 0 || strings.ContainsAny(Line(s+"\n\t"), "\n\t") {
			t.Errorf("%q still has %q", Line(s), r)
		}
	}
	for _, s := range []string{"", "plain", "two\nlines\tand a tab", "Grüße, 世界 👩‍👧 नि"} {
		if Text(s) != s {
			t.Errorf("%q became %q", s, Text(s))
		}
	}
	if got := Line("a\nb\tc\x1b"); got != `a\nb c\u001b` {
		t.Errorf("%q", got)
	}
}

func TestOutput(t *testing.T) {
	for in, want := range map[string]string{
		"plain\n":                     "plain\n",
		"no end":                      "no end",
		"":                            "",
		"crlf\r\nnext\r\n":            "crlf\nnext\n",
		" 1%|#\r 2%|##\r":             " 2%|##\n",
		"\r 1%\r 2%\nloss 3\n":        " 2%\nloss 3\n",
		"\x1b[31mred\x1b[0m\n\x1b[2J": "red\n\\u001b[2J",
	} {
		t.Run(in, func(t *testing.T) {
			if got := Output([]byte(in)); got != want {
				t.Errorf("%q: got %q, want %q", in, got, want)
			}
		})
	}
}

// TestJSONStaysTheSame checks that JSON whose texts are escaped still means the same.
func TestJSONStaysTheSame(t *testing.T) {
	want := strings.ToValidUTF8(hostile, "?")
	b, err := json.Marshal(map[string]string{"x": want})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(Text(string(b))), &got); err != nil || got["x"] != want {
		t.Errorf("%q, %v", got["x"], err)
	}
}

// TestWriterInPieces checks that the same is written no matter how the text is split into pieces, and that only our own
// styles control the terminal.
func TestWriterInPieces(t *testing.T) {
	text := hostile + Style("31;1", "our own "+hostile) + "世界" + ClearLine() + "\x1b[1m" + mark()[:9] + "x" + hostile +
		"\n"
	var want bytes.Buffer
	w := NewWriter(&want)
	fmt.Fprint(w, text)
	_ = w.Flush()
	own := strings.NewReplacer("\x1b[31;1m", "", "\x1b[0m", "", "\r\x1b[K", "").Replace(want.String())
	if r := unsafe(own); r != 0 || len(own) == want.Len() {
		t.Errorf("%q still has %q", own, r)
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var out bytes.Buffer
		w := NewWriter(&out)
		for rest := text; rest != ""; {
			n := min(len(rest), 1+random.IntN(7))
			fmt.Fprint(w, rest[:n])
			rest = rest[n:]
		}
		_ = w.Flush()
		if out.String() != want.String() {
			t.Fatalf("%q, want\n%q", out.String(), want.String())
		}
	}
}

func TestWriterMasksSecrets(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	values := new(secret.Values)
	w.Hide(values)
	fmt.Fprintln(w, "s3cret-value is not known yet")
	values.Add("s3cret-value")
	fmt.Fprint(w, "and s3cret", "-value is\x1b\n")
	_ = w.Flush()
	if got := out.String(); got != "s3cret-value is not known yet\nand *** is\\u001b\n" {
		t.Errorf("%q", got)
	}
}
