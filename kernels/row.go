package kernels

import (
	"math"
	"unsafe"
)

// worker holds one goroutine's scratch: nothing is allocated while rows are computed.
type worker struct {
	a      tileArgs
	path   *tileSet
	padS   [block]float32 // a row's tail, padded with -Inf; half types use its first half
	padT   [block]float32
	padOut [block]float32
	raw    []float32    // a row's raw gradient
	kept   [2][]float32 // both sides' exponentials, passed from the first pass to the second; on a 64-byte boundary
	skip   int          // an entry that normaliser leaves out; -1: none
	copied *[tile]float32
	zero   *[tile]float32
	next   func() // the goroutine's body, stored so that starting it allocates nothing
}

func newWorker(p *tileSet) *worker {
	w := &worker{path: p, skip: -1}
	if p != nil && p.float64s {
		w.a.wide = new([2][tile]float32)
	}
	return w
}

// reserve makes room for the raw gradient of n entries and a padded tail.
func (w *worker) reserve(n int) {
	if len(w.raw) < n+block {
		w.raw = make([]float32, n+block)
	}
}

// keep makes room for both sides' exponentials for n entries and padded tails.
func (w *worker) keep(n int) (s, t []float32) {
	if len(w.kept[0]) < n+block {
		for i := range w.kept {
			b := make([]float32, n+block+15)
			w.kept[i] = b[-(uintptr(unsafe.Pointer(&b[0]))/4)&15:]
		}
	}
	return w.kept[0], w.kept[1]
}

// release drops references to the caller's memory.
func (w *worker) release() {
	a := &w.a
	a.s, a.t, a.g, a.out, a.pfs, a.pft, a.tab, a.table = nil, nil, nil, nil, nil, nil, nil, nil
	a.kept, a.keptT = nil, nil
}

var negInf = float32(math.Inf(-1))

// padTail copies the last n entries of a row into a block padded with -Inf, which contributes nothing in any tile.
func padTail(dst *[block]float32, src unsafe.Pointer, d DType, n int) unsafe.Pointer {
	p := unsafe.Pointer(dst)
	if d == Float32 {
		copy(dst[:], unsafe.Slice((*float32)(src), n))
		for i := n; i < block; i++ {
			dst[i] = negInf
		}
		return p
	}
	h, inf := unsafe.Slice((*uint16)(p), block), uint16(0xff80)
	if d == Float16 {
		inf = 0xfc00
	}
	copy(h, unsafe.Slice((*uint16)(src), n))
	for i := n; i < block; i++ {
		h[i] = inf
	}
	return p
}

func fillNaN(x []float32) {
	nan := float32(math.NaN())
	for i := range x {
		x[i] = nan
	}
}

func maskEntry(p unsafe.Pointer, d DType, i int) {
	switch d {
	case Float32:
		*(*float32)(unsafe.Add(p, 4*i)) = negInf
	case BFloat16:
		*(*uint16)(unsafe.Add(p, 2*i)) = 0xff80
	default:
		*(*uint16)(unsafe.Add(p, 2*i)) = 0xfc00
	}
}

// nextRow is the location of the next row, to be prefetched while this one is computed. Zero: none.
type nextRow struct{ s, t unsafe.Pointer }

// norm is a row's log-normaliser in log2 units of k*x: L = k*ref + sum. ref is an element of the row, and sum >= 0
// except for rounding. ok is false for rows that float32 can't represent.
type norm struct {
	ref float32
	sum float64
	l   float64
	ok  bool
	// kept reports that the row's 2^(kx - a ref) were kept, all relative to the same ref; total is their sum.
	kept  bool
	total float64
}

// maxNormaliser is the largest normaliser, in log2 units, whose rows float32 resolves well enough.
const maxNormaliser = 4096

