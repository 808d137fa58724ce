package kernels

import (
	"math"
	"slices"
)

// SparseTeacher holds a teacher's top log-probabilities: row r has entries Offsets[r]:Offsets[r+1] of IDs and
// LogProbs. The log-probabilities are at the temperature already. Rows may differ in length; ids of a row are unique
// (servers that return the sampled token beside the top k repeat it: remove it first).
type SparseTeacher struct {
	Offsets  []int
	IDs      []int32
	LogProbs []float32
}

// SparseJSD is the divergence of a dense student from a sparse teacher.
type SparseJSD struct {
	opt  Options
	rest Rest
	pool runPool
}

// NewSparseJSD compares the teacher's ids, and as one more term the rest of the vocabulary, whose teacher mass is 1 -
// sum exp(logprob) and whose student mass is summed exactly over the complement.
func NewSparseJSD(o Options, rest Rest) (*SparseJSD, error) {
	if err := checkSupported(&o, rest); err != nil {
		return nil, err
	}
	return &SparseJSD{opt: o, rest: rest}, nil
}

// checkSupported validates the options of a divergence on a support.
func checkSupported(o *Options, rest Rest) error {
	if rest > RestRenormalise {
		return fail(CodeKind, "unknown rest %d", rest)
	}
	return o.check()
}

// SparseBatch is the input of a sparse divergence.
type SparseBatch struct {
	Student  Matrix
	Teacher  SparseTeacher
	Labels   []int32   // [rows] or nil; IgnoreIndex leaves a row out
	Weights  []float32 // [rows] or nil; finite and >= 0
	Upstream *float64  // multiplies the gradient, for a loss that is part of another; nil: 1
}

// massTolerance is how far a row's log mass may exceed 0 through rounding of float32 or bfloat16 log-probabilities.
const massTolerance = 1e-3

func (b *SparseBatch) check(rest Rest) error {
	if err := b.Student.check("student"); err != nil {
		return err
	}
	if err := checkRows(b.Student.Rows, b.Labels, b.Weights); err != nil {
		return err
	}
	t := &b.Teacher
	if len(t.IDs) != len(t.LogProbs) {
		return fail(CodeShape, "%d ids but %d log-probabilities (logp)", len(t.IDs), len(t.LogProbs))
	}
	if len(t.Offsets) != b.Student.Rows+1 {
		return fail(CodeOffsets, "%d offsets for %d rows: want one more than rows", len(t.Offsets), b.Student.Rows)
	}
	if t.Offsets[0] != 0 {
		return fail(CodeOffsets, "the first offset is %d, want 0", t.Offsets[0])
	}
	for r := range b.Student.Rows {
		if t.Offsets[r+1] < t.Offsets[r] {
			return fail(CodeOffsets, "row %d: offsets decrease from %d to %d", r, t.Offsets[r], t.Offsets[r+1])
		}
	}
	if end := t.Offsets[b.Student.Rows]; end != len(t.IDs) {
		return fail(CodeOffsets, "the last offset is %d, there are %d ids", end, len(t.IDs))
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
	if renorm && len(ids) == 0 {
		return fail(CodeIDs, "row %d: the support is empty, nothing to renormalise", r)
	}
	mass := logSum(len(lp), func(i int) float64 { return float64(lp[i]) })
	if renorm && math.IsInf(mass, -1) {
		return fail(CodeLogProb, "row %d: every log-probability is -Inf, nothing to renormalise", r)
	}
	if !renorm && mass > massTolerance {
		return fail(CodeMass, "row %d: the log-probabilities' mass exceeds 1 (log mass %.4g): logits?", r, mass)
	}
	if renorm && slices.Max(lp) > massTolerance {
		return fail(CodeMass, "row %d: a probability exceeds 1 (log-probability %v): logits?", r, slices.Max(lp))
	}
	return nil
}

// logSum is log sum exp(x(i)), -Inf for nothing.
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

// Run computes the loss and whatever out asks for; see JSD.Run. TeacherLSE is not filled.
func (j *SparseJSD) Run(b *SparseBatch, out *Output) (Stats, error) {
	err := b.check(j.rest)
	if err == nil {
		err = out.check(&b.Student)
	}
	if err != nil || b.Student.Rows == 0 {
		return Stats{}, err
	}
	support := func(row int, _ *refRow) ([]int32, func(i int) float64, float64, error) {
		ids, lp := b.Teacher.row(row)
		rest := math.Log(max(0, tailMass(lp)))
		return ids, func(i int) float64 { return float64(lp[i]) }, rest, nil
	}
	job := bucketJob{
		opt:      &j.opt,
		student:  &b.Student,
		out:      out,
		weights:  b.Weights,
		rest:     j.rest,
		upstream: b.Upstream,
		support:  support,
	}
	st, err := job.run(&j.pool, b.Labels)
	if j.rest == RestBucket {
		for r := range b.Student.Rows {
			_, lp := b.Teacher.row(r)
			if (b.Labels == nil || b.Labels[r] != IgnoreIndex) && tailMass(lp) < 0 {
				st.MassClamped++
			}
		}
	}
	return st, err
}

// tailMass is 1 - sum exp(lp), subtracted from the largest down so that it does not cancel if one entry is nearly 1.
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
	pool runPool
}

