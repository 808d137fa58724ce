package batch

import (
	"math"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/tensors"
)

// taughtRows returns three rows of 3, 2 and 2 tokens: with two entries per token, with only the token's own, and with
// none.
func taughtRows() (rows []*Row, ids []int64, logProbs []float32) {
	none := float32(math.Inf(-1))
	for i, n := range []int{3, 2, 2} {
		row := &Row{Sides: []Side{{IDs: make([]int32, n)}}, Meta: Meta{RL: &Scored{}}}
		switch i {
		case 0:
			row.Meta.RL.Teacher = &Taught{TopK: 2}
		case 1:
			row.Meta.RL.Teacher = &Taught{}
		}
		rows = append(rows, row)
	}
	return rows,
		[]int64{-1, -1, 7, 3, 9, 0, -1, -1, 4, -1, -1, -1, -1, -1, -1, -1, -1, -1},
		[]float32{none, none, -0.5, -1, 0, -9999, none, none, -3, none, none, none, none, none, none, none, none, none}
}

// TestTaughtIsChecked changes a teacher's columns, and what the index says about them, one thing at a time.
func TestTaughtIsChecked(t *testing.T) {
	line := &Line{VocabSize: 10}
	check := func(rows []*Row, ids []int64, logProbs []float32) error {
		return checkTaught(
			tensors.Of(TeacherIDs, ids, 3, 3, 2),
			tensors.Of(TeacherLogProbs, logProbs, 3, 3, 2),
			rows,
			line,
		)
	}
	if err := check(taughtRows()); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(rows []*Row, ids []int64, lps []float32){
		"invalid token id 10: the vocabulary has 10": func(_ []*Row, ids []int64, _ []float32) { ids[2] = 10 },
		"invalid log-prob of token 7: NaN": func(_ []*Row, _ []int64, lps []float32) {
			lps[2] = float32(math.NaN())
		},
		"invalid log-prob of token 7: 0.5": func(_ []*Row, _ []int64, lps []float32) { lps[2] = 0.5 },
		"invalid log-prob of token 3: -Inf": func(_ []*Row, _ []int64, lps []float32) {
			lps[3] = float32(math.Inf(-1))
		},
		"token 3 is more probable": func(_ []*Row, _ []int64, lps []float32) { lps[3] = -0.25 },
		"duplicate token 7":        func(_ []*Row, ids []int64, _ []float32) { ids[3] = 7 },
		"sum to 1.2":               func(_ []*Row, _ []int64, lps []float32) { lps[3] = -0.5 },
		"invalid entry 0 after the last: got -1, -0.5,": func(_ []*Row, ids []int64, _ []float32) { ids[2], ids[3] = -1, 5 },
		"invalid entry 1 after the last: got -1, -1,":   func(_ []*Row, ids []int64, _ []float32) { ids[3] = -1 },
		"row 0, position 1: invalid entries: got 1": func(_ []*Row, ids []int64, lps []float32) {
			ids[3], lps[3] = -1, lps[0]
		},
		"position 0: unexpected entries: got 1": func(_ []*Row, ids []int64, lps []float32) { ids[0], lps[0] = 1, -1 },
		"row 1, position 2: unexpected entries: got 1": func(_ []*Row, ids []int64, lps []float32) {
			ids[10], lps[10] = 1, -1
		},
		"row 2, position 1: unexpected entries: got 1": func(_ []*Row, ids []int64, lps []float32) {
			ids[14], lps[14] = 1, -1
		},
		"row 2, position 1: invalid entries: got 0": func(rows []*Row, _ []int64, _ []float32) {
			rows[2].Meta.RL.Teacher = &Taught{TopK: 1}
		},
		"row 0, position 1: unexpected entries: got 2": func(rows []*Row, _ []int64, _ []float32) {
			rows[0].Meta.RL.Teacher.Failed = "x"
		},
		"row 0 has 3 tokens, its teacher &{Top": func(rows []*Row, _ []int64, _ []float32) {
			rows[0].Meta.RL.Teacher.TopK = 3
		},
		"row 2 has 4 tokens": func(rows []*Row, _ []int64, _ []float32) { rows[2].Sides[0].IDs = make([]int32, 4) },
	} {
		t.Run(want, func(t *testing.T) {
			rows, ids, lps := taughtRows()
			change(rows, ids, lps)
			if err := check(rows, ids, lps); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
	rows, ids, lps := taughtRows()
	for want, pair := range map[string][2]tensors.Tensor{
		"teacher_topk_ids: got shape [18]": {
			tensors.Of(TeacherIDs, ids, 18),
			tensors.Of(TeacherLogProbs, lps, 3, 3, 2),
		},
		"for 3 rows": {
			tensors.Of(TeacherIDs, ids, 2, 3, 3),
			tensors.Of(TeacherLogProbs, lps, 2, 3, 3),
		},
		"teacher_topk_logprobs [1 3 2]": {
			tensors.Of(TeacherIDs, ids, 3, 3, 2),
			tensors.Of(TeacherLogProbs, lps[:6], 1, 3, 2),
		},
		"tensor teacher_topk_ids:": {
			tensors.Of(TeacherIDs, lps, 3, 3, 2),
			tensors.Of(TeacherLogProbs, lps, 3, 3, 2),
		},
		"tensor teacher_topk_logprobs:": {
			tensors.Of(TeacherIDs, ids, 3, 3, 2),
			tensors.Of(TeacherLogProbs, ids, 3, 3, 2),
		},
		"tensor teacher_topk_logprobs: no": {tensors.Of(TeacherIDs, ids, 3, 3, 2), {}},
	} {
		t.Run(want, func(t *testing.T) {
			if err := checkTaught(pair[0], pair[1], rows, line); err == nil ||
				!strings.Contains(err.Error(), strings.TrimSuffix(want, " no")) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}