// normaliser does the first pass. If keep is not nil, the exponentials are stored there.
func (w *worker) normaliser(p unsafe.Pointer, d DType, n int, next unsafe.Pointer, keep []float32) norm {
	a, size := &w.a, d.Size()
	full := n &^ (block - 1)
	tail := unsafe.Pointer(nil)
	if full < n {
		tail = padTail(&w.padS, unsafe.Add(p, full*size), d, n-full)
		if w.skip >= full {
			maskEntry(tail, d, w.skip-full)
		}
	}
	f := firstPass{w: w, d: d, sum: w.path.sum[d], kept: keep != nil}
	if f.kept {
		f.sum = w.path.keep[d]
	}
	if !f.start(p, tail, full) {
		return norm{}
	}
	for i := 0; i < full; i += tile {
		a.pfs, a.step = p, 0
		if next != nil {
			a.pfs, a.step = unsafe.Add(next, full*size*3/4+i*size/4), 64
		}
		if keep != nil {
			a.kept = unsafe.Pointer(&keep[i])
		}
		if m := min(tile, full-i); !f.add(w.without(unsafe.Add(p, i*size), d, i, m), m) {
			return norm{}
		}
	}
	if tail != nil {
		a.pfs, a.step = p, 0
		if keep != nil {
			a.kept = unsafe.Pointer(&keep[full])
		}
		if !f.add(tail, block) {
			return norm{}
		}
	}
	return f.norm()
}

// without returns the n entries from entry i on with the skipped entry masked.
func (w *worker) without(p unsafe.Pointer, d DType, i, n int) unsafe.Pointer {
	if w.skip < i || w.skip >= i+n {
		return p
	}
	if w.copied == nil {
		w.copied = new([tile]float32)
	}
	c := unsafe.Pointer(w.copied)
	copy(unsafe.Slice((*byte)(c), n*d.Size()), unsafe.Slice((*byte)(p), n*d.Size()))
	maskEntry(c, d, w.skip-i)
	return c
}

// firstPass sums a row's 2^(k*x - k*ref).
type firstPass struct {
	w     *worker
	d     DType
	sum   tileFunc
	ref   float32
	total float64
	kept  bool // everything kept so far is relative to the current reference
}

// top returns the largest of n entries.
func (f *firstPass) top(p unsafe.Pointer, n int) float32 {
	a := &f.w.a
	a.s, a.n = p, n
	call(f.w.path.max[f.d], a)
	return a.max
}

// start takes the largest of the first entries as the reference, or the largest of all if those are masked.
func (f *firstPass) start(p, tail unsafe.Pointer, full int) bool {
	size := f.d.Size()
	if full > 0 {
		f.ref = f.top(p, min(full, 2*block))
	} else {
		f.ref = f.top(tail, block)
	}
	if !(f.ref > -math.MaxFloat32 && f.ref < math.MaxFloat32) {
		for i := 0; i < full; i += tile {
			f.ref = max(f.ref, f.top(unsafe.Add(p, i*size), min(tile, full-i)))
		}
		if tail != nil {
			f.ref = max(f.ref, f.top(tail, block))
		}
	}
	k := float64(f.w.a.k)
	if !(math.Abs(float64(f.ref))*k < maxNormaliser) {
		return false
	}
	f.setReference()
	return true
}

func (f *firstPass) setReference() {
	a := &f.w.a
	a.ref = float32(float64(a.k) * float64(f.ref))
	a.dref = float64(a.ref)
}

// add adds up a tile, with a new reference if the tile shows that the current one is too small.
func (f *firstPass) add(p unsafe.Pointer, n int) bool {
	a := &f.w.a
	a.s, a.n = p, n
	call(f.sum, a)
	if !(a.sum < 1.2e18) { // the reference is too small for this tile, or the tile contains a NaN
		top := f.top(p, n)
		if !(top > f.ref && float64(top)*float64(a.k) < maxNormaliser) {
			return false
		}
		was := a.dref
		f.ref = top
		f.setReference()
		f.kept = f.kept && f.total == 0
		f.total *= math.Exp2(was - a.dref)
		call(f.sum, a)
		if !(a.sum < 1.2e18) {
			return false
		}
	}
	f.total += a.sum
	return true
}

func (f *firstPass) norm() norm {
	a := &f.w.a
	s := math.Log2(f.total)
	l := a.dref + s
	return norm{
		ref: f.ref, sum: a.dref - float64(a.k)*float64(f.ref) + s, l: l, ok: math.Abs(l) < maxNormaliser,
		kept: f.kept, total: f.total,
	}
}

// alike is how much the sums of two rows, relative to their references, may differ, in log2 units, if one row may be
// the other plus a constant.
const alike = 0.125

