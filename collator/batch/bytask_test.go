package batch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/ttc/chat"
)

// TestBatchByTask checks that rows of a task stay together, whatever their lengths and the layout, and that tasks are
// shuffled.
func TestBatchByTask(t *testing.T) {
	for _, layout := range []Layout{Padded, Packed} {
		t.Run(layout.String(), func(t *testing.T) {
			dir := t.TempDir()
			s, err := NewSpool(dir, Order{Seed: 7, Task: true})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			const tasks, each = 20, 4
			for task := range tasks {
				s.BeginGroup()
				for i := range each {
					row := &Row{Weight: 1, Sides: []Side{{
						IDs: make([]int32, 2+(7*task+5*i)%11), Trained: []chat.Span{{Start: 1, End: 2}},
					}}}
					row.Meta.Ordinal = int64(task)
					e, err := Encode(SFT, row)
					if err != nil {
						t.Fatal(err)
					}
					if err := s.Add(SFT, Train, e); err != nil {
						t.Fatal(err)
					}
				}
			}
			counts, err := s.Write(context.Background(), Spec{Dir: dir, Budget: 60, Layout: layout, VocabSize: 1})
			if err != nil {
				t.Fatal(err)
			}
			rows, lines := readAll(t, dir)
			batches := map[int64]map[string]bool{}
			changes, at := 0, int64(-1)
			distinct := int64(0)
			for _, l := range lines {
				for _, m := range l.RowInfo {
					if batches[m.Ordinal] == nil {
						batches[m.Ordinal] = map[string]bool{}
					}
					batches[m.Ordinal][l.File] = true
				}
				distinct += l.Distinct
			}
			ascending := true
			for _, r := range rows {
				if layout == Padded && r.Meta.Ordinal != at {
					changes++
					ascending = ascending && r.Meta.Ordinal > at
					at = r.Meta.Ordinal
				}
			}
			if layout == Padded && (changes != tasks || ascending) {
				t.Errorf("%d changes of task in %d rows of %d tasks; in the order of the input: %t", changes, len(rows), tasks, ascending)
			}
			spread := 0
			for _, files := range batches {
				spread += len(files)
			}
			if spread > 2*tasks {
				t.Errorf("the rows of %d tasks are in %d batches", tasks, spread)
			}
			if got := counts["sft/train"].Distinct; got != distinct || got == 0 || got >= counts["sft/train"].Tokens {
				t.Errorf("%d distinct tokens of %d; the lines sum to %d", got, counts["sft/train"].Tokens, distinct)
			}
		})
	}
}

// TestPackByTask checks that a packed task isn't spread over the gaps that earlier tasks leave.
func TestPackByTask(t *testing.T) {
	var rows []entry
	for task, n := range []uint32{60, 30, 25} {
		for range 4 {
			rows = append(rows, entry{Hash: uint64(task), Width: [maxSides]uint32{n}, Sequences: [maxSides]uint32{1}})
		}
	}
	var got []string
	for _, b := range pack(rows, 100, false) {
		var tasks strings.Builder
		for _, r := range b {
			fmt.Fprint(&tasks, r.Hash)
		}
		got = append(got, tasks.String())
	}
	if want := []string{"0", "0", "0", "01", "111", "2222"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
