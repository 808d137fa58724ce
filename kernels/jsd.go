package kernels

import (
	"cmp"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"
)

// JSD computes a generalised Jensen-Shannon divergence. It holds the fitted table and scratch memory, is safe for
// concurrent use and is worth reusing, because creating one takes a millisecond.
type JSD struct {
	opt   Options
	path  *tileSet
	table *table
	end   bool // beta is 0 or 1
	exact bool // every row takes the float64 path
	pool  runPool
	// steep means that beta is so close to 0 or 1 that the path's table is too coarse for gradients, which then take
	// the float64 path.
	steep bool
}

// NewJSD checks the options and fits the table for its beta.
func NewJSD(o Options) (*JSD, error) {
	path, err := o.choosePath()
	if err != nil {
		return nil, err
	}
	j := &JSD{opt: o, path: path, end: o.Beta == 0 || o.Beta == 1}
	interior := min(o.Beta, 1-o.Beta)
	j.steep = path.tabH > 0 && !j.end && interior < steepEnd
	j.exact = (!j.end && interior < nearEnd) || (j.end && o.Clip == ClipElement) ||
		o.Temperature < 1e-6 || o.Temperature > 1e6
	if !j.exact {
		j.table = newTable(o.Beta)
	}
	return j, nil
}

// nearEnd is the distance of beta from 0 or 1 below which the bend of psi, at log2(1/beta), leaves the table.
const nearEnd = 1e-4

// steepEnd is the distance of beta from 0 or 1 below which the bend of psi is in a wide segment of the signed table,
// where rate has a relative error of more than 2e-6.
const steepEnd = 0.004

// Path returns the name of the path in use.
func (j *JSD) Path() string { return j.path.name }

// Batch is the input of a dense divergence: rows of student and teacher logits that share an element type and a
// vocabulary.
type Batch struct {
	Student, Teacher Matrix
	// Vocab, if above 0, is the number of leading columns that hold the vocabulary. Other columns are padding: they are
	// not read, and get gradient 0. With Vocab, the two sides may differ in width.
	Vocab   int
	Labels  []int32   // [rows] or nil; IgnoreIndex excludes a row
	Weights []float32 // [rows] or nil; finite and >= 0
	// Upstream is the derivative of a total loss with respect to this reduced loss; the gradient is multiplied by it.
	// nil means 1.
	Upstream *float64
}

// Output receives per-row results; leave unwanted slices nil. Ignored rows get 0.
type Output struct {
	RowLoss    []float64 // [rows] loss before weight and denominator
	StudentLSE []float64 // [rows] log sum exp(x/T)
	TeacherLSE []float64 // [rows]
	Clipped    []int32   // [rows] number of clipped entries, or 1 if the row's loss is clipped
	// Grad is d(reduced loss)/d(student logits), rows of Student.Cols with stride GradStride (0 means Student.Cols). It
	// may be the student's own float32 memory with the same stride.
	Grad       []float32
	GradStride int
}

// Stats counts the outcomes of the rows.
type Stats struct {
	Loss      float64 // the reduced loss
	Active    int     // rows that took part
	NonFinite int     // rows without a softmax, whose loss is NaN
	Infinite  int     // rows with loss +Inf, from a support mismatch at beta 0 or 1
	Clipped   int     // clipped entries or row losses
	Exact     int     // rows computed on the float64 path, 5 to 300 times slower; see Slow
	// MassClamped counts sparse rows whose teacher probabilities summed to slightly more than 1, with RestBucket.
	MassClamped int
}

// Slow reports how many of the active rows were computed on the float64 path. It returns "" if that was at most one in
// a hundred.
func (s Stats) Slow() string {
	if s.Exact*100 <= s.Active {
		return ""
	}
	return fmt.Sprintf("%d of %d rows of logits took the float64 path, which is 5 to 300 times slower: they hold a "+
		"NaN, an infinity or logits in the millions, or the options require it: element clips at beta 0 or 1, a beta "+
		"within %g of 0 or 1", s.Exact, s.Active, nearEnd)
}

