package kernels

import (
	"math"
	"slices"
	"unsafe"
)

// bucketJob compares a student with a teacher on a support of k ids and, as one more term, on the rest of a row. A pass
// sums the rest, the k+1 terms are computed in float64, and another pass scales the kept exponentials to the gradient.
type bucketJob struct {
	opt     *Options
	table   *table // for terms of rows that are summed in float32; nil if beta is too close to an end
	student *Matrix
	sparse  *SparseTeacher // the teacher, if sparse
	probs   []float64      // the sparse teacher's probabilities, unless renormalised
	teacher *Matrix        // the teacher, if dense; its support is the student's k largest entries
	dense   Matrix         // teacher points to this field, to avoid an allocation
	k       int
	out     *Output
	rest    Rest
}

// bucketRow is the memory that a worker reuses to compute losses over a support, one row at a time.
type bucketRow struct {
	ids    []int32
	terms  bucketTerms
	g      []float64
	maxima []float32 // the largest entry of each block
	least  []float32 // heap of the k largest maxima
	widens [tile]float32
}

// bucketTerms are the probabilities of a row's support and, unless renormalised, of a bucket of all other entries.
type bucketTerms struct {
	student, teacher masses
	restZ            float64 // the student's log-probability of all other entries; -Inf if renormalised
	bregman          bool    // use the Bregman summands of the loss
}

// masses are a side's probabilities and their logarithms.
type masses struct{ log, prob []float64 }

// resize provides memory for n entries and one more.
func (m *masses) resize(n int) {
	m.log, m.prob = slices.Grow(m.log[:0], n+1)[:n], slices.Grow(m.prob[:0], n+1)[:n]
}

func (m *masses) add(log, prob float64) {
	m.log, m.prob = append(m.log, log), append(m.prob, prob)
}

// exp sets the probabilities to e^(log - top), where top is the largest logarithm, and returns top and their sum.
func (m *masses) exp() (top, sum float64) {
	top = math.Inf(-1)
	for _, x := range m.log {
		if x > top {
			top = x
		}
	}
	if math.IsInf(top, -1) {
		clear(m.prob)
		return top, 0
	}
	for i, x := range m.log {
		e := exp2((x - top) * math.Log2E)
		m.prob[i] = e
		sum += e
	}
	return top, sum
}

// scale multiplies the probabilities by a factor. It adds plus to their logarithms, and then subtracts minus.
func (m *masses) scale(by, plus, minus float64) {
	for i := range m.prob {
		m.prob[i] *= by
		m.log[i] = (m.log[i] + plus) - minus
	}
}

func (q *bucketJob) row(r *run, w *worker, i, next int) {
	row, o, res := r.active[i], q.opt, &r.results[i]
	*res = rowResult{loss: math.NaN()}
	grad := q.out.gradRow(row, q.student.Cols)
	var nx nextRow
	if next >= 0 {
		nx.s = q.student.row(r.active[next])
		if q.teacher != nil {
			nx.t = q.teacher.row(r.active[next])
		}
	}
	var s split
	if !q.split(w, row, nx, res, &s, grad != nil) {
		fillNaN(grad)
		return
	}
	q.buckets(w, res, &s, grad, r.scale(row)*o.normFactor()/o.Temperature)
	res.loss *= o.normFactor()
}

// split holds the log-probability of a row's entries outside a support, and the row's log-normaliser.
type split struct {
	rest, lse float64
	restProb  float64
	total     float64 // the sum of the kept exponentials; 0 if none were kept
	exact     *refRow // the row, if float32 can't represent it
}

// split finds a row's support and the probabilities of both sides. It fails if a side lacks a softmax or a support.
func (q *bucketJob) split(w *worker, row int, next nextRow, res *rowResult, s *split, wantG bool) bool {
	b := &w.bucket
	t := &b.terms
	renorm := q.rest == RestRenormalise
	if q.teacher != nil {
		b.ids = w.topK(q.student, row, q.k)
	} else {
		ids, _ := q.sparse.row(row)
		b.ids = append(b.ids[:0], ids...)
	}
	n := len(b.ids)
	t.student.resize(n)
	t.teacher.resize(n)
	t.bregman = q.opt.Clip != ClipElement
	var of split
	var ok bool
	if q.teacher != nil {
		ok = w.split(q.teacher, row, q.opt.Temperature, next.t, false, renorm, &t.teacher, &of)
		res.exact = of.exact != nil
	} else {
		of.rest, of.restProb, ok = q.sparseMasses(row, &t.teacher)
		res.massClamped = of.restProb < 0
	}
	ok = ok && w.split(q.student, row, q.opt.Temperature, next.s, wantG && !renorm, renorm, &t.student, s)
	res.lseZ, res.exact = s.lse, res.exact || s.exact != nil
	t.restZ = math.Inf(-1)
	if !renorm {
		t.restZ = s.rest
		if math.IsInf(of.rest, -1) && q.teacher == nil {
			// only if requested, because the teacher's probabilities might not sum to 1
			t.bregman = q.opt.Clip == ClipBregman
		}
		t.student.add(s.rest, s.restProb)
		t.teacher.add(of.rest, max(0, of.restProb))
	}
	return ok
}