// NewTopKJSD keeps the k largest student logits of a row, preferring the lower index on ties. The support counts as
// constant for the gradient. k above V means V.
func NewTopKJSD(o Options, k int, rest Rest) (*TopKJSD, error) {
	if err := checkSupported(&o, rest); err != nil {
		return nil, err
	}
	if k < 1 {
		return nil, fail(CodeK, "k is %d: want at least 1", k)
	}
	return &TopKJSD{opt: o, k: k, rest: rest}, nil
}

// Run computes the loss and whatever out asks for; see JSD.Run.
func (j *TopKJSD) Run(b *Batch, out *Output) (Stats, error) {
	v, err := b.vocab()
	if err == nil {
		err = checkRows(b.Student.Rows, b.Labels, b.Weights)
	}
	if err == nil {
		err = out.check(&b.Student)
	}
	if err == nil && b.Vocab > 0 && b.Vocab < b.Student.Cols {
		err = fail(CodeShape, "a valid-vocabulary limit is not supported with a top-k support")
	}
	if err != nil || b.Student.Rows == 0 {
		return Stats{}, err
	}
	support := func(row int, z *refRow) ([]int32, func(i int) float64, float64, error) {
		t := newRefRow(b.Teacher.row(row), b.Teacher.DType, v, j.opt.Temperature)
		ids := topK(&b.Student, row, j.k)
		if !t.finite {
			return nil, nil, 0, errNonFinite
		}
		lp := func(i int) float64 { return t.y(int(ids[i])) - t.s }
		return ids, lp, t.complement(ids), nil
	}
	job := bucketJob{
		opt: &j.opt, student: &b.Student, teacher: &b.Teacher, out: out, weights: b.Weights, rest: j.rest,
		upstream: b.Upstream, support: support,
	}
	return job.run(&j.pool, b.Labels)
}

// topK lists the indices of the k largest entries of a row in ascending order; ties go to the lowest index.
func topK(m *Matrix, row, k int) []int32 {
	n := m.Cols
	k = min(k, n)
	ids := make([]int32, n)
	x := make([]float64, n)
	for i := range ids {
		ids[i], x[i] = int32(i), m.at(row, i)
	}
	before := func(a, b int32) int {
		switch {
		case x[a] > x[b]:
			return -1
		case x[a] < x[b]:
			return 1
		}
		return int(a - b)
	}
	// Keep a heap of the k best with the worst at the root.
	worst := func(a, b int32) bool { return before(a, b) > 0 }
	heap := ids[:k:k]
	down := func(i int) {
		for {
			c := 2*i + 1
			if c >= k {
				return
			}
			if c+1 < k && worst(heap[c+1], heap[c]) {
				c++
			}
			if !worst(heap[c], heap[i]) {
				return
			}
			heap[i], heap[c] = heap[c], heap[i]
			i = c
		}
	}
	for i := k/2 - 1; i >= 0; i-- {
		down(i)
	}
	for _, id := range ids[k:] {
		if worst(heap[0], id) {
			heap[0] = id
			down(0)
		}
	}
	slices.Sort(heap)
	return heap
}

// complement returns the log-mass of a row outside ids, which may be in any order.
func (r *refRow) complement(ids []int32) float64 {
	sorted := slices.Clone(ids)
	slices.Sort(sorted)
	m := math.Inf(-1)
	each := func(f func(y float64)) {
		next := 0
		for i := range r.n {
			if next < len(sorted) && int(sorted[next]) == i {
				next++
				continue
			}
			f(r.y(i))
		}
	}
	each(func(y float64) { m = max(m, y) })
	if math.IsInf(m, -1) {
		return m
	}
	s := 0.0
	each(func(y float64) { s += math.Exp(y - m) })
	return m + math.Log(s) - r.s
}

// bucketJob compares a student with a teacher known only on a support, in float64.
type bucketJob struct {
	opt              *Options
	student, teacher *Matrix
	out              *Output
	weights          []float32
	rest             Rest
	upstream         *float64
	scale            float64
	// support returns a row's ids, the teacher's log-probability of each, and its log-mass elsewhere.
	support func(row int, z *refRow) ([]int32, func(i int) float64, float64, error)
}

