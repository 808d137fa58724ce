package kernels

import (
	"cmp"
	"math"
	"slices"
)

// SparseTeacher holds a teacher's top log-probabilities: row r has entries Offsets[r]:Offsets[r+1] of IDs and LogProbs.
// The log-probabilities must already include the temperature. Rows may differ in length; the ids in a row must be
// unique. Some servers return the sampled token in addition to the top k, which may repeat an id; remove the duplicate.
type SparseTeacher struct {
	Offsets  []int
	IDs      []int32
	LogProbs []float32
}

// SparseJSD is the divergence of a dense student from a sparse teacher.
type SparseJSD struct {
	opt   Options
	rest  Rest
	path  *tileSet
	table *table
	pool  runPool
}

// NewSparseJSD makes a divergence over the teacher's ids. RestBucket adds a term for all other ids together: their
// teacher mass is 1 - sum exp(logprob), and their student mass is summed exactly.
func NewSparseJSD(o Options, rest Rest) (*SparseJSD, error) {
	path, err := checkSupported(&o, rest)
	if err != nil {
		return nil, err
	}
	return &SparseJSD{opt: o, rest: rest, path: path, table: o.supportTable()}, nil
}

// checkSupported validates the options of a divergence on a support and returns the path they choose.
func checkSupported(o *Options, rest Rest) (*tileSet, error) {
	if rest > RestRenormalise {
		return nil, fail(CodeKind, "unknown rest %d", rest)
	}
	return o.choosePath()
}

// supportTable returns a table for the terms on a support, or nil if beta is too close to an end for a table.
func (o *Options) supportTable() *table {
	if interior := min(o.Beta, 1-o.Beta); interior > 0 && interior < nearEnd {
		return nil
	}
	return newTable(o.Beta)
}

// Path returns the name of the path in use.
func (j *SparseJSD) Path() string { return j.path.name }

// SparseBatch is the input of a sparse divergence.
type SparseBatch struct {
	Student  Matrix
	Teacher  SparseTeacher
	Labels   []int32   // [rows] or nil; IgnoreIndex excludes a row
	Weights  []float32 // [rows] or nil; finite and >= 0
	Upstream *float64  // as in Batch: multiplies the gradient; nil means 1
}

// massTolerance is the largest amount by which a row's log mass may exceed 0 due to rounding of float32 or bfloat16
// log-probabilities.
const massTolerance = 1e-3

func (b *SparseBatch) check(r *run, rest Rest) error {
	err := cmp.Or(b.Student.check("student"), checkRows(b.Student.Rows, b.Labels, b.Weights))
	t := &b.Teacher
	switch {
	case err != nil:
		return err
	case len(t.IDs) != len(t.LogProbs):
		return fail(CodeShape, "%d ids but %d log-probabilities (logp)", len(t.IDs), len(t.LogProbs))
	case len(t.Offsets) != b.Student.Rows+1:
		return fail(CodeOffsets, "%d offsets for %d rows: expected one more than rows", len(t.Offsets), b.Student.Rows)
	case t.Offsets[0] != 0:
		return fail(CodeOffsets, "invalid first offset %d: expected 0", t.Offsets[0])
	}
	for row := range b.Student.Rows {
		if t.Offsets[row+1] < t.Offsets[row] {
			return fail(CodeOffsets, "row %d: offsets decrease from %d to %d", row, t.Offsets[row], t.Offsets[row+1])
		}
	}
	if end := t.Offsets[b.Student.Rows]; end != len(t.IDs) {
		return fail(CodeOffsets, "the last offset is %d, but there are %d ids", end, len(t.IDs))
	}
	return b.checkSupports(r, rest)
}

// checkSupports validates the rows' ids and log-probabilities, and keeps the probabilities in r unless they will be
// renormalised.
func (b *SparseBatch) checkSupports(r *run, rest Rest) error {
	t := &b.Teacher
	words := b.Student.Cols/64 + 1
	r.seen = slices.Grow(r.seen[:0], words)[:words] // checkSupport leaves it all-zero
	r.probs = slices.Grow(r.probs[:0], len(t.IDs))[:len(t.IDs)]
	for row := range b.Student.Rows {
		if b.Labels != nil && b.Labels[row] == IgnoreIndex {
			continue
		}
		ids, lp := t.row(row)
		if err := checkSupport(row, ids, lp, b.Student.Cols, rest, r.seen); err != nil {
			return err
		}
		if err := checkMass(row, lp, rest, r.probs[t.Offsets[row]:]); err != nil {
			return err
		}
	}
	return nil
}

func (t *SparseTeacher) row(r int) ([]int32, []float32) {
	lo, hi := t.Offsets[r], t.Offsets[r+1]
	return t.IDs[lo:hi], t.LogProbs[lo:hi]
}