// sparseMasses computes the masses of a sparse teacher's row, and returns the logarithm and the mass of the rest; if
// renormalised, these are -Inf and 0. It fails if the masses can't be normalised.
func (q *bucketJob) sparseMasses(row int, t *masses) (log, rest float64, ok bool) {
	_, lp := q.sparse.row(row)
	for i, x := range lp {
		t.log[i] = float64(x)
	}
	if q.rest == RestRenormalise {
		return math.Inf(-1), 0, t.normalise()
	}
	copy(t.prob, q.probs[q.sparse.Offsets[row]:])
	rest = tailMass(lp, t.prob)
	return math.Log(max(0, rest)), rest, true
}

// normalise scales the masses to a sum of 1. It fails if their sum is 0.
func (m *masses) normalise() bool {
	top, sum := m.exp()
	if sum == 0 {
		return false
	}
	m.scale(1/sum, -top, math.Log(sum))
	return true
}

// maxExactEntries is the maximum length of a row that is summed in float64, which takes a few microseconds: float32
// errors don't average out over so few entries.
const maxExactEntries = 512

// split stores the probabilities of the bucket's ids in of, normalised if renorm is set, and sums the row without these
// ids. With keep, it stores the exponentials of all other entries. It fails if the row lacks a softmax or, if
// renormalised, mass on the support.
func (w *worker) split(
	m *Matrix, row int, tau float64, next unsafe.Pointer, keep, renorm bool, of *masses, s *split,
) bool {
	p, ids := m.row(row), w.bucket.ids
	path := w.path
	w.a.k = float32(math.Log2E / tau)
	w.a.dk = float64(w.a.k)
	first := path.sum[m.DType]
	switch {
	case m.Cols <= maxExactEntries:
		first, w.a.dk = paths()[len(paths())-1].exact[m.DType], math.Log2E/tau
		if w.a.wide == nil {
			w.a.wide = new([2][tile]float32)
		}
		keep = true // this tile function always stores the exponentials
	case keep:
		first = path.keep[m.DType]
	}
	if keep {
		w.keep(m.Cols)
	}
	ok := tau > 1e-6 && tau < 1e6
	for i, id := range ids {
		x := load(p, m.DType, int(id)) / tau
		of.log[i] = x
		ok = ok && x < math.MaxFloat32
	}
	rest, top, sum := norm{}, 0.0, 0.0
	if ok {
		top, sum = of.exp()
		w.skips.reset(m.Cols, ids...)
		w.skips.fill(of, top, tau, w.a.dk)
		rest = w.normaliser(0, p, m.DType, m.Cols, next, first, keep)
		w.skips.clear()
	}
	if !rest.ok {
		return w.splitExactly(m, row, tau, renorm, of, s)
	}
	outside := rest.lse(tau)
	all := max(top, outside)
	unit := math.Exp(top - all)
	restProb := math.Exp(outside - all)
	total := restProb + sum*unit
	log := math.Log(total)
	s.lse, s.rest, s.restProb, s.total = all+log, (outside-all)-log, restProb/total, rest.total
	switch {
	case !renorm:
		of.scale(unit/total, -all, log)
	case sum == 0:
		return false
	default:
		of.scale(1/sum, -top, math.Log(sum))
	}
	return true
}

// splitExactly is the float64 definition of split.
func (w *worker) splitExactly(m *Matrix, row int, tau float64, renorm bool, of *masses, s *split) bool {
	z := newRefRow(m.row(row), m.DType, m.Cols, tau)
	s.lse = z.lse()
	if !z.finite {
		return false
	}
	for i, id := range w.bucket.ids {
		of.log[i] = z.y(int(id)) - z.s
		of.prob[i] = math.Exp(of.log[i])
	}
	s.rest, s.exact = z.complement(w.bucket.ids), &z
	s.restProb = math.Exp(s.rest)
	return !renorm || of.normalise()
}

