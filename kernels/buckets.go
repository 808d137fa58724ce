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
	student *Matrix
	sparse  *SparseTeacher // the teacher, if sparse
	teacher *Matrix        // the teacher, if dense; its support is the student's k largest entries
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

// bucketTerms are the log-probabilities of a row's support and, unless renormalised, of a bucket of all other entries.
type bucketTerms struct {
	a, b    []float64 // student, teacher
	restZ   float64   // the student's log-probability of all other entries; -Inf if renormalised
	bregman bool      // use the Bregman summands of the loss
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
	total     float64 // the sum of the kept exponentials; 0 if none were kept
	exact     *refRow // the row, if float32 can't represent it
}

// split finds a row's support and the log-probabilities of both sides. It fails if a side lacks a softmax or a support.
func (q *bucketJob) split(w *worker, row int, next nextRow, res *rowResult, s *split, wantG bool) bool {
	b := &w.bucket
	t := &b.terms
	if q.teacher != nil {
		b.ids = w.topK(q.student, row, q.k)
	} else {
		ids, _ := q.sparse.row(row)
		b.ids = append(b.ids[:0], ids...)
	}
	n := len(b.ids)
	w.skips = append(w.skips[:0], b.ids...)
	slices.Sort(w.skips)
	t.a, t.b = slices.Grow(t.a[:0], n+1)[:n], slices.Grow(t.b[:0], n+1)[:n]
	t.bregman = q.opt.Clip != ClipElement
	var restT float64
	if q.teacher != nil {
		var of split
		if !w.split(q.teacher, row, q.opt.Temperature, next.t, false, t.b, &of) {
			return false
		}
		restT, res.exact = of.rest, of.exact != nil
	} else {
		_, lp := q.sparse.row(row)
		for i, x := range lp {
			t.b[i] = float64(x)
		}
		mass := tailMass(lp)
		res.massClamped = mass < 0 && q.rest == RestBucket
		restT = math.Log(max(0, mass))
	}
	ok := w.split(q.student, row, q.opt.Temperature, next.s, wantG && q.rest == RestBucket, t.a, s)
	w.skips = w.skips[:0]
	res.lseZ, res.exact = s.lse, res.exact || s.exact != nil
	return ok && q.complete(t, s.rest, restT)
}

// complete adds the bucket for the rest, or renormalises both sides, which fails if one has no mass on the support.
func (q *bucketJob) complete(t *bucketTerms, restZ, restT float64) bool {
	t.restZ = math.Inf(-1)
	if q.rest == RestRenormalise {
		sa := logSum(len(t.a), func(i int) float64 { return t.a[i] })
		sb := logSum(len(t.b), func(i int) float64 { return t.b[i] })
		if math.IsInf(sa, -1) || math.IsInf(sb, -1) {
			return false
		}
		for i := range t.a {
			t.a[i] -= sa
			t.b[i] -= sb
		}
		return true
	}
	t.restZ = restZ
	if math.IsInf(restT, -1) && q.teacher == nil {
		t.bregman = q.opt.Clip == ClipBregman // only if requested, because the teacher's probabilities may not sum to 1
	}
	t.a, t.b = append(t.a, restZ), append(t.b, restT)
	return true
}

// maxExactEntries is the maximum length of a row that is summed in float64, which takes a few microseconds: float32
// errors don't average out over so few entries.
const maxExactEntries = 512

// split stores the log-probabilities of the bucket's ids in lp, and otherwise skips these ids. With keep, it stores the
// exponentials of all other entries. It fails if the row lacks a softmax.
func (w *worker) split(
	m *Matrix, row int, tau float64, next unsafe.Pointer, keep bool, lp []float64, s *split,
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
	top, ok := math.Inf(-1), tau > 1e-6 && tau < 1e6
	for i, id := range ids {
		lp[i] = load(p, m.DType, int(id)) / tau
		ok = ok && lp[i] < math.MaxFloat32
		top = max(top, lp[i])
	}
	rest := norm{}
	if ok {
		rest = w.normaliser(0, p, m.DType, m.Cols, next, first, keep)
	}
	if !rest.ok {
		return w.splitExactly(m, row, tau, lp, s)
	}
	outside := float64(rest.ref)/tau + rest.sum*math.Ln2
	top = max(top, outside)
	sum := math.Exp(outside - top)
	for _, x := range lp {
		sum += math.Exp(x - top)
	}
	s.lse = top + math.Log(sum)
	for i := range lp {
		lp[i] = (lp[i] - top) - math.Log(sum)
	}
	s.rest, s.total = (outside-top)-math.Log(sum), rest.total
	return true
}

// splitExactly is the float64 definition of split.
func (w *worker) splitExactly(m *Matrix, row int, tau float64, lp []float64, s *split) bool {
	z := newRefRow(m.row(row), m.DType, m.Cols, tau)
	s.lse = z.lse()
	if !z.finite {
		return false
	}
	for i, id := range w.bucket.ids {
		lp[i] = z.y(int(id)) - z.s
	}
	s.rest, s.exact = z.complement(w.bucket.ids), &z
	return true
}

// buckets computes the loss over the support and, unless renormalised, one bucket for all other entries.
func (q *bucketJob) buckets(w *worker, res *rowResult, s *split, grad []float32, scale float64) {
	o, t, ids := q.opt, &w.bucket.terms, w.bucket.ids
	g := slices.Grow(w.bucket.g[:0], len(t.a))[:len(t.a)]
	w.bucket.g = g
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
		w.scaleKept(grad, (g[len(g)-1]-math.Exp(t.restZ)*sum)*scale/s.total)
	}
	if flat {
		return
	}
	for i, id := range ids {
		grad[id] = float32((g[i] - math.Exp(t.a[i])*sum) * scale)
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