func (b *Batch) vocab() (int, error) {
	s, t := &b.Student, &b.Teacher
	err := cmp.Or(s.check("student"), t.check("teacher"))
	switch {
	case err != nil:
		return 0, err
	case s.Rows != t.Rows:
		return 0, fail(CodeShape, "student rows=%d, teacher rows=%d", s.Rows, t.Rows)
	case s.DType != t.DType:
		return 0, fail(CodeShape, "student is %v, teacher is %v: convert one", s.DType, t.DType)
	case b.Vocab < 0 || (s.Rows > 0 && (b.Vocab > s.Cols || b.Vocab > t.Cols)):
		return 0, fail(CodeShape, "vocabulary %d exceeds student V=%d or teacher V=%d", b.Vocab, s.Cols, t.Cols)
	case b.Vocab > 0:
		return b.Vocab, nil
	case s.Cols != t.Cols:
		return 0, fail(CodeShape, "student V=%d, teacher V=%d: set the vocabulary's size if one is padded", s.Cols, t.Cols)
	}
	return s.Cols, nil
}

// check checks a batch and the memory for its results, and returns the size of the vocabulary.
func (b *Batch) check(out *Output) (v int, err error) {
	if v, err = b.vocab(); err == nil {
		err = cmp.Or(checkRows(b.Student.Rows, b.Labels, b.Weights), out.check(&b.Student))
	}
	return v, err
}

func checkRows(rows int, labels []int32, weights []float32) error {
	if labels != nil && len(labels) != rows {
		return fail(CodeShape, "%d labels for %d rows", len(labels), rows)
	}
	if weights != nil && len(weights) != rows {
		return fail(CodeShape, "%d weights for %d rows", len(weights), rows)
	}
	for r, w := range weights {
		if !(w >= 0) || math.IsInf(float64(w), 1) {
			return fail(CodeWeight, "row %d: invalid weight %v: expected a finite number, 0 or above", r, w)
		}
	}
	return nil
}

func (o *Output) check(student *Matrix) error {
	n := student.Rows
	return cmp.Or(checkRoom("row_loss", o.RowLoss, n, " rows"), checkRoom("student_lse", o.StudentLSE, n, " rows"),
		checkRoom("teacher_lse", o.TeacherLSE, n, " rows"), checkRoom("clipped", o.Clipped, n, " rows"),
		o.checkGrad(student))
}

// checkRoom checks that a slice is nil or has room for n results.
func checkRoom[T any](name string, to []T, n int, unit string) error {
	if to != nil && len(to) < n {
		return fail(CodeShape, "%s holds %d of %d%s", name, len(to), n, unit)
	}
	return nil
}

func (o *Output) gradStride(v int) int { return cmp.Or(o.GradStride, v) }

// gradRow returns the memory for a row of v gradients, or nil.
func (o *Output) gradRow(row, v int) []float32 {
	if o.Grad == nil {
		return nil
	}
	at := row * o.gradStride(v)
	return o.Grad[at : at+v]
}

// set stores a row's result.
func (o *Output) set(row int, r *rowResult) {
	if o.RowLoss != nil {
		o.RowLoss[row] = r.loss
	}
	if o.StudentLSE != nil {
		o.StudentLSE[row] = r.lseZ
	}
	if o.TeacherLSE != nil {
		o.TeacherLSE[row] = r.lseT
	}
	if o.Clipped != nil {
		o.Clipped[row] = int32(r.clipped)
	}
}

func (o *Output) checkGrad(student *Matrix) error {
	if o.Grad == nil || student.Rows == 0 {
		return nil
	}
	st := o.gradStride(student.Cols)
	if st < student.Cols {
		return fail(CodeShape, "grad stride %d is smaller than V=%d", st, student.Cols)
	}
	if need := (student.Rows-1)*st + student.Cols; len(o.Grad) < need {
		return fail(CodeShape, "grad has len %d, need %d", len(o.Grad), need)
	}
	same := student.DType == Float32 && &o.Grad[0] == &student.F32[0] && st == student.stride()
	if !same && overlap(o.Grad, student) {
		return fail(CodeAlias, "grad and student overlap: only the same float32 memory with the same stride is allowed")
	}
	return nil
}

