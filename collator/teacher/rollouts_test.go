package teacher

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tensors"
)

// TestRollouts: rows of an rl batch get the teacher's best tokens at every position but the first; a row it fails on
// gets nothing, costs no other its own, and is asked about again.
func TestRollouts(t *testing.T) {
	s := newServer(t)
	rows := [][]int32{{1, 2, 3, 4, 5}, {6, 7, 8}, {9}}
	broken := true
	s.spoil = func(ids []int32, answer map[string]any) {
		if broken && slices.Equal(ids, rows[1]) {
			answer["choices"] = []any{map[string]any{}}
		}
	}
	dir := t.TempDir()
	const width, k = 5, 4
	ids, mask := make([]int64, 3*width), make([]int64, 3*width)
	for r, row := range rows {
		for i, id := range row {
			ids[r*width+i], mask[r*width+i] = int64(id), 1
		}
	}
	writeBatch(
		t,
		filepath.Join(dir, "rl.safetensors"),
		tensors.Of("input_ids", ids, 3, width),
		tensors.Of("attention_mask", mask, 3, width),
	)
	writeIndex(t, dir, &batch.Line{File: "rl.safetensors", Channel: "rl", Rows: 3})
	client := s.client(t, func(o *Options) { o.Store = t.TempDir() })
	for _, failed := range []int{1, 0} {
		rep, err := (&Work{Client: client, Rollouts: true}).Run(t.Context(), dir)
		if err != nil || rep.Groups.Rows != 2 || rep.Groups.Failed[TeacherBadAnswer] != failed {
			t.Fatalf("%+v, %v", rep.Groups, err)
		}
		all, _, err := readFile(filepath.Join(dir, "rl.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		top, _ := tensors.Items[int64](find(t, all, batch.TeacherIDs))
		lps, _ := tensors.Items[float32](find(t, all, batch.TeacherLogProbs))
		for r, row := range rows {
			for p := range width {
				at := (r*width + p) * k
				if p == 0 || p >= len(row) || r == 1 && failed == 1 {
					if top[at] != Missing || !math.IsInf(float64(lps[at]), -1) {
						t.Errorf("row %d has an entry at %d: %d", r, p, top[at])
					}
					continue
				}
				lp := predict(row[:p])
				for j, id := range best(lp, k) {
					if top[at+j] != int64(id) || math.Abs(float64(lps[at+j])-lp[id]) > 1e-6 {
						t.Errorf(
							"row %d, position %d, rank %d: token %d, %g; want %d, %g",
							r,
							p,
							j,
							top[at+j],
							lps[at+j],
							id,
							lp[id],
						)
					}
				}
			}
		}
		broken = false
	}
	calls := s.calls.Load()
	if _, err := (&Work{Client: client, Rollouts: true}).Run(t.Context(), dir); err != nil ||
		s.calls.Load() != calls+1 { // the vocabulary is compared
		t.Errorf("%d more requests, %v", s.calls.Load()-calls, err)
	}
}