// reference chooses what to subtract from both sides before scaling. Equal references of 0 keep t-s exact, which
// nearly equal rows need; large or different normalisers are subtracted first, so that k*x - L does not round.
func (w *worker) reference(zs, zt norm) (rs, rt float32) {
	k := float64(w.a.k)
	apart := float64(zt.ref) - float64(zs.ref)
	// If one side is the other plus a constant with few digits, subtracting that from the larger one is exact. A small
	// constant is left alone: it may carry an entry over a power of 2, and t-s is exact as it is.
	c := float32(math.Round(apart*1024) / 1024)
	if math.Abs(apart) < 1 || (math.Abs(apart) < 8 && math.Abs(zs.sum-zt.sum) > alike) {
		c = 0
	}
	switch {
	case math.Abs(zs.l) < 32 && math.Abs(zt.l) >= math.Abs(zs.l):
		return 0, c
	case math.Abs(zt.l) < 32:
		return -c, 0
	case math.Abs(apart) >= 0.5:
		return zs.ref, zt.ref
	}
	r := float32(math.Round((zs.l+zt.l)/2/k*64) / 64)
	return r, r
}

// constantApart reports whether two rows differ by exactly a constant and are masked alike.
func constantApart(s, t unsafe.Pointer, d DType, n int) bool {
	apart := math.NaN()
	for i := range n {
		x, y := load(s, d, i), load(t, d, i)
		switch {
		case math.IsInf(x, -1) && math.IsInf(y, -1):
		case apart != apart:
			apart = y - x
		case y-x != apart:
			return false
		}
	}
	return true
}

// jsdRow computes one dense row. grad, if not nil, receives scale*dL/dz.
func (j *JSD) jsdRow(
	w *worker, s, t unsafe.Pointer, d DType, n int, next nextRow, grad []float32, scale float64,
) rowResult {
	o, a, path := &j.opt, &w.a, w.path
	if j.exact {
		return j.slowRow(s, t, d, n, grad, scale)
	}
	a.k = float32(math.Log2E / o.Temperature)
	a.dk = float64(a.k)
	if j.end && grad == nil && path.kl[d] != nil && !o.clipsElements() {
		// If the sides differ, reading the row once is enough.
		res, ok := w.onePassKL(s, t, d, n, next, o.Beta)
		if ok {
			o.clipToken(&res)
			return res
		}
	}
	wantG := grad != nil || o.clipsElements()
	zs, zt := j.firstPasses(w, s, t, d, n, next, wantG)
	if !zs.ok || !zt.ok {
		return j.slowRow(s, t, d, n, grad, scale)
	}
	res := rowResult{lseZ: zs.l * math.Ln2, lseT: zt.l * math.Ln2}
	if math.Abs(zs.sum-zt.sum) < 2e-6 && constantApart(s, t, d, n) {
		clear(grad)
		return res // exactly 0, where rounding would leave 1e-15
	}
	p := j.plan(w, zs, zt, d, wantG)
	if wantG {
		w.reserve(n)
	}
	sums, ok := w.secondPass(&p, s, t, d, n, next, wantG)
	res.loss, res.clipped = sums.loss*math.Ln2*p.fix, sums.clipped
	if !ok || !(res.loss < 1e4) {
		return j.slowRow(s, t, d, n, grad, scale)
	}
	flat := o.clipToken(&res)
	nf := o.normFactor()
	res.loss *= nf
	if grad == nil {
		return res
	}
	if flat {
		clear(grad)
		return res
	}
	g := scale * nf / o.Temperature * math.Ln2 / a.dslope
	a.dgk, a.dqk = g*p.fix, -sums.grad*g*p.fix*p.fixS
	a.gk, a.qk = float32(a.dgk), float32(a.dqk)
	far := sums.far * float32(p.h) // the gradient of entries beyond the table is dropped
	if !w.thirdPass(&p, s, d, n, grad, scale*nf/o.Temperature, float64(far) > 28, sums.clipped > 0) {
		return j.slowRow(s, t, d, n, grad, scale)
	}
	return res
}

// firstPasses does both sides' first passes. It keeps the exponentials where the second pass can use them: not at the
// ends of beta, where a weight too small for float32 may matter, nor where a gradient needs entries in order.
func (j *JSD) firstPasses(
	w *worker, s, t unsafe.Pointer, d DType, n int, next nextRow, wantG bool,
) (zs, zt norm) {
	var keepS, keepT []float32
	if w.path.keep[d] != nil && !j.end && !(wantG && d == BFloat16) {
		keepS, keepT = w.keep(n)
	}
	if zs = w.normaliser(s, d, n, next.s, keepS); zs.ok {
		if !zs.kept {
			keepT = nil
		}
		zt = w.normaliser(t, d, n, next.t, keepT)
	}
	return zs, zt
}

