package batch

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/ttc/chat"
)

// TestCutKeepsBudget checks that a padded batch of several rows stays within the budget if its rows have several
// sequences each, which are all padded to the longest one of the batch.
func TestCutKeepsBudget(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		equal := rapid.Bool().Draw(t, "equal")
		budget := rapid.IntRange(1, 2000).Draw(t, "budget")
		type row struct{ one, width, sequences int }
		var all []row
		var rows []entry
		for range rapid.IntRange(1, 40).Draw(t, "rows") {
			r := row{rapid.IntRange(1, 60).Draw(t, "one"), rapid.IntRange(1, 60).Draw(t, "width"), rapid.IntRange(1, 9).Draw(t, "n")}
			all = append(all, r)
			rows = append(rows, entry{
				Width: [maxSides]uint32{uint32(r.one), uint32(r.width)}, Sequences: [maxSides]uint32{1, uint32(r.sequences)},
			})
		}
		at := 0
		cells := func(rows []row) int {
			one, width, n := 0, 0, 0
			for _, r := range rows {
				one, width, n = max(one, r.one), max(width, r.width), n+r.sequences
			}
			if equal {
				one = max(one, width)
				width = one
			}
			return one*len(rows) + width*n
		}
		for _, b := range cut(rows, budget, equal) {
			n := cells(all[at : at+len(b)])
			if n > budget && len(b) > 1 {
				t.Fatalf("%d rows have %d cells; the budget is %d", len(b), n, budget)
			}
			if end := at + len(b) + 1; end <= len(all) && cells(all[at:end]) <= budget {
				t.Fatalf("a batch of %d rows has room for another", len(b))
			}
			at += len(b)
		}
		if at != len(all) {
			t.Fatalf("%d of %d rows are in batches", at, len(all))
		}
	})
}

// TestFilesKeepBudget checks that the ids in a batch's file, including padding, stay within the budget, if its rows
// have several teachers, of which the first is the longest, or if a student is as wide as its teacher.
func TestFilesKeepBudget(t *testing.T) {
	several := siteRow()
	several.Sides = append(several.Sides, Side{IDs: slices.Clone(several.Sides[0].IDs)})
	several.Meta.Sites = append(several.Meta.Sites, RowSite{
		Mode: NoHint, Teacher: 1, At: 2, Pairs: []chat.Span{{Start: 2, End: 5}},
	})
	several.Meta.Proof = make([]Proof, 3)
	several.TrainSites()
	for name, test := range map[string]struct {
		row    *Row
		layout Layout
		form   Form
		cells  int // of a batch of two rows
	}{
		"several teachers": {several, Padded, Form{}, 2*5 + 4*7},
		"equal width":      {siteRow(), Composer, Form{EqualWidth: true}, 2*7 + 2*7},
	} {
		t.Run(name, func(t *testing.T) {
			for budget, rows := range map[int]int{test.cells: 2, test.cells - 1: 1} {
				for _, l := range writeTwo(t, test.row, Spec{Budget: budget, Layout: test.layout, Form: test.form}) {
					if l.Rows != rows {
						t.Errorf("%d rows of %d tokens in a batch of %d", l.Rows, test.cells/2, budget)
					}
				}
			}
		})
	}
}

// writeTwo writes a row twice and returns the batches' lines. It checks that the files keep the budget.
func writeTwo(t *testing.T, r *Row, spec Spec) []Line {
	t.Helper()
	spec.Dir, spec.VocabSize = t.TempDir(), 100
	s, err := NewSpool(t.TempDir(), Order{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 2 {
		e, err := Encode(SDPO, r)
		if err == nil {
			err = s.Add(SDPO, Train, e)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Write(context.Background(), spec); err != nil {
		t.Fatal(err)
	}
	_, lines := readAll(t, spec.Dir)
	for _, l := range lines {
		file, err := tensors.OpenFile(filepath.Join(spec.Dir, l.File))
		if err != nil {
			t.Fatal(err)
		}
		all, err := file.ReadAll()
		file.Close()
		cells := 0
		for _, x := range all {
			if strings.HasSuffix(x.Name, "input_ids") {
				cells += x.Shape[0] * x.Shape[1]
			}
		}
		if err != nil || cells > spec.Budget {
			t.Errorf("%s has %d ids; the budget is %d: %v", l.File, cells, spec.Budget, err)
		}
	}
	return lines
}