// overlap reports whether two pieces of memory share bytes.
func overlap(g []float32, m *Matrix) bool {
	if len(g) == 0 || m.len() == 0 {
		return false
	}
	a, b := uintptr(unsafe.Pointer(&g[0])), uintptr(m.row(0))
	return a < b+uintptr(m.len()*m.DType.Size()) && b < a+uintptr(4*len(g))
}

// Run computes the loss and the results requested by out. It computes the gradient if out.Grad is set. Once warm, it
// allocates nothing, except for rows that only the scalar definition can compute, such as rows without a softmax.
func (j *JSD) Run(b *Batch, out *Output) (Stats, error) {
	v, err := b.check(out)
	if err == nil && out.Grad != nil && b.Student.Rows > 0 && overlap(out.Grad, &b.Teacher) {
		err = fail(CodeAlias, "grad and teacher overlap")
	}
	if err != nil || b.Student.Rows == 0 {
		return Stats{}, err
	}
	r := j.pool.get(j.path)
	defer j.pool.put(r)
	r.dense = jsdJob{j: j, b: b, out: out, v: v}
	r.job = &r.dense
	return r.reduce(&j.opt, v, &b.Student, b.Labels, b.Weights, b.Upstream, out)
}

func clearIgnored(out *Output, student *Matrix, labels []int32) {
	for i, l := range labels {
		if l != IgnoreIndex {
			continue
		}
		out.set(i, &rowResult{})
		clear(out.gradRow(i, student.Cols))
	}
}

// jsdJob is the work of one Run.
type jsdJob struct {
	j   *JSD
	b   *Batch
	out *Output
	v   int
}

// row computes active row number i of the run; next is the row that this worker computes next, or -1.
func (q *jsdJob) row(r *run, w *worker, i, next int) {
	b, row := q.b, r.active[i]
	var nx nextRow
	if next >= 0 {
		nx = nextRow{b.Student.row(r.active[next]), b.Teacher.row(r.active[next])}
	}
	grad := q.out.gradRow(row, b.Student.Cols)
	if grad != nil {
		clear(grad[q.v:])
		grad = grad[:q.v]
	}
	r.results[i] = q.j.jsdRow(w, b.Student.row(row), b.Teacher.row(row), b.Student.DType, q.v, nx, grad, r.scale(row))
}

// job computes rows; row i of a run is the matrix row run.active[i].
type job interface {
	row(r *run, w *worker, i, next int)
	explain(row int) error
}

// run is the state of one call: the active rows, their results and the workers.
type run struct {
	active  []int
	results []rowResult
	workers []*worker
	path    *tileSet
	job     job
	dense   jsdJob    // job points to this field in a dense run, to avoid an allocation
	support bucketJob // like dense, for a divergence on a support
	probs   []float64 // a sparse teacher's probabilities
	seen    []uint64  // a bitmap of the vocabulary, all zero between checks
	factor  float64   // factor of each row's gradient
	weights []float32 // weights of the rows; may be nil
	taken   atomic.Int64
	wg      sync.WaitGroup
}

// scale returns the factor of a row's gradient, with its weight.
func (r *run) scale(row int) float64 {
	if r.weights == nil {
		return r.factor
	}
	return r.factor * float64(r.weights[row])
}

// reduce runs the job and reduces the losses of rows of v entries.
func (r *run) reduce(
	o *Options, v int, student *Matrix, labels []int32, weights []float32, upstream *float64, out *Output,
) (Stats, error) {
	r.start(student.Rows, labels)
	denom := o.denominator(len(r.active), v)
	r.factor, r.weights = 1/denom, weights
	if upstream != nil {
		r.factor *= *upstream
	}
	clearIgnored(out, student, labels)
	r.do(o.Workers)
	st, err := r.collect(o, out, denom)
	r.job, r.dense, r.support, r.weights = nil, jsdJob{}, bucketJob{}, nil
	return st, err
}