// checkSupport validates one row; seen is an all-zero bitmap of the vocabulary and is left all-zero.
func checkSupport(r int, ids []int32, lp []float32, v int, rest Rest, seen []uint64) (err error) {
	marked := 0
	defer func() {
		for _, id := range ids[:marked] {
			seen[id/64] = 0
		}
	}()
	for i, id := range ids {
		if id < 0 || int(id) >= v {
			return fail(CodeIDs, "row %d: id %d is out of range, V=%d", r, id, v)
		}
		if seen[id/64]>>(id%64)&1 == 1 {
			return fail(CodeIDs, "row %d: id %d is a duplicate", r, id)
		}
		seen[id/64] |= 1 << (id % 64)
		marked = i + 1
		if x := float64(lp[i]); math.IsNaN(x) || math.IsInf(x, 1) {
			return fail(CodeLogProb, "row %d: log-probability at index %d is %v", r, i, x)
		}
	}
	if rest == RestRenormalise && len(ids) == 0 {
		return fail(CodeIDs, "row %d: the support is empty, nothing to renormalise", r)
	}
	return nil
}

// checkMass validates a row's log-probabilities and stores the probabilities in probs, unless they are renormalised.
func checkMass(r int, lp []float32, rest Rest, probs []float64) error {
	if rest == RestRenormalise {
		switch top := slices.Max(lp); {
		case math.IsInf(float64(top), -1):
			return fail(CodeLogProb, "row %d: every log-probability is -Inf, nothing to renormalise", r)
		case top > massTolerance:
			return fail(CodeMass, "row %d: probability above 1 (log-probability %v): are these logits?", r, top)
		}
		return nil
	}
	sum := 0.0
	for i, x := range lp {
		y := float64(x) * math.Log2E
		if y > 1000 { // several times faster than min
			y = 1000
		}
		p := exp2(y)
		probs[i] = p
		sum += p
	}
	if mass := math.Log(sum); mass > massTolerance {
		return fail(CodeMass, "row %d: the total probability exceeds 1 (log mass %.4g): are these logits?", r, mass)
	}
	return nil
}

// Run computes the loss and the results requested by out; see JSD.Run. It sets TeacherLSE to 0.
func (j *SparseJSD) Run(b *SparseBatch, out *Output) (Stats, error) {
	r := j.pool.get(j.path)
	defer j.pool.put(r)
	err := b.check(r, j.rest)
	if err == nil {
		err = out.check(&b.Student) // after b.check, because it reads the student's memory
	}
	if err != nil || b.Student.Rows == 0 {
		return Stats{}, err
	}
	r.support = bucketJob{
		opt: &j.opt, table: j.table, student: &b.Student, sparse: &b.Teacher, probs: r.probs, out: out, rest: j.rest,
	}
	r.job = &r.support
	return r.reduce(&j.opt, b.Student.Cols, &b.Student, b.Labels, b.Weights, b.Upstream, out)
}

// tailMass returns 1 - sum exp(lp), given each exp(lp) in probs. It subtracts the largest first, so that nothing
// cancels if the sum is nearly 1.
func tailMass(lp []float32, probs []float64) float64 {
	if len(lp) == 0 {
		return 1
	}
	top := 0
	for i, v := range lp {
		if v > lp[top] {
			top = i
		}
	}
	rest := -math.Expm1(float64(lp[top]))
	for i, p := range probs[:len(lp)] {
		if i != top {
			rest -= p
		}
	}
	return rest
}

// TopKJSD is the divergence on the student's own k most probable entries, with a dense teacher.
type TopKJSD struct {
	opt   Options
	k     int
	rest  Rest
	path  *tileSet
	table *table
	pool  runPool
}

// NewTopKJSD keeps the k largest student logits of a row, preferring the lower index on ties. The gradient treats the
// support as constant. k above V means V.
func NewTopKJSD(o Options, k int, rest Rest) (*TopKJSD, error) {
	path, err := checkSupported(&o, rest)
	if err != nil {
		return nil, err
	}
	if k < 1 {
		return nil, fail(CodeK, "k is %d: want at least 1", k)
	}
	return &TopKJSD{opt: o, k: k, rest: rest, path: path, table: o.supportTable()}, nil
}

// Path returns the name of the path in use.
func (j *TopKJSD) Path() string { return j.path.name }

// Run computes the loss and the results requested by out; see JSD.Run. It sets TeacherLSE to 0.
func (j *TopKJSD) Run(b *Batch, out *Output) (Stats, error) {
	vocab, err := b.check(out)
	if err == nil && b.Vocab > 0 && b.Vocab < b.Student.Cols {
		err = fail(CodeShape, "a valid-vocabulary limit is not supported with a top-k support")
	}
	if err != nil || b.Student.Rows == 0 {
		return Stats{}, err
	}
	r := j.pool.get(j.path)
	defer j.pool.put(r)
	k := min(j.k, b.Student.Cols)
	r.support = bucketJob{
		opt: &j.opt, table: j.table, student: &b.Student, dense: b.Teacher, k: k, out: out, rest: j.rest,
	}
	teacher := &r.support.dense
	teacher.Stride, teacher.Cols = teacher.stride(), vocab
	r.support.teacher = teacher
	r.job = &r.support
	return r.reduce(&j.opt, b.Student.Cols, &b.Student, b.Labels, b.Weights, b.Upstream, out)
}