var errNonFinite = fail(CodeNonFinite, "the row has no softmax")

func (q *bucketJob) run(pool *runPool, labels []int32) (Stats, error) {
	r := pool.get(nil)
	defer pool.put(r)
	r.start(q.student.Rows, labels)
	denom := q.opt.denominator(len(r.active), q.student.Cols)
	q.scale = 1 / denom
	if q.upstream != nil {
		q.scale *= *q.upstream
	}
	r.job = q
	clearIgnored(q.out, q.student, labels)
	r.do(q.opt.Workers)
	return r.collect(q.opt, q.weights, q.out, denom)
}

func (q *bucketJob) row(r *run, _ *worker, i, _ int) {
	row, o := r.active[i], q.opt
	z := newRefRow(q.student.row(row), q.student.DType, q.student.Cols, o.Temperature)
	res := &r.results[i]
	*res = rowResult{lseZ: z.lse(), loss: math.NaN()}
	var grad []float32
	if q.out.Grad != nil {
		st := q.out.gradStride(q.student.Cols)
		grad = q.out.Grad[row*st : row*st+q.student.Cols]
	}
	if !z.finite {
		fillNaN(grad)
		return
	}
	ids, lp, restT, err := q.support(row, &z)
	if err != nil {
		fillNaN(grad)
		return
	}
	scale := q.scale
	if q.weights != nil {
		scale *= float64(q.weights[row])
	}
	q.buckets(res, &z, ids, lp, restT, grad, scale*o.normFactor()/o.Temperature)
	res.loss *= o.normFactor()
}

// buckets computes the loss over the support and, unless renormalised, the rest as one more bucket.
func (q *bucketJob) buckets(
	res *rowResult, z *refRow, ids []int32, lp func(int) float64, restT float64, grad []float32, scale float64,
) {
	o := q.opt
	t, ok := q.terms(z, ids, lp, restT)
	if !ok {
		fillNaN(grad)
		return
	}
	g := make([]float64, len(t.a))
	res.loss = 0
	sum := 0.0
	for i := range t.a {
		l, d := entryTerms(t.a[i], t.b[i], t.b[i]-t.a[i], o.Beta, t.bregman)
		if o.clipsElements() && l > o.ClipValue {
			l, d = o.ClipValue, 0
			res.clipped++
		}
		res.loss += l
		sum += d
		g[i] = d
	}
	flat := o.clipToken(res)
	switch {
	case grad == nil:
		return
	case flat:
		clear(grad)
		return
	case math.IsInf(res.loss, 1):
		fillNaN(grad)
		return
	}
	clear(grad)
	if q.rest == RestBucket && !math.IsInf(t.restZ, -1) {
		rest := g[len(g)-1]
		for i := range grad {
			y := z.y(i) - z.s
			grad[i] = float32((math.Exp(y-t.restZ)*rest - math.Exp(y)*sum) * scale)
		}
	}
	for i, id := range ids {
		grad[id] = float32((g[i] - math.Exp(t.a[i])*sum) * scale)
	}
}

// bucketTerms are the log-probabilities over a row's support and, unless renormalised, of the rest as one more bucket.
type bucketTerms struct {
	a, b    []float64 // student, teacher
	restZ   float64   // the student's rest; -Inf: none
	bregman bool      // the form of the loss's summands
}

// terms fails if the support of a side is empty.
func (q *bucketJob) terms(z *refRow, ids []int32, lp func(int) float64, restT float64) (t bucketTerms, ok bool) {
	t = bucketTerms{
		a:       make([]float64, len(ids), len(ids)+1),
		b:       make([]float64, len(ids), len(ids)+1),
		restZ:   math.Inf(-1),
		bregman: q.opt.Clip != ClipElement,
	}
	for i, id := range ids {
		t.a[i], t.b[i] = z.y(int(id))-z.s, lp(i)
	}
	if q.rest == RestRenormalise {
		sa := logSum(len(t.a), func(i int) float64 { return t.a[i] })
		sb := logSum(len(t.b), func(i int) float64 { return t.b[i] })
		if math.IsInf(sa, -1) || math.IsInf(sb, -1) {
			return t, false
		}
		for i := range t.a {
			t.a[i] -= sa
			t.b[i] -= sb
		}
		return t, true
	}
	t.restZ = z.complement(ids)
	if math.IsInf(restT, -1) && q.teacher == nil {
		t.bregman = q.opt.Clip == ClipBregman // the teacher may not sum to 1, the Bregman form would not be the same
	}
	t.a, t.b = append(t.a, t.restZ), append(t.b, restT)
	return t, true
}
