package doctor

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
)

func sideOf(ids string, trainedAt string, class string) Side {
	s := Side{Name: "row"}
	for i := range len(ids) {
		s.IDs = append(s.IDs, int32(ids[i]))
		s.Trained = append(s.Trained, trainedAt[i] == '1')
		s.class = append(s.class, map[byte]string{'t': "tool results", 'a': classTurns, '.': classTemplate}[class[i]])
	}
	return s
}

// TestDifferences checks that differing masks are counted by what the tokens are, and differing ids by who has them.
func TestDifferences(t *testing.T) {
	ours := sideOf("abcdefgh", "01100110", ".aatta..")
	theirs := sideOf("abcdexfgh", "011110110", ".aatt.a..")
	var d differences
	if d.add(3, match(theirs, ours)) {
		t.Error("called the same")
	}
	want := differences{
		{Kind: trainerTrains, Class: "tool results", Trained: true, Tokens: 2, Rows: []int{3}},
		{Kind: trainerOnly, Class: "tokens that nat-go's row lacks", Tokens: 1, Rows: []int{3}},
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Error(diff)
	}
	var b bytes.Buffer
	r := Report{Trainer: "trl", Inputs: []Compared{{File: "f", Method: sft, Rows: 1, Differ: []int{3}, Differences: d}}}
	if err := r.Text(&b, false); err != nil || !strings.Contains(b.String(), "TRL trains on 2 tokens here that nat-go doesn't: tool results  (row 3)") || r.Sound() {
		t.Errorf("%v: %s", err, b.String())
	}
	if d := differences(nil); !d.add(0, match(ours, ours)) || len(d) != 0 {
		t.Errorf("the same row differs: %+v", d)
	}
}

// TestMatchLosesNothing checks that when two sequences are aligned, both are there whole, in order, and counted once.
func TestMatchLosesNothing(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		draw := func(name string) Side {
			s := Side{IDs: rapid.SliceOfN(rapid.Int32Range(0, 3), 0, 30).Draw(t, name)}
			s.Trained, s.class = make([]bool, len(s.IDs)), make([]string, len(s.IDs))
			for i := range s.Trained {
				s.Trained[i] = rapid.Bool().Draw(t, name+" trained")
			}
			return s
		}
		theirs, ours := draw("theirs"), draw("ours")
		var gotTheirs, gotOurs []int32
		for _, x := range match(theirs, ours) {
			if at := x.Position[0]; at >= 0 {
				gotTheirs = append(gotTheirs, x.ID)
				if x.Trainer != mark(theirs.Trained[at]) {
					t.Fatalf("%+v", x)
				}
			}
			if at := x.Position[1]; at >= 0 {
				gotOurs = append(gotOurs, x.ID)
				if x.Ours != mark(ours.Trained[at]) {
					t.Fatalf("%+v", x)
				}
			}
		}
		if string(gotTheirs) != string(theirs.IDs) || string(gotOurs) != string(ours.IDs) {
			t.Fatalf("%v %v became %v %v", theirs.IDs, ours.IDs, gotTheirs, gotOurs)
		}
	})
}
