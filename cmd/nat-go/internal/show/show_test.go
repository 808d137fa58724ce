package show

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/rivo/uniseg"
	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/property"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

func text(s string) builders.Passage { return builders.Passage{Text: s} }

func messages(m ...chat.Message) builders.Passage {
	return builders.Passage{Nodes: ttc.Chain(m, ttc.Yes).Nodes}
}

func printed(t *testing.T, v View, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, v, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var pair = View{
	Title: "record 7, preference, train",
	Facts: []string{"example ex3, turn t0, builder moves", "judge: chosen 0.9, rejected 0.4"},
	Prompt: messages(chat.Message{Role: "system", Form: chat.Text, Text: "You play well."},
		chat.Message{Role: "user", Form: chat.Text, Text: "Your move?"}),
	Chosen:   text("I take the centre now."),
	Rejected: text("I take a corner now."),
	Pair:     true,
}

func TestAPairOnANarrowScreen(t *testing.T) {
	want := `── record 7, preference, train ─────────────────────────────
example ex3, turn t0, builder moves
judge: chosen 0.9, rejected 0.4

prompt
  system
    You play well.
  user
    Your move?

chosen  22 characters
  I take {+the centre+} now.

rejected  20 characters
  I take [-a corner-] now.

`
	if got := printed(t, pair, Options{Width: 60}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAPairOnAWideScreen(t *testing.T) {
	got := printed(t, pair, Options{Width: 100})
	line := "I take {+the centre+} now." + strings.Repeat(" ", 48-26) + " │ I take [-a corner-] now."
	if !strings.Contains(got, line) {
		t.Errorf("no line\n%s\nin\n%s", line, got)
	}
	color := printed(t, pair, Options{Width: 100, Color: true})
	line = "I take \x1b[32mthe centre\x1b[0m now." + strings.Repeat(" ", 48-22) +
		" │ I take \x1b[31ma corner\x1b[0m now."
	if !strings.Contains(color, line) {
		t.Errorf("no line\n%q\nin\n%s", line, color)
	}
}

func TestAConversation(t *testing.T) {
	v := View{Title: "x", Messages: messages(
		chat.Message{Role: "assistant", Form: chat.Null, Reasoning: "hm", ToolCalls: []chat.ToolCall{{ID: "c1", Name: "search", Arguments: `{"q": 1}`}}},
		chat.Message{Role: "tool", Form: chat.Text, Text: "found", ToolCallID: "c1"},
		chat.Message{
			Role:  "user",
			Form:  chat.Parts,
			Parts: []chat.Part{{Type: "text", Text: "look"}, {Type: "image_url"}},
		})}
	got := printed(t, v, Options{Width: 60})
	for _, want := range []string{"(thinks) hm", `→ search({"q": 1})  c1`, "tool (answers c1)", "found", "look\n    (image_url)"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestLongTextsAreShortened(t *testing.T) {
	v := View{
		Title:    "x",
		Prompt:   text(strings.Repeat("line\n", 100)),
		Chosen:   text(strings.Repeat("a\n", 100)),
		Rejected: text("a\n"),
		Pair:     true,
	}
	for _, width := range []int{60, 120} {
		short, full := printed(t, v, Options{Width: width}), printed(t, v, Options{Width: width, Full: true})
		if strings.Count(short, "more lines; --full") != 2 || strings.Contains(full, "--full") ||
			strings.Count(full, "line") != 100 {
			t.Errorf("%d columns:\n%s", width, short)
		}
	}
}

func TestNothingReachesTheTerminalAsAControl(t *testing.T) {
	for in, want := range map[string]string{
		"\x1b[31mred\a":       `\u001b[31mred\u0007`,
		"a\tb\r\nc":           `a    b\u000d` + "\nc",
		"a\u202eb\u200bc":     `a\u202eb\u200bc`,
		"\xed\xa0\x80\xff":    `\ud800\xff`,
		"\u0085\u2028":        `\u0085\u2028`,
		"\U000e0041x":         `\udb40\udc41x`,
		"👩\u200d👩 é 漢字\ufffd": "👩\u200d👩 é 漢字\ufffd",
	} {
		t.Run(in, func(t *testing.T) {
			if got := clean(in); got != want {
				t.Errorf("%q: got %q, want %q", in, got, want)
			}
		})
	}
	property.Check(t, func(rt *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(rt, "text"))
		role := string(rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(rt, "role"))
		v := View{
			Title:    s,
			Facts:    []string{s},
			Prompt:   messages(chat.Message{Role: role, Form: chat.Text, Text: s, ToolCallID: s}),
			Chosen:   text(s),
			Rejected: text("x"),
			Pair:     true,
		}
		for _, r := range printed(t, v, Options{Width: rapid.SampledFrom([]int{1, 40, 120}).Draw(rt, "width")}) {
			if terminal.Text(string(r)) != string(r) {
				rt.Fatalf("%q was printed", r)
			}
		}
	})
}

func TestComparisonIsALongestCommonSubsequence(t *testing.T) {
	property.Check(t, func(rt *rapid.T) {
		word := rapid.SampledFrom([]string{"a", "b", "c"})
		x, y := rapid.SliceOfN(word, 0, 30).Draw(rt, "x"), rapid.SliceOfN(word, 0, 30).Draw(rt, "y")
		inX, inY := make([]bool, len(x)), make([]bool, len(y))
		Diff(x, y, inX, inY)
		left, right := kept(x, inX), kept(y, inY)
		if strings.Join(left, "") != strings.Join(right, "") || len(left) != lcs(x, y) {
			rt.Fatalf("kept %v and %v, the longest has %d", left, right, lcs(x, y))
		}
	})
}

func kept(w []string, differs []bool) (out []string) {
	for i, s := range w {
		if !differs[i] {
			out = append(out, s)
		}
	}
	return out
}

func lcs(x, y []string) int {
	row := make([]int, len(y)+1)
	for i := range x {
		diag := 0
		for j := range y {
			up := row[j+1]
			if x[i] == y[j] {
				row[j+1] = diag + 1
			} else {
				row[j+1] = max(row[j], up)
			}
			diag = up
		}
	}
	return row[len(y)]
}

func TestComparisonKeepsTheTexts(t *testing.T) {
	property.Check(t, func(rt *rapid.T) {
		gen := rapid.StringOf(rapid.SampledFrom([]rune("ab \n.漢é")))
		a, b := gen.Draw(rt, "a"), gen.Draw(rt, "b")
		left, right, _ := Compare(a, b)
		if glue(left) != a || glue(right) != b {
			rt.Fatalf("%q %q became %v %v", a, b, left, right)
		}
	})
	far := make([]string, 3*maxEdits)
	for i := range far {
		far[i] = fmt.Sprint("w", i)
	}
	if left, _, alike := Compare(strings.Join(far, " "), strings.Repeat("x ", 3*maxEdits)); alike || len(left) != 1 ||
		left[0].Differs {
		t.Errorf("texts that have nothing in common: %d spans", len(left))
	}
}

func glue(spans []Piece) (s string) {
	for _, x := range spans {
		s += x.Text
	}
	return s
}

func TestWrap(t *testing.T) {
	property.Check(t, func(rt *rapid.T) {
		s := rapid.StringOf(rapid.SampledFrom([]rune("ab  \n漢é"))).Draw(rt, "text")
		width := rapid.IntRange(8, 30).Draw(rt, "width")
		ink := func(s string) string { return strings.NewReplacer(" ", "", "\n", "").Replace(s) }
		got := ""
		for _, l := range wrap([]Piece{{s, false}}, width) {
			text := glue(l.spans)
			if w := uniseg.StringWidth(text); w != l.width || w > width {
				rt.Fatalf("%q is %d wide, said %d of %d", text, w, l.width, width)
			}
			got += text
		}
		if ink(got) != ink(s) {
			rt.Fatalf("%q became %q", s, got)
		}
	})
}
