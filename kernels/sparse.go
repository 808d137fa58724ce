package kernels

import (
	"cmp"
	"math"
	"slices"
)

// SparseTeacher holds a teacher's top log-probabilities: row r has entries Offsets[r]:Offsets[r+1] of IDs and LogProbs.
// The log-probabilities must already include the temperature. Rows may differ in length; ids in a row are unique
// (servers that return the sampled token alongside the top k repeat it: remove it first).
type SparseTeacher struct {
	Offsets  []int
	IDs      []int32
	LogProbs []float32
}

// SparseJSD is the divergence of a dense student from a sparse teacher.
type SparseJSD struct {
	opt  Options
	rest Rest
	path *tileSet
	pool runPool
}

// NewSparseJSD makes a divergence over the teacher's ids. RestBucket adds a term for all other ids together: their
// teacher mass is 1 - sum exp(logprob), and their student mass is summed exactly.
func NewSparseJSD(o Options, rest Rest) (*SparseJSD, error) {
	path, err := checkSupported(&o, rest)
	if err != nil {
		return nil, err
	}
	return &SparseJSD{opt: o, rest: rest, path: path}, nil
}

// checkSupported validates the options of a divergence on a support and returns the path they choose.
func checkSupported(o *Options, rest Rest) (*tileSet, error) {
	if rest > RestRenormalise {
		return nil, fail(CodeKind, "unknown rest %d", rest)
	}
	return o.choosePath()
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

func (b *SparseBatch) check(rest Rest) error {
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
	for r := range b.Student.Rows {
		if t.Offsets[r+1] < t.Offsets[r] {
			return fail(CodeOffsets, "row %d: offsets decrease from %d to %d", r, t.Offsets[r], t.Offsets[r+1])
		}
	}
	if end := t.Offsets[b.Student.Rows]; end != len(t.IDs) {
		return fail(CodeOffsets, "the last offset is %d, but there are %d ids", end, len(t.IDs))
	}
	seen := make([]uint64, b.Student.Cols/64+1)
	for r := range b.Student.Rows {
		if b.Labels != nil && b.Labels[r] == IgnoreIndex {
			continue
		}
		ids, lp := t.row(r)
		if err := checkSupport(r, ids, lp, b.Student.Cols, rest, seen); err != nil {
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
	renorm := rest == RestRenormalise
	mass := logSum(len(lp), func(i int) float64 { return float64(lp[i]) })
	switch {
	case renorm && len(ids) == 0:
		return fail(CodeIDs, "row %d: the support is empty, nothing to renormalise", r)
	case renorm && math.IsInf(mass, -1):
		return fail(CodeLogProb, "row %d: every log-probability is -Inf, nothing to renormalise", r)
	case !renorm && mass > massTolerance:
		return fail(CodeMass, "row %d: the total probability exceeds 1 (log mass %.4g): are these logits?", r, mass)
	case renorm && slices.Max(lp) > massTolerance:
		return fail(CodeMass, "row %d: probability above 1 (log-probability %v): are these logits?", r, slices.Max(lp))
	}
	return nil
}

// logSum returns log sum exp(x(i)), or -Inf without terms.
func logSum(n int, x func(int) float64) float64 {
	m := math.Inf(-1)
	for i := range n {
		m = max(m, x(i))
	}
	if math.IsInf(m, -1) {
		return m
	}
	s := 0.0
	for i := range n {
		s += math.Exp(x(i) - m)
	}
	return m + math.Log(s)
}

// Run computes the loss and the results requested by out; see JSD.Run. It sets TeacherLSE to 0.
func (j *SparseJSD) Run(b *SparseBatch, out *Output) (Stats, error) {
	err := b.check(j.rest)
	if err == nil {
		err = out.check(&b.Student)
	}
	if err != nil || b.Student.Rows == 0 {
		return Stats{}, err
	}
	r := j.pool.get(j.path)
	defer j.pool.put(r)
	r.job = &bucketJob{opt: &j.opt, student: &b.Student, sparse: &b.Teacher, out: out, rest: j.rest}
	return r.reduce(&j.opt, b.Student.Cols, &b.Student, b.Labels, b.Weights, b.Upstream, out)
}

// tailMass returns 1 - sum exp(lp), subtracting the largest term first so that nothing cancels if it is nearly 1.
func tailMass(lp []float32) float64 {
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
	for i, v := range lp {
		if i != top {
			rest -= math.Exp(float64(v))
		}
	}
	return rest
}

// TopKJSD is the divergence on the student's own k most probable entries, with a dense teacher.
type TopKJSD struct {
	opt  Options
	k    int
	rest Rest
	path *tileSet
	pool runPool
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
	return &TopKJSD{opt: o, k: k, rest: rest, path: path}, nil
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
	teacher := b.Teacher
	teacher.Stride, teacher.Cols = teacher.stride(), vocab
	r := j.pool.get(j.path)
	defer j.pool.put(r)
	k := min(j.k, b.Student.Cols)
	r.job = &bucketJob{opt: &j.opt, student: &b.Student, teacher: &teacher, k: k, out: out, rest: j.rest}
	return r.reduce(&j.opt, b.Student.Cols, &b.Student, b.Labels, b.Weights, b.Upstream, out)
}