// plan is what a row's second pass is to do.
type plan struct {
	f    tileFunc
	h    float64 // the table's unit of D, in log2 of odds
	fix  float64 // factor for its sums
	fixS float64 // factor for the exponentials of the third pass
	kept bool
	// end is set if beta is 0, where the teacher's side weighs the log-odds, or 1, where the student's does.
	end, teacherWeighs bool
}

// tiles chooses the pass and its table.
func (p *plan) tiles(path *tileSet, d DType, t *table, even, wantG bool) unsafe.Pointer {
	tab := path.tab
	p.h = t.h
	if path.tabH > 0 {
		p.h = path.tabH
	}
	if even {
		p.h, tab = path.evenH, path.evenTab
	}
	switch {
	case p.kept && even && wantG:
		p.f = path.keptEvenGrad[d]
	case p.kept && even:
		p.f, p.h, tab = path.keptEven[d], path.keptEvenH, path.keptEvenTab
	case p.kept && wantG:
		p.f = path.keptGrad[d]
	case p.kept:
		p.f = path.keptJSD[d]
	case even && wantG:
		p.f = path.evenGrad[d]
	case even:
		p.f = path.even[d]
	case wantG:
		p.f = path.grad[d]
	default:
		p.f = path.jsd[d]
	}
	return tab(t)
}

// plan chooses the second pass of a row and sets its constants.
func (j *JSD) plan(w *worker, zs, zt norm, d DType, wantG bool) plan {
	o, a, path := &j.opt, &w.a, w.path
	rs, rt := w.reference(zs, zt)
	even := j.table.symmetric && !o.clipsElements() && path.even[d] != nil
	p := plan{kept: zs.kept && zt.kept && rs == rt, end: j.end, teacherWeighs: o.Beta == 0, fixS: 1}
	a.table = j.table
	a.tab = p.tiles(path, d, j.table, even, wantG)
	k := a.dk
	ls, lt := zs.l-k*float64(rs), zt.l-k*float64(rt)
	if rs == zs.ref && rt == zt.ref {
		ls, lt = zs.sum, zt.sum
	}
	a.rs, a.rt = rs, rt
	a.dnls, a.dnlt, a.nls, a.nlt = -ls, -lt, float32(-ls), float32(-lt)
	a.dhk = k / p.h
	a.hk = float32(a.dhk)
	a.dhd = (ls - lt) / p.h
	a.hd = float32((ls - lt) / k * float64(a.hk))
	a.dslope = p.h * math.Ln2
	a.slope = float32(a.dslope)
	// nls and nlt are rounded, so each side's entries must be scaled to make up for it. A gradient pass brings the
	// student's to the teacher's; the forward pass takes the mean of both. Exponentials that are kept are not yet
	// divided by a normaliser.
	fixT := 1.0
	if !path.float64s {
		p.fixS, fixT = math.Exp2(-(float64(a.nls) + ls)), math.Exp2(-(float64(a.nlt) + lt))
	}
	p.fix = fixT
	switch {
	case p.kept:
		p.fix, p.fixS = 1/zt.total, 1/zs.total
		a.ratio = float32(zt.total / zs.total)
	case !wantG:
		p.fix = math.Sqrt(p.fixS * fixT)
	}
	a.lift = float32(p.fixS / fixT)
	a.clip, a.dclip = float32(math.Inf(1)), math.Inf(1)
	if o.clipsElements() { // the tile's entries are not scaled yet
		a.dclip = o.ClipValue / math.Ln2 / p.fix
		a.clip = float32(a.dclip)
	}
	return p
}

// klLift multiplies the weights of the one-pass tile: a weight of 2^-150, which float32 can't represent, matters if the
// log-odds are 2^128.
const klLift = 1 << 32

// steep is the log-odds, in log2 units, above which float32 can't represent what an entry adds to a loss of beta 0 or
// 1, which grows with them without bound. Below it nothing is lost by treating a weight under 2^-126 as 0.
const steep = 1 << 64

// diverges reports whether the tile just processed has an entry of KL(p||q) whose log-odds exceed steep, or are
// infinite, and whose weight is a float64 above 0. p is either the teacher or the student.
func (w *worker) diverges(d DType, teacherWeighs bool) bool {
	const faintest = -1080 // log2 of less than the smallest float64
	a := &w.a
	k := a.dk
	p, q, rp, np := a.s, a.t, a.rs, a.nls
	if teacherWeighs {
		p, q, rp, np = a.t, a.s, a.rt, a.nlt
	}
	if w.copied == nil {
		w.copied = new([tile]float32)
	}
	deep := float32(-steep / 2 / k)
	for i, x := range decode(q, d, w.a.n, w.copied) {
		if x < deep && k*(load(p, d, i)-float64(rp))+float64(np) > faintest {
			return true
		}
	}
	return false
}

