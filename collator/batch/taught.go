package batch

import (
	"fmt"
	"math"
	"slices"

	"github.com/nat-go/nat-go/internal/tensors"
)

// Columns [R,T,K] of the rl channel. They hold a teacher's most probable tokens for (not after) each position, given
// the preceding tokens, most probable first. Missing entries are -1 and -inf. A row without a response from the
// teacher has only missing entries.
const (
	TeacherIDs      = "teacher_topk_ids"
	TeacherLogProbs = "teacher_topk_logprobs"
)

// maxSumExcess is the maximum by which the sum of a position's probabilities may exceed 1, due to rounding.
const maxSumExcess = 0.05

// checkTaught checks a teacher's columns against each row's row_info. In a row for which the teacher responded, every
// token but the first must have at least the stated number of entries. Other rows must have none.
func checkTaught(ids, logProbs tensors.Tensor, rows []*Row, l *Line) error {
	top, err := tensors.Items[int64](ids)
	if err != nil {
		return fmt.Errorf("tensor %s: %w", TeacherIDs, err)
	}
	lps, err := tensors.Items[float32](logProbs)
	if err != nil {
		return fmt.Errorf("tensor %s: %w", TeacherLogProbs, err)
	}
	shape := ids.Shape
	if len(shape) != 3 || shape[0] != len(rows) || len(lps) != len(top) {
		return fmt.Errorf("invalid tensor %s: got shape %v and %s %v for %d rows", TeacherIDs, shape, TeacherLogProbs,
			logProbs.Shape, len(rows))
	}
	width, k := shape[1], shape[2]
	for r, row := range rows {
		tokens := row.Sides[0].IDs
		t := row.Meta.RL.Teacher
		told := t != nil && t.Failed == ""
		if width < len(tokens) || told && max(1, t.TopK) > k {
			return fmt.Errorf("invalid tensor %s: got shape %v; row %d has %d tokens, its teacher %+v", TeacherIDs,
				shape, r, len(tokens), t)
		}
		for p := range width {
			at := (r*width + p) * k
			want := 0
			if told && p > 0 && p < len(tokens) {
				if want = max(1, t.TopK); l.VocabSize > 0 {
					want = min(want, int(l.VocabSize))
				}
			}
			if err := checkEntries(top[at:at+k], lps[at:at+k], want, l.VocabSize); err != nil {
				return fmt.Errorf("invalid tensor %s: row %d, position %d: %w", TeacherIDs, r, p, err)
			}
		}
	}
	return nil
}

// checkEntries checks the entries at one position. There must be at least want entries, or none if want is 0. They must
// be sorted by log-prob, best first, with valid log-probs and distinct tokens, and no entry may follow a missing one.
func checkEntries(ids []int64, logProbs []float32, want int, vocab int64) error {
	n, mass := 0, 0.0
	for n < len(ids) && ids[n] >= 0 {
		lp := float64(logProbs[n])
		switch {
		case vocab > 0 && ids[n] >= vocab:
			return fmt.Errorf("invalid token id %d: the vocabulary has %d", ids[n], vocab)
		case !(lp <= 0) || math.IsInf(lp, -1):
			return fmt.Errorf("invalid log-prob of token %d: %g", ids[n], lp)
		case n > 0 && logProbs[n] > logProbs[n-1]:
			return fmt.Errorf("invalid order: token %d is more probable than the one before it", ids[n])
		case slices.Contains(ids[:n], ids[n]):
			return fmt.Errorf("duplicate token %d", ids[n])
		}
		mass += math.Exp(lp)
		n++
	}
	for i := n; i < len(ids); i++ {
		if ids[i] != -1 || !math.IsInf(float64(logProbs[i]), -1) {
			return fmt.Errorf("invalid entry %d after the last: got %d, %g, expected -1, -Inf", i, ids[i], logProbs[i])
		}
	}
	switch {
	case want == 0 && n > 0:
		return fmt.Errorf("unexpected entries: got %d, expected none", n)
	case n < want:
		return fmt.Errorf("invalid entries: got %d, row_info says %d", n, want)
	case mass > 1+maxSumExcess:
		return fmt.Errorf("invalid probabilities: they sum to %g", mass)
	}
	return nil
}
