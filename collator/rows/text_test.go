package rows

import (
	"errors"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc/chat"
	natjson "github.com/nat-go/nat-go/ttc/json"
)

func TestLoneSurrogate(t *testing.T) {
	for row, want := range map[string]bool{
		`"a"`: false, `"\ud83d"`: true, `"\uD83D"`: true, `"\ude00"`: true, `"\ud83d\ude00"`: false, `"\ud83d\ude00\ud83d"`: true,
		`"\ude00\ud83d"`: true, `"\\ud83d"`: false, `"\\\ud83d"`: true, `"\u00e9\ud7ff\ue000"`: false, `"\ud83d`: true, `"\ud83dx\ude00"`: true,
	} {
		t.Run(row, func(t *testing.T) {
			if got := loneSurrogate([]byte(row)); got != want {
				t.Errorf("%s: %v", row, got)
			}
		})
	}
}

// TestBeginReleasesTexts checks that nothing refers to the texts of an earlier group, which may have been far larger.
func TestBeginReleasesTexts(t *testing.T) {
	e := NewEncoder(trl, Options{})
	r := preference(builders.Passage{Text: "p"}, builders.Passage{Text: "a"}, builders.Passage{Text: "b"})
	if _, _, err := e.Append(nil, Train, r); err != nil || len(e.escaped) != 3 {
		t.Fatalf("%d texts, %v", len(e.escaped), err)
	}
	e.Begin()
	for i, text := range e.escaped[:3] {
		if text.json != nil {
			t.Errorf("text %d is still there: %s", i, text.json)
		}
	}
	if len(e.escaped) != 0 || len(e.byText) != 0 {
		t.Errorf("%d texts and %d addresses are left", len(e.escaped), len(e.byText))
	}
}

// TestLoneSurrogateIsRefused checks that a row with an unpaired surrogate, which makes the whole file unreadable, is
// refused - except in NAT's own bytes.
func TestLoneSurrogateIsRefused(t *testing.T) {
	r := preference(builders.Passage{Text: "p"}, builders.Passage{Text: "a\xed\xa0\xbd"}, builders.Passage{Text: "b"})
	for _, f := range Formats() {
		for _, nat := range []bool{false, true} {
			row, _, err := NewEncoder(f, Options{NAT: nat}).Append(nil, Train, r)
			if nat && f.Name == customizer.Name {
				if err != nil {
					t.Errorf("NAT's own row: %v", err)
				}
			} else if !errors.As(err, new(*CannotCarry)) || len(row) > 0 {
				t.Errorf("%s: %s, %v", f.Name, row, err)
			}
		}
	}
}

// TestLoneSurrogateInEveryRowOfItsText checks that a lone surrogate is found in every row that has its text, and in no
// other.
func TestLoneSurrogateInEveryRowOfItsText(t *testing.T) {
	const half = "a\xed\xa0\xbd"
	bad, good := preference(text("p"), text(half), text("b")), preference(text("p"), text("c"), text("b"))
	tools := preference(text("p"), text("c"), text("b"))
	tools.Origin.Tools = []chat.Tool{{Name: "f", Raw: natjson.Raw(`{"function": "\ud83d"}`)}}
	enc := NewEncoder(trl, Options{})
	for i, c := range []struct {
		r    *builders.Resolved
		want bool
	}{{bad, true}, {good, false}, {bad, true}, {tools, true}, {good, false}} {
		if _, _, err := enc.Append(nil, Train, c.r); errors.As(err, new(*CannotCarry)) != c.want {
			t.Errorf("row %d: %v", i, err)
		}
	}
}

// TestTextsThatBeginTogether checks that a text and its prefix, in the same memory, are treated as two texts.
func TestTextsThatBeginTogether(t *testing.T) {
	enc := NewEncoder(trl, Options{})
	const whole = "answer and more"
	for _, chosen := range []string{whole, whole[:6], whole} {
		row, _, err := enc.Append(nil, Train, preference(text("p"), text(chosen), text("b")))
		if err != nil || !strings.Contains(string(row), `"`+chosen+`"`) {
			t.Errorf("%q in %s, %v", chosen, row, err)
		}
	}
}

// TestToolsOfEveryRow checks that each row has its own record's tools, whatever the previous row's were, and that an
// earlier list isn't taken from memory that has changed since.
func TestToolsOfEveryRow(t *testing.T) {
	for _, f := range Formats() {
		e := NewEncoder(f, Options{})
		raw := []byte(`{"name": "ab"}`)
		for i, tools := range [][]chat.Tool{
			{{Raw: raw}},
			{{Raw: natjson.Raw(`{"name":  "c"}`)}, {Raw: raw}},
			nil,
			{{Raw: raw}},
			{{Raw: natjson.Raw(`{"name": "\ud83d"}`)}},
			{{Raw: raw}},
			{{Raw: raw}},
			{{Raw: raw}},
		} {
			r := preference(builders.Passage{Text: "p"}, builders.Passage{Text: "a"}, builders.Passage{Text: "b"})
			r.Origin.Tools = tools
			raw[len(raw)-3] = "abcdeffg"[i]
			got, _, err := e.Append(nil, Train, r)
			want, _, fresh := NewEncoder(f, Options{}).Append(nil, Train, r)
			if string(got) != string(want) || (err == nil) != (fresh == nil) {
				t.Errorf("%s, row %d:\n%s, %v, not\n%s, %v", f.Name, i, got, err, want, fresh)
			}
		}
	}
}
