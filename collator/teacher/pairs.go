package teacher

import (
	"fmt"
	"math"
	"slices"

	"github.com/nat-go/nat-go/internal/tensors"
)

// Names of the columns that this package adds to an sdpo batch.
const (
	topIDs      = "pair_teacher_topk_ids"
	topLogProbs = "pair_teacher_topk_logprobs"
)

// noEntry is the id of a missing entry; its log-prob is -inf.
const noEntry = -1

// noEntries returns the content of columns with n missing entries.
func noEntries(n int) (ids []int64, logProbs []float32) {
	return slices.Repeat([]int64{noEntry}, n), slices.Repeat([]float32{float32(math.Inf(-1))}, n)
}

// Pairs is the pair table of an sdpo batch, together with the rows that the table refers to.
type Pairs struct {
	Student, Teacher       [][]int32 // token ids of the rows, without padding
	StudentRow, StudentPos []int64   // [P], row and position of the logits that predict the target
	TeacherRow, TeacherPos []int64   // [P]
	Target, Site           []int64   // [P]
	Weight                 []float32 // [P]
}

// ReadPairs reads the pair table from a batch's tensors and checks that every pair predicts its target on both sides.
func ReadPairs(all []tensors.Tensor) (*Pairs, error) {
	r := newTensorReader(all)
	p := &Pairs{Student: r.rows("student_"), Teacher: r.rows("teacher_")}
	for _, c := range []struct {
		name string
		to   *[]int64
	}{
		{"student_row", &p.StudentRow},
		{"student_pos", &p.StudentPos},
		{"teacher_row", &p.TeacherRow},
		{"teacher_pos", &p.TeacherPos},
		{"target_id", &p.Target},
		{"site", &p.Site},
	} {
		*c.to, _ = r.column("pair_"+c.name, 1)
		if r.err == nil && len(*c.to) != len(p.StudentRow) {
			r.err = fmt.Errorf("invalid pair_%s: got %d entries, pair_student_row has "+
				"%d", c.name, len(*c.to), len(p.StudentRow))
		}
	}
	p.Weight = r.weights(p.Len())
	if r.err != nil {
		return nil, r.err
	}
	return p, p.check()
}

// tensorReader reads a batch's tensors up to the first error.
type tensorReader struct {
	byName map[string]tensors.Tensor
	err    error
}

func newTensorReader(all []tensors.Tensor) *tensorReader {
	r := &tensorReader{byName: map[string]tensors.Tensor{}}
	for _, t := range all {
		r.byName[t.Name] = t
	}
	return r
}

// column returns a tensor's items and shape.
func (r *tensorReader) column(name string, dims int) ([]int64, []int) {
	if r.err != nil {
		return nil, nil
	}
	var v []int64
	t, ok := r.byName[name]
	switch {
	case !ok:
		r.err = fmt.Errorf("missing tensor %s in the batch", name)
	case len(t.Shape) != dims:
		r.err = fmt.Errorf("invalid tensor %s: got shape %v, expected %d dimensions", name, t.Shape, dims)
	default:
		v, r.err = tensors.Items[int64](t)
	}
	return v, t.Shape
}

// rows returns the token ids in each row of a side, without padding.
func (r *tensorReader) rows(prefix string) (out [][]int32) {
	ids, shape := r.column(prefix+"input_ids", 2)
	mask, other := r.column(prefix+"attention_mask", 2)
	if r.err != nil {
		return nil
	}
	if shape[0] != other[0] || shape[1] != other[1] {
		r.err = fmt.Errorf("invalid %sinput_ids: got shape %v, its mask has %v", prefix, shape, other)
		return nil
	}
	for k := range shape[0] {
		var row []int32
		for i := k * shape[1]; i < (k+1)*shape[1] && mask[i] == 1; i++ {
			if ids[i] < 0 || ids[i] > math.MaxInt32 {
				r.err = fmt.Errorf("invalid %sinput_ids: row %d has id %d", prefix, k, ids[i])
				return nil
			}
			row = append(row, int32(ids[i]))
		}
		out = append(out, row)
	}
	return out
}

// weights returns the weights of n pairs. Each is 1 if the batch doesn't have weights.
func (r *tensorReader) weights(n int) []float32 {
	t, ok := r.byName["pair_weight"]
	if !ok {
		return slices.Repeat([]float32{1}, n)
	}
	w, err := tensors.Items[float32](t)
	if r.err == nil && (err != nil || len(w) != n) {
		r.err = fmt.Errorf("invalid pair_weight: got %d entries for %d pairs (%v)", len(w), n, err)
	}
	return w
}

// Len returns the number of pairs.
func (p *Pairs) Len() int { return len(p.StudentRow) }

func (p *Pairs) check() error {
	for i := range p.StudentRow {
		for _, side := range []struct {
			name     string
			rows     [][]int32
			row, pos int64
		}{
			{"student", p.Student, p.StudentRow[i], p.StudentPos[i]},
			{"teacher", p.Teacher, p.TeacherRow[i], p.TeacherPos[i]},
		} {
			if side.row < 0 || side.row >= int64(len(side.rows)) || side.pos < 0 ||
				side.pos+1 >= int64(len(side.rows[side.row])) {
				return fmt.Errorf("pair %d: no token follows %s row %d, position %d", i, side.name, side.row,
					side.pos)
			}
			if got := side.rows[side.row][side.pos+1]; int64(got) != p.Target[i] {
				return fmt.Errorf("pair %d: %s row %d has id %d after position %d; the target is %d", i, side.name,
					side.row, got, side.pos, p.Target[i])
			}
		}
		if p.Site[i] < 0 {
			return fmt.Errorf("pair %d belongs to an unknown site %d", i, p.Site[i])
		}
	}
	return nil
}

// Sequences returns the teacher rows, each from the first position a pair refers to. Without pairs, IDs is nil.
func (p *Pairs) Sequences() []Sequence {
	out := make([]Sequence, len(p.Teacher))
	for i, r := range p.TeacherRow {
		pos := int(p.TeacherPos[i])
		if s := &out[r]; s.IDs == nil {
			*s = Sequence{IDs: p.Teacher[r], From: pos}
		} else {
			s.From = min(s.From, pos)
		}
	}
	return out
}

// Columns returns the teacher columns [P,K] for pairs, from the scores of the teacher rows; nil scores leave a row's
// entries missing.
func (p *Pairs) Columns(scores []*Scores, k int) []tensors.Tensor {
	ids, lps := noEntries(p.Len() * k)
	for i, r := range p.TeacherRow {
		if scores[r] == nil {
			continue
		}
		for j, e := range scores[r].Top[p.TeacherPos[i]] {
			if j < k {
				ids[i*k+j], lps[i*k+j] = int64(e.ID), e.LogProb
			}
		}
	}
	return []tensors.Tensor{tensors.Of(topIDs, ids, p.Len(), k), tensors.Of(topLogProbs, lps, p.Len(), k)}
}