func (r *run) start(rows int, labels []int32) {
	r.active = r.active[:0]
	for i := range rows {
		if labels == nil || labels[i] != IgnoreIndex {
			r.active = append(r.active, i)
		}
	}
	if cap(r.results) < len(r.active) {
		r.results = make([]rowResult, len(r.active))
	}
	r.results = r.results[:len(r.active)]
}

// do distributes the rows over n workers in chunks, so that a slow core does not hold up the rest. A row's result
// depends only on the row.
func (r *run) do(n int) {
	n = max(1, min(n, len(r.active)))
	for len(r.workers) < n {
		w := newWorker(r.path)
		w.next = func() { r.take(w); r.wg.Done() }
		r.workers = append(r.workers, w)
	}
	r.taken.Store(0)
	for _, w := range r.workers[1:n] {
		r.wg.Add(1)
		go w.next()
	}
	r.take(r.workers[0])
	r.wg.Wait()
	for _, w := range r.workers[:n] {
		w.release()
	}
}

// take processes chunks of rows until none are left. It takes the next chunk before the current one is done, so that
// the next one's first row can be prefetched. Chunks are small, so that no worker finishes much later than the others.
func (r *run) take(w *worker) {
	n := len(r.active)
	chunk := max(1, min(16, n/(16*len(r.workers))))
	grab := func() int { return int(r.taken.Add(int64(chunk))) - chunk }
	for lo := grab(); lo < n; {
		after := grab()
		for i := lo; i < min(lo+chunk, n); i++ {
			next := i + 1
			if next == lo+chunk {
				next = after
			}
			if next >= n {
				next = -1
			}
			r.job.row(r, w, i, next)
		}
		lo = after
	}
}

// collect writes row results, counts them and reduces the loss, in row order, independently of the workers.
func (r *run) collect(o *Options, out *Output, denom float64) (Stats, error) {
	st := Stats{Active: len(r.active)}
	var bad error
	total := 0.0
	for i, row := range r.active {
		q := &r.results[i]
		out.set(row, q)
		if st.count(q) && o.Strict && bad == nil {
			bad = r.job.explain(row)
		}
		if r.weights == nil {
			total += q.loss
		} else {
			total += float64(r.weights[row]) * q.loss
		}
	}
	st.Loss = total / denom
	return st, bad
}

// count counts the outcome of a row, and reports whether the row lacks a softmax.
func (s *Stats) count(r *rowResult) (lacks bool) {
	s.Clipped += r.clipped
	if r.exact {
		s.Exact++
	}
	if r.massClamped {
		s.MassClamped++
	}
	if math.IsInf(r.loss, 0) {
		s.Infinite++
	}
	lacks = math.IsNaN(r.loss)
	if lacks {
		s.NonFinite++
	}
	return lacks
}

func (q *jsdJob) explain(row int) error { return explain(row, q.v, &q.b.Student, &q.b.Teacher) }

func (q *bucketJob) explain(row int) error {
	return explain(row, q.student.Cols, q.student, q.teacher)
}

// explain names the first entry that leaves a row without a softmax. teacher may be nil.
func explain(row, v int, student, teacher *Matrix) error {
	for _, side := range []struct {
		name string
		m    *Matrix
	}{{"student", student}, {"teacher", teacher}} {
		if side.m == nil {
			continue
		}
		masked := true
		for c := range v {
			x := side.m.At(row, c)
			if math.IsNaN(x) || math.IsInf(x, 1) {
				return fail(CodeNonFinite, "row %d: %s logit %d is %v", row, side.name, c, x)
			}
			masked = masked && math.IsInf(x, -1)
		}
		if masked {
			return fail(CodeNonFinite, "row %d: all %s logits are -Inf", row, side.name)
		}
	}
	return fail(CodeNonFinite, "row %d: the support has no mass", row)
}

// runPool keeps idle runs. It is a plain stack rather than a sync.Pool, because a garbage collection must not discard
// scratch memory.
type runPool struct {
	mu   sync.Mutex
	idle []*run
}

func (p *runPool) get(path *tileSet) *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 {
		r := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return r
	}
	return &run{path: path}
}

func (p *runPool) put(r *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, r)
}