// onePassKL is KL(teacher||student) for beta 0 and KL(student||teacher) for beta 1, as the mean log-odds minus the
// difference of the normalisers. That cancels if the sides are nearly equal: ok is false unless the result is a fair
// part of the terms it is the difference of, or infinite. The first tile identifies most such rows.
func (w *worker) onePassKL(s, t unsafe.Pointer, d DType, n int, next nextRow, beta float64) (res rowResult, ok bool) {
	if beta == 1 {
		s, t, next = t, s, nextRow{next.t, next.s}
	}
	a, size := &w.a, d.Size()
	full := n &^ (block - 1)
	if full == 0 {
		return res, false
	}
	ref := func(p unsafe.Pointer) float32 {
		a.s, a.n = p, min(full, 2*block)
		call(w.path.max[d], a)
		return -float32(a.dk * float64(a.max))
	}
	a.nls = ref(s)
	a.nlt = ref(t)
	if !(math.Abs(float64(a.nls)) < maxNormaliser && math.Abs(float64(a.nlt)) < maxNormaliser) {
		return res, false
	}
	var sums klSums
	for i := 0; i < full; i += tile {
		a.n = min(tile, full-i)
		a.s, a.t = unsafe.Add(s, i*size), unsafe.Add(t, i*size)
		a.pfs, a.pft, a.step = s, t, 0
		if next.s != nil {
			a.pfs, a.pft, a.step = unsafe.Add(next.s, i*size), unsafe.Add(next.t, i*size), 64
		}
		if !w.addKL(d, &sums) || (i == 0 && !sums.isSignificant()) {
			return res, false
		}
	}
	if full < n {
		a.n = block
		a.s = padTail(&w.padS, unsafe.Add(s, full*size), d, n-full)
		a.t = padTail(&w.padT, unsafe.Add(t, full*size), d, n-full)
		a.pfs, a.pft, a.step = s, t, 0
		if !w.addKL(d, &sums) {
			return res, false
		}
	}
	if !sums.isSignificant() || !(sums.p >= 1) || !(sums.q >= 1) {
		return res, false
	}
	lp, lq := math.Log2(sums.p), math.Log2(sums.q)
	res.loss = (sums.mean/sums.p - (lp - lq)) * math.Ln2
	res.lseZ, res.lseT = (lq-float64(a.nls))*math.Ln2, (lp-float64(a.nlt))*math.Ln2
	if beta == 1 {
		res.lseZ, res.lseT = res.lseT, res.lseZ
	}
	return res, res.loss < 1e4
}

// klSums are sums over a row of 2^yt, 2^ys, 2^yt(yt-ys) and its magnitude.
type klSums struct{ p, q, mean, magnitude float64 }

// isSignificant reports whether the divergence so far is a fair part of the terms that it is the difference of.
func (k *klSums) isSignificant() bool {
	const share = 0.1
	kl := k.mean/k.p - (math.Log2(k.p) - math.Log2(k.q))
	return kl >= share*(k.magnitude/k.p) && kl >= 0.05
}

// addKL adds the tile that w.a describes, and reports whether its sums are far from overflowing.
func (w *worker) addKL(d DType, k *klSums) bool {
	a := &w.a
	call(w.path.kl[d], a)
	tileP := a.sum / klLift // exact
	k.p, k.q = k.p+tileP, k.q+a.sumG
	k.mean, k.magnitude = k.mean+a.kl/klLift, k.magnitude+a.klAbs/klLift
	return tileP < 1.2e18 && a.sumG < 1.2e18
}

// secondSums is what a second pass adds up over a row; far is the largest |D| encountered.
type secondSums struct {
	loss, grad float64
	far        float32
	clipped    int
}