// addTerms adds the terms' losses to res, sets g to their free derivatives, and returns the sum of g. For rows that are
// summed in float32, the terms come from the table, as far as it reaches.
func (q *bucketJob) addTerms(t *bucketTerms, g []float64, res *rowResult) (sum float64) {
	const most = 40 // nats; the table doesn't reach farther
	o, most32 := q.opt, -1.0
	if q.table != nil && t.bregman && q.student.Cols > maxExactEntries {
		most32 = most
	}
	a, b, x, p := t.student.log, t.teacher.log, t.student.prob, t.teacher.prob
	for i := range g {
		var l, free float64
		if d := b[i] - a[i]; math.Abs(d) < most32 {
			larger := x[i]
			if p[i] > larger {
				larger = p[i]
			}
			at, f := segment(d * (math.Log2E / q.table.h))
			l, free = q.table.pieces[at].at(f)*larger*math.Ln2, q.table.rates[at].at(f)*math.Ln2
			if o.Beta == 0 {
				free *= larger
			} else {
				free *= x[i]
			}
		} else {
			l, free = entryTerms(a[i], b[i], d, o.Beta, t.bregman)
		}
		if o.clipsElements() && l > o.ClipValue {
			l, free = o.ClipValue, 0
			res.clipped++
		}
		res.loss += l
		sum += free
		g[i] = free
	}
	return sum
}

// buckets computes the loss over the support and, unless renormalised, one bucket for all other entries, with its
// gradient.
func (q *bucketJob) buckets(w *worker, res *rowResult, s *split, grad []float32, scale float64) {
	o, t, ids := q.opt, &w.bucket.terms, w.bucket.ids
	n := len(t.student.log)
	g := slices.Grow(w.bucket.g[:0], n)[:n]
	w.bucket.g = g
	res.loss = 0
	sum := q.addTerms(t, g, res)
	flat := o.clipToken(res)
	switch {
	case grad == nil:
		return
	case math.IsInf(res.loss, 1):
		fillNaN(grad)
		return
	case flat || q.rest == RestRenormalise || math.IsInf(t.restZ, -1):
		clear(grad)
	case s.exact != nil:
		rest := g[len(g)-1]
		for i := range grad {
			y := s.exact.y(i) - s.exact.s
			grad[i] = float32((math.Exp(y-t.restZ)*rest - math.Exp(y)*sum) * scale)
		}
	default:
		w.scaleKept(grad, (g[len(g)-1]-s.restProb*sum)*scale/s.total)
	}
	if flat {
		return
	}
	for i, id := range ids {
		grad[id] = float32((g[i] - t.student.prob[i]*sum) * scale)
	}
}

// topK lists the indices of the k largest entries of a row in ascending order; ties go to the lowest index. The k-th
// largest of the blocks' maxima is a bound: only blocks that reach it are searched.
func (w *worker) topK(m *Matrix, row, k int) []int32 {
	b, p, n := &w.bucket, m.row(row), m.Cols
	b.maxima = b.maxima[:0]
	for i := 0; i < n; i += block {
		b.maxima = append(b.maxima, w.largest(from(&w.padS, p, m.DType, n, i), m.DType, block))
	}
	bound := negInf
	if k < len(b.maxima) {
		b.least = b.least[:0]
		for _, x := range b.maxima {
			b.least = offer(b.least, x, k, func(x, y float32) bool { return x < y })
		}
		bound = b.least[0]
	}
	// The heap holds the k best entries so far, with the worst one at the root.
	heap := b.ids[:0]
	worse := func(x, y int32) bool {
		vx, vy := load(p, m.DType, int(x)), load(p, m.DType, int(y))
		return vx < vy || vx == vy && x > y
	}
	for at, top := range b.maxima {
		if !(top >= bound) {
			continue
		}
		i := at * block
		x := decode(unsafe.Add(p, i*m.DType.Size()), m.DType, min(block, n-i), &b.widens)
		for j, v := range x {
			if v >= bound {
				heap = offer(heap, int32(i+j), k, worse)
			}
		}
	}
	slices.Sort(heap)
	return heap
}

// offer adds x to a heap of the k best elements. The root is the worst of them.
func offer[T any](heap []T, x T, k int, worse func(x, y T) bool) []T {
	if len(heap) < k {
		heap = append(heap, x)
		for i := len(heap) - 1; i > 0; {
			up := (i - 1) / 2
			if !worse(heap[i], heap[up]) {
				break
			}
			heap[i], heap[up] = heap[up], heap[i]
			i = up
		}
		return heap
	}
	if !worse(heap[0], x) {
		return heap
	}
	heap[0] = x
	for i := 0; ; {
		c := 2*i + 1
		if c >= k {
			return heap
		}
		if c+1 < k && worse(heap[c+1], heap[c]) {
			c++
		}
		if !worse(heap[c], heap[i]) {
			return heap
		}
		heap[i], heap[c] = heap[c], heap[i]
		i = c
	}
}
