package teacher

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/tensors"
)

// TestRollouts checks that rows of an rl batch get the teacher's best tokens at every position but the first; a row it
// fails on gets nothing, doesn't affect any other, and is asked about again.
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
					if top[at] != noEntry || !math.IsInf(float64(lps[at]), -1) {
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

// TestGroupsAskForThemselves checks that what a task asks of its teacher takes precedence over the option: more
// entries, fewer, only the token, or nothing; that the index has what each teacher says about the trained tokens; and
// that groups are counted once.
func TestGroupsAskForThemselves(t *testing.T) {
	a, b, mixture := twoServers(t, func(o *Options) { o.Store = t.TempDir() })
	rows := [][]int32{{1, 2, 3, 4, 5}, {6, 7, 8}, {9, 1, 9}, {3, 3, 1}, {2, 2, 2, 2}, {4, 4, 4}}
	asks := []int{6, 2, 0, -1, 4, 4} // the last two use the option's
	groups := []int64{0, 1, 2, 3, 4, 4}
	dir := t.TempDir()
	const width, k = 5, 6
	n := len(rows)
	ids, mask, trained := make([]int64, n*width), make([]int64, n*width), make([]int64, n*width)
	line := &batch.Line{File: "rl.safetensors", Channel: "rl", Rows: n}
	for r, row := range rows {
		for i, id := range row {
			ids[r*width+i], mask[r*width+i] = int64(id), 1
			trained[r*width+i] = int64(min(1, i/2)) // from the third token on
		}
		scored := &batch.Scored{Group: groups[r], Teacher: &batch.Taught{Failed: "of an earlier time"}}
		if r < 4 {
			scored.TeacherTopK = &asks[r]
		}
		line.RowInfo = append(line.RowInfo, batch.Meta{RL: scored})
	}
	writeBatch(t, filepath.Join(dir, "rl.safetensors"), tensors.Of("input_ids", ids, n, width),
		tensors.Of("attention_mask", mask, n, width), tensors.Of("response_mask", trained, n, width))
	writeIndex(t, dir, line)
	b.spoil = func(ids []int32, answer map[string]any) {
		if slices.Equal(ids, rows[5]) {
			answer["choices"] = []any{map[string]any{}}
		}
	}
	rep, err := (&Work{Mixture: mixture, Rollouts: true}).Run(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if g := rep.Groups; g.Rows != 5 || g.Excused != 1 || g.Groups != 4 || g.Without != 1 || g.By["b"] != 1 ||
		!slices.Equal(g.Teachers, []string{"a", "b"}) {
		t.Errorf("%+v", g)
	}
	if got := a.calls.Load(); got != 1+5 { // one vocabulary text, then the rows
		t.Errorf("%d requests", got)
	}
	all, _, err := readFile(filepath.Join(dir, "rl.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	column := find(t, all, batch.TeacherIDs)
	if !slices.Equal(column.Shape, []int{n, width, k}) {
		t.Fatalf("shape %v", column.Shape)
	}
	top, _ := tensors.Items[int64](column)
	lps, _ := tensors.Items[float32](find(t, all, batch.TeacherLogProbs))
	index := readIndex(t, dir)
	for r, row := range rows {
		said := index.RowInfo[r].RL.Teacher
		silent := r == 3 || r == 5
		if (said == nil) != (r == 3) || r == 5 && said.Failed != string(TeacherBadAnswer) ||
			!silent && said.TopK != asks[r] {
			t.Fatalf("row %d: %+v", r, said)
		}
		sum, of := 0.0, 0.0
		for p := range width {
			at := (r*width + p) * k
			entries := 0
			for entries < k && top[at+entries] >= 0 {
				entries++
			}
			want := max(1, asks[r])
			if silent || p == 0 || p >= len(row) {
				want = 0
			}
			if entries != want ||
				slices.ContainsFunc(top[at+entries:at+k], func(id int64) bool { return id != noEntry }) {
				t.Fatalf("row %d, position %d has %v, want %d entries", r, p, top[at:at+k], want)
			}
			if want > 0 && p >= 2 {
				_, own := mixed(row[:p], row[p], 4)
				sum, of = sum+own, of+1
			}
			if asks[r] == 0 && want > 0 {
				if _, own := mixed(row[:p], row[p], 4); top[at] != int64(row[p]) ||
					math.Abs(float64(lps[at])-own) > 1e-6 {
					t.Errorf("row %d, position %d: got %d, %g, want %d, %g", r, p, top[at], lps[at], row[p], own)
				}
			}
		}
		if silent {
			continue
		}
		if said.LogProb == nil || math.Abs(*said.LogProb-sum/of) > 1e-6 || len(said.By) != 2 ||
			math.Abs(said.By["a"]-model(7, row[:len(row)-1])[row[len(row)-1]]) > 1e-6 && len(row) == 3 {
			t.Errorf("row %d: mean %v by %v, want %g", r, said.LogProb, said.By, sum/of)
		}
	}
}

// TestTaughtBatchesAreChecked complements batch.Read: rows that don't fit their index are refused.
func TestTaughtBatchesAreChecked(t *testing.T) {
	_, _, mixture := twoServers(t, nil)
	two := func(name string, width int) tensors.Tensor {
		return tensors.Of(name, make([]int64, 2*width), 2, width)
	}
	for want, all := range map[string][]tensors.Tensor{
		"mismatched rows: 2 in the file, 1 in row_info": {two("input_ids", 3), two("attention_mask", 3)},
		"response_mask 4":       {two("input_ids", 3), two("attention_mask", 3), two("response_mask", 2)},
		"its mask has [2 2]":    {two("input_ids", 3), two("attention_mask", 2)},
		"expected 2 dimensions": {tensors.Of("input_ids", []int64{1}, 1)},
		"has id -5": {
			tensors.Of("input_ids", []int64{-5, 1}, 1, 2), tensors.Of("attention_mask", []int64{1, 1}, 1, 2),
		},
	} {
		t.Run(want, func(t *testing.T) {
			line := &batch.Line{Rows: 1, RowInfo: []batch.Meta{{}}}
			if _, err := newRollouts(mixture).batch(t.Context(), line, all); err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

// TestFailedRowsTakeNoRoom checks that a row without an answer doesn't widen the columns of its batch.
func TestFailedRowsTakeNoRoom(t *testing.T) {
	s := newServer(t)
	rows := [][]int64{{1, 2, 3}, {6, 7, 8}}
	s.spoil = func(ids []int32, answer map[string]any) {
		if ids[0] == 6 {
			answer["choices"] = []any{map[string]any{}}
		}
	}
	many := 6
	line := &batch.Line{RowInfo: []batch.Meta{{RL: &batch.Scored{}}, {RL: &batch.Scored{TeacherTopK: &many}}}}
	all, err := newRollouts(s.client(t, nil)).batch(t.Context(), line, []tensors.Tensor{
		tensors.Of("input_ids", slices.Concat(rows...), 2, 3),
		tensors.Of("attention_mask", []int64{1, 1, 1, 1, 1, 1}, 2, 3),
	})
	if err != nil {
		t.Fatal(err)
	}
	if line.RowInfo[1].RL.Teacher.Failed != string(TeacherBadAnswer) {
		t.Fatalf("%+v", line.RowInfo[1].RL.Teacher)
	}
	if got := find(t, all, batch.TeacherIDs).Shape; !slices.Equal(got, []int{2, 3, 4}) {
		t.Errorf("shape %v", got)
	}
}