// secondPass runs the pass over both rows; a gradient pass leaves the raw gradient in w.raw. If a tile diverges, it
// stops and ok is false.
func (w *worker) secondPass(
	p *plan, s, t unsafe.Pointer, d DType, n int, next nextRow, wantG bool,
) (sums secondSums, ok bool) {
	a, size := &w.a, d.Size()
	full := n &^ (block - 1)
	one := func(i int) bool {
		if wantG {
			a.g = unsafe.Pointer(&w.raw[i])
		}
		if p.kept {
			a.kept, a.keptT = unsafe.Pointer(&w.kept[0][i]), unsafe.Pointer(&w.kept[1][i])
		}
		call(p.f, a)
		if p.end && float64(a.max)*p.h > steep && w.diverges(d, p.teacherWeighs) {
			return false
		}
		sums.loss += a.sum
		sums.far = max(sums.far, a.max)
		if wantG {
			sums.grad += a.sumG
			sums.clipped += a.clipped
		}
		return true
	}
	for i := 0; i < full; i += tile {
		a.n = min(tile, full-i)
		a.s, a.t = unsafe.Add(s, i*size), unsafe.Add(t, i*size)
		a.pfs, a.pft, a.step = s, t, 0
		if next.s != nil { // the first pass has already fetched the last quarter
			a.pfs, a.pft, a.step = unsafe.Add(next.s, i*size*3/4), unsafe.Add(next.t, i*size*3/4), 64
		}
		if !one(i) {
			return sums, false
		}
	}
	if full < n {
		a.n = block
		a.s = padTail(&w.padS, unsafe.Add(s, full*size), d, n-full)
		a.t = padTail(&w.padT, unsafe.Add(t, full*size), d, n-full)
		a.pfs, a.pft, a.step = s, t, 0
		if !one(full) {
			return sums, false
		}
	}
	return sums, true
}

// streamFrom is the row length from which gradients bypass the caches when written.
const streamFrom = 16384

// thirdPass folds the raw gradient through the softmax: out = q*qk + g*gk. If the two nearly cancel throughout, float32
// leaves too little of them and it returns false, with s still intact. unit is what an entry of size 1 scales to;
// dropped says that raw gradients of up to 3e-8 are missing, clipped that the sum lacks the terms its errors would have
// cancelled with.
func (w *worker) thirdPass(
	p *plan, s unsafe.Pointer, d DType, n int, grad []float32, unit float64, dropped, clipped bool,
) bool {
	a, size := &w.a, d.Size()
	full := n &^ (block - 1)
	finish, stream := w.path.finish[d], w.path.stream[d]
	if p.kept {
		finish, stream = w.path.finishKept, w.path.streamKept
	}
	f := finish
	top, q := float32(0), float32(0)
	out := grad
	inPlace := unsafe.Pointer(&grad[0]) == s
	if inPlace {
		out = w.raw
	} else if stream != nil && n >= streamFrom && uintptr(unsafe.Pointer(&grad[0]))&63 == 0 {
		f = stream
	}
	one := func(i int, from unsafe.Pointer, m int) {
		a.n, a.s, a.g, a.out = m, from, unsafe.Pointer(&w.raw[i]), unsafe.Pointer(&w.padOut)
		if p.kept {
			a.kept = unsafe.Pointer(&w.kept[0][i])
		}
		if i < full {
			a.out = unsafe.Pointer(&out[i])
			call(f, a)
		} else {
			call(finish, a)
		}
		top, q = max(top, a.max), max(q, a.qmax)
	}
	for i := 0; i < full; i += tile {
		one(i, unsafe.Add(s, i*size), min(tile, full-i))
	}
	if full < n {
		one(full, padTail(&w.padS, unsafe.Add(s, full*size), d, n-full), block)
		copy(out[full:n], w.padOut[:n-full])
	}
	gone := float64(q) * math.Abs(float64(a.qk)) // size of the terms that may have cancelled
	if dropped {
		gone = max(gone, unit*0.06)
	}
	if clipped {
		gone = max(gone, unit*0.01)
	}
	if float64(top) < 0.2*gone && gone*4e-7 > 3e-14 {
		return false
	}
	if inPlace {
		copy(grad, out[:n])
	}
	return true
}

// slowRow is the float64 definition.
func (j *JSD) slowRow(s, t unsafe.Pointer, d DType, n int, grad []float32, scale float64) rowResult {
	if grad == nil {
		res := j.opt.refJSD(s, t, d, d, n, nil)
		res.exact = true
		return res
	}
	// grad may be the student's own memory: gather first.
	z := make([]float64, n)
	for i := range z {
		z[i] = load(s, d, i)
	}
	res := j.opt.refJSD(unsafe.Pointer(&z[0]), t, float64s, d, n, func(i int, g float64) {
		grad[i] = float32(g * scale)
	})
	res.exact = true
	return res
}
