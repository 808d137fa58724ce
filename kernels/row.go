package kernels

import (
	"math"
	"slices"
	"unsafe"
)

// worker holds one goroutine's scratch memory, so that nothing is allocated while rows are computed.
type worker struct {
	a      tileArgs
	path   *tileSet
	padS   [block]float32 // a row's tail, padded with -Inf; half types use its first half
	padT   [block]float32
	padOut [block]float32 // a gradient's tail
	raw    []float32      // a row's raw gradient where the caller's memory can't hold it
	kept   [2][]float32   // both sides' exponentials, on a 64-byte boundary
	sums   [2][]float64   // each tile's sum in each side's most recent first pass, in the units of kept
	// the largest exponential in each of the student's tiles, if the path keeps it
	tops   []float32
	row    row       // the current row, stored here so that it isn't allocated
	heavy  []heavy   // a gradient's entries that are computed in float64
	rates  []float32 // the table of a row's ratePass
	skips  skips     // entries that normaliser skips
	rows   *wideRows // the constants of float64 tiles; nil until needed
	bucket bucketRow // memory for a row of a bucketJob
	copied *[tile]float32
	zero   *[tile]float32
	next   func() // the goroutine's body, stored so that starting it allocates nothing
}

func newWorker(p *tileSet) *worker {
	w := &worker{path: p, rates: aligned(segments * (rateDegree + 2))}
	w.a.odds = unsafe.Pointer(&aligned(block)[0])
	if p.float64s {
		w.a.wide = new([2][tile]float32)
	}
	return w
}

// scratch returns memory for a gradient of n entries.
func (w *worker) scratch(n int) []float32 {
	if len(w.raw) < n {
		w.raw = make([]float32, n)
	}
	return w.raw[:n]
}

// keep provides memory for both sides' exponentials of n entries, with padded tails.
func (w *worker) keep(n int) {
	if len(w.kept[0]) < n+block {
		for i := range w.kept {
			w.kept[i] = aligned(n + block)
		}
	}
}

// release clears the references to the caller's memory.
func (w *worker) release() {
	a := &w.a
	a.s, a.t, a.g, a.out, a.pfs, a.pft, a.tab, a.table = nil, nil, nil, nil, nil, nil, nil, nil
	a.kept, a.keptT = nil, nil
	w.row = row{}
	w.skips.clear()
}

var negInf = float32(math.Inf(-1))

// padTail copies the last n entries of a row into a block padded with -Inf, which contributes nothing in any tile.
func padTail(dst *[block]float32, src unsafe.Pointer, d DType, n int) unsafe.Pointer {
	p := unsafe.Pointer(dst)
	if d == Float32 {
		pad(dst[:], unsafe.Slice((*float32)(src), n), negInf)
	} else {
		pad(unsafe.Slice((*uint16)(p), block), unsafe.Slice((*uint16)(src), n), halfInf[d])
	}
	return p
}

// halfInf holds -Inf in the half types.
var halfInf = [...]uint16{BFloat16: 0xff80, Float16: 0xfc00}

// pad copies src to dst and fills the rest.
func pad[T any](dst, src []T, fill T) {
	for i := copy(dst, src); i < len(dst); i++ {
		dst[i] = fill
	}
}

func fillNaN(x []float32) {
	nan := float32(math.NaN())
	for i := range x {
		x[i] = nan
	}
}

func maskEntry(p unsafe.Pointer, d DType, i int) {
	if d == Float32 {
		*(*float32)(unsafe.Add(p, 4*i)) = negInf
	} else {
		*(*uint16)(unsafe.Add(p, 2*i)) = halfInf[d]
	}
}

// nextRow is the location of the next row, to be prefetched while this one is computed. The zero value means none.
type nextRow struct{ s, t unsafe.Pointer }

// tileAt returns the size of a row's tile that starts at entry i: whole blocks, then a padded tail of one block.
func tileAt(i, n int) int {
	if full := n &^ (block - 1); i < full {
		return min(tile, full-i)
	}
	return block
}

// largest returns the largest of n entries at p.
func (w *worker) largest(p unsafe.Pointer, d DType, n int) float32 {
	w.a.s, w.a.n = p, n
	call(w.path.max[d], &w.a)
	return w.a.max
}

// from returns a pointer to entry i of a row, where a tile starts. A tail is copied into pad.
func from(pad *[block]float32, p unsafe.Pointer, d DType, n, i int) unsafe.Pointer {
	at := unsafe.Add(p, i*d.Size())
	if i < n&^(block-1) {
		return at
	}
	return padTail(pad, at, d, n-i)
}

// norm is a row's log-normaliser in log2 units of k*x: L = k*ref + sum. ref is an element of the row, and sum >= 0
// except for rounding. ok is false for rows that float32 can't represent. total is the sum of the row's 2^(kx - ref'),
// where ref' is k*ref in float32.
type norm struct {
	ref   float32
	sum   float64
	l     float64
	total float64
	ok    bool
}

// lse returns the log-normaliser in nats, without the rounding of k.
func (z *norm) lse(tau float64) float64 { return float64(z.ref)/tau + z.sum*math.Ln2 }

// maxNormaliser is the largest normaliser, in log2 units, whose reference float32 resolves to an integer. Logits that
// count are so close to a large reference that subtracting it is exact.
const maxNormaliser = 1 << 24

// normaliser runs the first pass over a side, 0 for the student, with one of the path's tile functions. If keep is set,
// it stores the exponentials; call w.keep first.
func (w *worker) normaliser(
	side int, p unsafe.Pointer, d DType, n int, next unsafe.Pointer, sum tileFunc, keep bool,
) norm {
	a, size := &w.a, d.Size()
	full := n &^ (block - 1)
	f := firstPass{w: w, side: side, d: d, p: p, n: n}
	rounds := keep && n > maxExactEntries // the tiles sum the kept values, which are rounded
	if !f.start() {
		return norm{}
	}
	for i := 0; i < n; {
		a.pfs, a.step = p, 0
		if next != nil && i < full {
			a.pfs, a.step = unsafe.Add(next, full*size*3/4+i*size/4), 64
		}
		if keep {
			a.kept = unsafe.Pointer(&w.kept[side][i])
		}
		m := tileAt(i, n)
		a.s, a.n = from(&w.padS, p, d, n, i), m
		call(sum, a)
		switch part := w.skips.part(i); {
		case part == 0 || part > 0 && w.skips.subtract(a, part*f.skipped, rounds):
		case rounds && a.sum < 1.2e18:
			w.skips.parts[w.skips.tile(i)] = -1
			a.sum = 0
		default:
			w.skips.parts[w.skips.tile(i)] = math.Inf(1)
			a.s = f.tile(i, m)
			call(sum, a)
		}
		if a.sum < 1.2e18 {
			f.total += a.sum
			w.sums[side] = append(w.sums[side], a.sum)
			if side == 0 {
				w.tops = append(w.tops, a.max)
			}
			i += m
			continue
		}
		if f.raised || !f.raise() { // the row contains NaN, an infinity, or an entry too large for a reference
			return norm{}
		}
		i = 0
	}
	if rounds {
		f.total += w.dropSkipped(w.kept[side], n)
	}
	return a.norm(f.ref, a.ref, f.total)
}

// skips are the entries of a row that normaliser skips, in any order. Usually a tile is summed with them, and their
// part is then subtracted. If that would be inaccurate, the tile is summed again without them.
type skips struct {
	ids []int32
	top float64 // the largest of their logits
	// the sum of 2^(k*x - k*top) over each tile's skipped entries; infinite if one of them is too small for float64, or
	// if the tile was summed without them; -1 if its kept exponentials are yet to be summed
	parts []float64
	full  int // entries in whole blocks
}

func (s *skips) clear() { s.ids, s.parts = s.ids[:0], s.parts[:0] }

// reset sets the skipped entries of a row of n entries, and clears the parts.
func (s *skips) reset(n int, ids ...int32) {
	s.full = n &^ (block - 1)
	s.ids, s.parts = append(s.ids[:0], ids...), slices.Grow(s.parts[:0], n/tile+2)[:n/tile+2]
	clear(s.parts)
}

// tile returns the number of the tile that contains entry i.
func (s *skips) tile(i int) int {
	if i >= s.full {
		return (s.full + tile - 1) / tile
	}
	return i / tile
}

// fill computes the parts from the entries' exponentials, e^(log - top). It allows for the rounding of k, because tiles
// sum powers of 2^k.
func (s *skips) fill(of *masses, top, tau, k float64) {
	s.top = top * tau
	off := k*tau*math.Ln2 - 1
	for i, id := range s.ids {
		e := of.prob[i] * (1 + (of.log[i]-top)*off)
		switch {
		case of.prob[i] == 0 && of.log[i] < -math.MaxFloat64:
			e = 0
		case e < 1e-250:
			e = math.Inf(1)
		}
		s.parts[s.tile(int(id))] += e
	}
}

func (s *skips) part(i int) float64 {
	if len(s.ids) == 0 {
		return 0
	}
	return s.parts[s.tile(i)]
}

// subtract removes a part from a tile's sum or, with keep, leaves that to dropSkipped. It returns false if the
// difference would be inaccurate, because a large entry's rounding errors don't average out. In a long row, the errors
// of one tile matter less, so its part may be larger. It may be larger still with keep, because only the roundings of
// sums remain.
func (s *skips) subtract(a *tileArgs, part float64, keep bool) bool {
	most := min(1, float64(len(s.parts)-1)/8)
	if keep {
		most *= 4
	}
	if a.sum >= 1.2e18 || !(part <= most*(a.sum-part)) {
		return false
	}
	if !keep {
		a.sum -= part
	}
	return true
}

// dropSkipped sets the skipped entries' kept exponentials to 0, and returns the change to the row's sum. Where they
// were summed, subtracting these values cancels the entries exactly, rounding included.
func (w *worker) dropSkipped(kept []float32, n int) (sum float64) {
	for _, id := range w.skips.ids {
		if part := w.skips.parts[w.skips.tile(int(id))]; part >= 0 && !math.IsInf(part, 1) {
			sum -= float64(kept[id])
		}
		kept[id] = 0
	}
	a := &w.a
	for i := 0; i < n; {
		m := tileAt(i, n)
		if w.skips.part(i) < 0 {
			a.s, a.t, a.n = unsafe.Pointer(&kept[i]), unsafe.Pointer(&kept[i+m/2]), m/2
			call(w.path.totals, a)
			sum += a.sum + a.sumG
		}
		i += m
	}
	return sum
}

// mask returns the n entries of a row starting at entry i, with the skipped ones masked.
func (w *worker) mask(p unsafe.Pointer, d DType, i, n int) unsafe.Pointer {
	if w.copied == nil {
		w.copied = new([tile]float32)
	}
	c := unsafe.Pointer(w.copied)
	copy(unsafe.Slice((*byte)(c), n*d.Size()), unsafe.Slice((*byte)(p), n*d.Size()))
	for _, id := range w.skips.ids {
		if at := int(id) - i; at >= 0 && at < n {
			maskEntry(c, d, at)
		}
	}
	return c
}

// firstPass sums a row's 2^(k*x - k*ref).
type firstPass struct {
	w      *worker
	side   int
	d      DType
	p      unsafe.Pointer
	n      int
	ref    float32
	total  float64
	raised bool // the reference is the row's largest entry
	// skips.parts times this factor is in the units of the sum
	skipped float64
}

// tile returns m entries starting at entry i, without the skipped ones.
func (f *firstPass) tile(i, m int) unsafe.Pointer {
	p := from(&f.w.padS, f.p, f.d, f.n, i)
	if len(f.w.skips.ids) == 0 {
		return p
	}
	return f.w.mask(p, f.d, i, m)
}

// largest returns the row's largest entry.
func (f *firstPass) largest() float32 {
	top := negInf
	for i := 0; i < f.n; {
		m := tileAt(i, f.n)
		top = max(top, f.w.largest(f.tile(i, m), f.d, m))
		i += m
	}
	return top
}

// start takes the largest of the first entries as the reference, or the largest of all if that isn't finite.
func (f *firstPass) start() bool {
	m := min(tileAt(0, f.n), 2*block)
	f.ref = f.w.largest(f.tile(0, m), f.d, m)
	if !(f.ref > -math.MaxFloat32 && f.ref < math.MaxFloat32) {
		f.ref, f.raised = f.largest(), true
	}
	return f.setReference()
}

// raise makes the row's largest entry the reference, if it is larger, and reports whether to start again with it.
func (f *firstPass) raise() bool {
	top := f.largest()
	if !(top > f.ref) {
		return false
	}
	f.ref, f.raised = top, true
	return f.setReference()
}

// setReference applies the reference, resets the sums, and reports whether float32 is precise enough for it.
func (f *firstPass) setReference() bool {
	a := &f.w.a
	a.ref = float32(a.dk * float64(f.ref))
	a.dref = float64(a.ref)
	f.skipped = math.Exp2(a.dk*f.w.skips.top - a.dref)
	f.total, f.w.sums[f.side] = 0, f.w.sums[f.side][:0]
	if f.side == 0 {
		f.w.tops = f.w.tops[:0]
	}
	return math.Abs(float64(f.ref))*a.dk < maxNormaliser
}

// norm returns the norm of a row whose 2^(kx - scaled) add up to total; scaled is k*ref, rounded.
func (a *tileArgs) norm(ref, scaled float32, total float64) norm {
	s, by := math.Log2(total), float64(scaled)
	l := by + s
	return norm{ref: ref, sum: by - a.dk*float64(ref) + s, l: l, ok: math.Abs(l) < maxNormaliser, total: total}
}

// maxSumDifference is the maximum difference, in log2 units, between two rows' norm.sum for which one row may be the
// other plus a constant.
const maxSumDifference = 0.125

// reference chooses the values to subtract from both sides before scaling. If both references are 0, t-s is exact,
// which nearly equal rows need. Large or different normalisers are subtracted first, so that k*x - L does not round.
func (w *worker) reference(zs, zt norm) (rs, rt float32) {
	k := float64(w.a.k)
	apart := float64(zt.ref) - float64(zs.ref)
	// If one side is the other plus a constant with few digits, subtracting that constant from the larger one is exact.
	// A small constant is not subtracted: it may carry an entry over a power of 2, and t-s is already exact.
	c := float32(math.Round(apart*1024) / 1024)
	if math.Abs(apart) < 1 || (math.Abs(apart) < 8 && math.Abs(zs.sum-zt.sum) > maxSumDifference) {
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
	if j.exact || j.steep && grad != nil {
		return j.slowRow(w, s, t, d, n, grad, scale)
	}
	a.k = float32(math.Log2E / o.Temperature)
	a.dk = float64(a.k)
	out := grad
	if grad == nil && o.clipsElements() || grad != nil && unsafe.Pointer(&grad[0]) == s {
		out = w.scratch(n)
	}
	if j.end && path.kl[d] != nil && !o.clipsElements() {
		w.row = row{j: j, w: w, s: s, t: t, d: d, n: n, next: next, out: out}
		if res, ok := w.row.end(grad, scale); ok {
			return res
		}
	}
	wantG := grad != nil || o.clipsElements()
	zs, zt := j.firstPasses(w, s, t, d, n, next, wantG)
	if !zs.ok || !zt.ok {
		return j.slowRow(w, s, t, d, n, grad, scale)
	}
	res := rowResult{lseZ: zs.lse(o.Temperature), lseT: zt.lse(o.Temperature)}
	if math.Abs(zs.sum-zt.sum) < 2e-6 && constantApart(s, t, d, n) {
		clear(grad)
		return res // the loss is exactly 0, but rounding would make it 1e-15
	}
	w.row = row{j: j, w: w, zs: zs, zt: zt, s: s, t: t, d: d, n: n, next: next, out: out}
	w.row.choose(j.passOf(path, d, grad != nil))
	r, ok := &w.row, false
	if grad == nil {
		res.loss, res.clipped, ok = r.forward(wantG)
		o.clipToken(&res)
		res.loss *= o.normFactor()
	} else {
		ok = r.gradient(&res, grad, scale)
	}
	if !ok {
		return j.slowRow(w, s, t, d, n, grad, scale)
	}
	return res
}

// row is a dense row after its first passes.
type row struct {
	j      *JSD
	w      *worker
	p      plan
	zs, zt norm
	s, t   unsafe.Pointer
	d      DType
	n      int
	next   nextRow
	out    []float32 // the raw gradient, then the gradient; the caller's memory, unless that holds the student
	mean   float64   // the sum of the free derivatives
	read   light     // the sums of the single pass for a gradient at beta 0 or 1
}

// choose plans the next second pass, of the given kind.
func (r *row) choose(k passKind) {
	r.p = r.j.plan(r.w, r.zs, r.zt, r.d, k)
	if k == ratePass {
		r.setPivot(r.p.natural())
	}
}

// end computes a row for beta 0 or 1 in a single pass. ok is false if the result isn't accurate enough, for example
// because the sides are nearly equal.
func (r *row) end(grad []float32, scale float64) (res rowResult, ok bool) {
	res, ok = r.onePassKL(grad != nil)
	switch {
	case !ok:
	case grad == nil:
		r.j.opt.clipToken(&res)
	case math.IsInf(res.loss, 1):
		if fillNaN(grad); r.j.opt.clipToken(&res) {
			clear(grad)
		}
	default:
		r.p = plan{kind: klPass, teacherWeighs: r.j.opt.Beta == 0}
		ok = r.gradient(&res, grad, scale)
	}
	return res, ok
}

// maxLoss is the largest loss that is computed in float32, which also holds its gradient.
const maxLoss = 1e36

// forward runs the second pass. ok is false if float32 can't represent the row.
func (r *row) forward(clips bool) (loss float64, clipped int, ok bool) {
	sums, ok := r.secondPass(clips)
	loss = sums.loss * math.Ln2 * r.p.fix
	return loss, sums.clipped, ok && loss < maxLoss
}

// firstPasses runs both sides' first passes. A gradient needs the exponentials, in order. A forward pass keeps them if
// its path has tiles for that, unless beta is 0 or 1: a weight too small for float32 may then matter.
func (j *JSD) firstPasses(
	w *worker, s, t unsafe.Pointer, d DType, n int, next nextRow, wantG bool,
) (zs, zt norm) {
	first, keep := w.path.sum[d], wantG || w.path.keepAny[d] != nil && !j.end
	switch {
	case wantG:
		first = w.path.keep[d]
	case keep:
		first = w.path.keepAny[d]
	}
	if keep {
		w.keep(n)
	}
	if zt = w.normaliser(1, t, d, n, next.t, first, keep); zt.ok {
		zs = w.normaliser(0, s, d, n, next.s, first, keep)
	}
	return zs, zt
}

// passKind is the kind of a second pass.
type passKind uint8

const (
	lossPass  passKind = iota
	entryPass          // the loss and the gradient of each entry, which it may clip
	ratePass           // the gradient and the loss, inaccurate where the sides are nearly equal
	klPass             // no second pass, because the first one suffices
)

// passOf returns the kind of second pass to try first for a row.
func (j *JSD) passOf(path *tileSet, d DType, grad bool) passKind {
	switch {
	case j.opt.clipsElements() || grad && (path.rate[d] == nil || min(j.opt.Beta, 1-j.opt.Beta) < steepEnd):
		return entryPass
	case grad:
		return ratePass
	}
	return lossPass
}

// plan describes a row's second pass.
type plan struct {
	kind passKind
	f    tileFunc
	h    float64 // unit of D in the table, in log2 units of odds
	fix  float64 // factor by which the pass's sums are multiplied
	kept bool    // the pass uses the exponentials of the first pass
	// end is set if beta is 0 or 1. At 0 the teacher's probabilities are the weights of the log-odds (teacherWeighs),
	// at 1 the student's are.
	end, teacherWeighs bool
	pivot              float64 // the amount that a ratePass subtracts from the student's rates, in units of h
	bend               float64 // the amount by which a ratePass's x is less than D, in units of h
}

// natural returns the natural pivot of a ratePass. With it, the rate that the pass looks up is 0 where the sides are
// equal, so the rates of the side with more weight are accurate there.
func (p *plan) natural() float64 { return max(0, -p.bend) }

// tiles chooses the pass and its table.
func (p *plan) tiles(path *tileSet, d DType, t *table, even bool) unsafe.Pointer {
	f, h, tab := path.jsd[d], path.tabH, path.tab
	switch {
	case p.kind == ratePass:
		f, h, tab = path.rate[d], geometricH, nil // the table is set in choose
	case p.kind == entryPass && even && path.evenGrad[d] != nil:
		f, h, tab = path.evenGrad[d], path.evenH, path.evenTab
	case p.kind == entryPass:
		f, h, tab = path.grad[d], path.gradH, path.gradTab
	case p.kept && even:
		f, h, tab = path.keptEven[d], path.evenH, path.evenTab
	case p.kept:
		f = path.keptJSD[d]
	case even && path.even[d] != nil:
		f, h, tab = path.even[d], path.evenH, path.evenTab
	}
	p.f, p.h = f, h
	if h == 0 {
		p.h = t.h
	}
	if tab == nil {
		return nil
	}
	return unsafe.Pointer(&tab(t)[0][0])
}

// plan chooses the second pass of a row and sets its constants.
func (j *JSD) plan(w *worker, zs, zt norm, d DType, kind passKind) plan {
	o, a, path := &j.opt, &w.a, w.path
	rs, rt := w.reference(zs, zt)
	even := j.table.symmetric && !o.clipsElements()
	p := plan{kind: kind, end: j.end, teacherWeighs: o.Beta == 0}
	p.kept = kind != lossPass || path.keepAny[d] != nil && !j.end && rs == rt
	a.table = j.table
	a.tab = p.tiles(path, d, j.table, even)
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
	hd := (ls - lt) / k * float64(a.hk)
	if kind == ratePass {
		p.bend = bend(o.Beta) / p.h
		hd -= p.bend
		a.limit = float32(limitD/p.h + math.Abs(p.bend))
	}
	a.hd = float32(hd)
	a.teacher = 0
	if p.teacherWeighs {
		a.teacher = 1<<32 - 1
	}
	// Kept exponentials are not yet divided by a normaliser. For other passes nls and nlt are rounded, so the sums are
	// scaled to compensate, by the geometric mean of both sides' errors.
	p.fix = 1
	switch {
	case p.kept: // a ratePass uses neither fix nor ratio
		p.fix = 1 / zt.total
		a.ratio = float32(zt.total / zs.total)
	case !path.float64s:
		p.fix = math.Exp2(-(float64(a.nls) + ls + float64(a.nlt) + lt) / 2)
	}
	a.clip, a.dclip = float32(math.Inf(1)), math.Inf(1)
	if o.clipsElements() { // the tile's entries are not scaled yet
		a.dclip = o.ClipValue / math.Ln2 / p.fix
		a.clip = float32(a.dclip)
	}
	return p
}

// klLift usually multiplies the weights of the one-pass tile: a weight of 2^-150, which float32 can't represent,
// matters if the log-odds are 2^128.
const klLift = 1 << 32

// steep is the log-odds, in log2 units, above which float32 can't represent an entry's share of a loss for beta 0 or 1,
// which grows with the log-odds without bound. Below it nothing is lost by treating a weight under 2^-126 as 0.
// faintest is log2 of a weight below the smallest float64.
const steep, faintest = 1 << 64, -1080

// diverges reports whether the tile just processed has an entry of KL(p||q) whose logit of q is below deep, although
// its weight is above 2^faintest. p is either the teacher or the student.
func (w *worker) diverges(d DType, teacherWeighs bool, deep, faintest float64) bool {
	a := &w.a
	k := a.dk
	p, q, rp, np := a.s, a.t, a.rs, a.nls
	if teacherWeighs {
		p, q, rp, np = a.t, a.s, a.rt, a.nlt
	}
	if w.copied == nil {
		w.copied = new([tile]float32)
	}
	for i, x := range decode(q, d, w.a.n, w.copied) {
		if float64(x) < deep && k*(load(p, d, i)-float64(rp))+float64(np) > faintest {
			return true
		}
	}
	return false
}

// onePassKL computes KL(teacher||student) for beta 0 and KL(student||teacher) for beta 1, as the mean log-odds minus
// the difference of the normalisers. That cancels if the sides are nearly equal: ok is false unless the result is
// infinite, or large enough relative to the terms that are subtracted. With wantG it keeps the values that a gradient
// needs.
func (r *row) onePassKL(wantG bool) (res rowResult, ok bool) {
	a, reverse, full := &r.w.a, r.j.opt.Beta == 1, r.n&^(block-1)
	if full == 0 {
		return res, false
	}
	k := klPair{s: r.s, t: r.t, next: r.next, reverse: reverse}
	if reverse {
		k.s, k.t, k.next = r.t, r.s, nextRow{r.next.t, r.next.s}
	}
	a.rt = 0
	m := min(full, 2*block)
	refS, refT := r.w.largest(k.s, r.d, m), r.w.largest(k.t, r.d, m)
	a.nls, a.nlt = -float32(a.dk*float64(refS)), -float32(a.dk*float64(refT))
	if !(math.Abs(float64(a.nls)) < maxNormaliser && math.Abs(float64(a.nlt)) < maxNormaliser) {
		return res, false
	}
	a.lift, a.drop = klLift, 1
	sums, ok := r.readBoth(&k, wantG)
	least := math.Inf(-1)
	if ok && math.IsInf(sums.mean, 1) && !k.excluded {
		// A finite summand overflowed. With lower weights none does, but a summand of up to 2^21 becomes 0.
		a.lift, a.drop, least = klLift/0x1p50, 0x1p-50, float64(r.n)*(1<<45)
		sums, ok = r.readBoth(&k, wantG)
	}
	if !ok || !k.excluded && !sums.isSignificant() || !(sums.p >= 1) || !(sums.q >= 1) {
		return res, false
	}
	apart := math.Log2(sums.p) - math.Log2(sums.q)
	res.loss = (sums.mean/sums.p - apart) * math.Ln2
	r.zs, r.zt = a.norm(refS, -a.nls, sums.q), a.norm(refT, -a.nlt, sums.p)
	r.zt.total *= float64(a.lift)
	r.read = light{loss: res.loss, unit: -1 / r.zt.total, pivot: 1} // G = q - p
	if reverse {
		r.zs, r.zt = r.zt, r.zs
		r.read.unit, r.read.pivot = math.Ln2/r.zs.total, -math.Ln2*apart
	}
	res.lseZ, res.lseT = r.zs.lse(r.j.opt.Temperature), r.zt.lse(r.j.opt.Temperature)
	if k.excluded {
		res.loss = math.Inf(1)
		return res, true
	}
	return res, least < res.loss && res.loss < maxLoss
}

// klPair holds a row's sides as the tiles of kl read them. t, which weighs the log-odds, is the teacher or, in reverse,
// the student.
type klPair struct {
	s, t     unsafe.Pointer
	next     nextRow
	reverse  bool
	excluded bool // s excludes an entry that t weighs, so the divergence is infinite
}

// readBoth runs a tile of kl over both sides. It fails if the sums overflow, or if the first tile shows that the sides
// are nearly equal. It ends early if the mean becomes infinite for another reason than an excluded entry.
func (r *row) readBoth(k *klPair, wantG bool) (sums klSums, ok bool) {
	w, a, d, n, size := r.w, &r.w.a, r.d, r.n, r.d.Size()
	f := w.path.kl[d]
	if wantG {
		f = w.path.klForward[d]
		if k.reverse {
			f = w.path.klReverse[d]
		}
		w.keep(n)
		w.sums[0], w.sums[1], w.tops = w.sums[0][:0], w.sums[1][:0], w.tops[:0]
	}
	for i := 0; i < n; {
		m := tileAt(i, n)
		a.n, a.s, a.t = m, from(&w.padS, k.s, d, n, i), from(&w.padT, k.t, d, n, i)
		a.pfs, a.pft, a.step = k.s, k.t, 0
		if k.next.s != nil && i < n&^(block-1) {
			a.pfs, a.pft, a.step = unsafe.Add(k.next.s, i*size), unsafe.Add(k.next.t, i*size), 64
		}
		if wantG {
			a.kept, a.keptT = unsafe.Pointer(&w.kept[0][i]), unsafe.Pointer(&r.raw(i)[0])
		}
		call(f, a)
		if !sums.add(a) || (i == 0 && !sums.isSignificant()) {
			return sums, false
		}
		if math.IsInf(a.kl, 1) && !k.excluded {
			// The sum of finite summands may also be infinite.
			if k.excluded = w.diverges(d, true, -math.MaxFloat32, -150); !k.excluded {
				return sums, true
			}
		}
		switch {
		case !wantG:
		case k.reverse:
			w.sums[0], w.sums[1] = append(w.sums[0], a.sum), append(w.sums[1], a.kl)
		default:
			w.sums[0], w.sums[1] = append(w.sums[0], a.sumG), append(w.sums[1], a.sum)
		}
		w.tops = append(w.tops, a.max)
		i += m
	}
	return sums, true
}

// klSums are sums over a row of 2^yt, 2^ys, 2^yt(yt-ys) and 2^yt|yt-ys|.
type klSums struct{ p, q, mean, magnitude float64 }

// isSignificant reports whether the divergence so far is large enough relative to the terms that are subtracted. In a
// row of few values, each normaliser may be off by 1e-7.
func (k *klSums) isSignificant() bool {
	const share = 0.1
	kl := k.mean/k.p - (math.Log2(k.p) - math.Log2(k.q))
	return kl >= share*(k.magnitude/k.p) && kl >= 0.08
}

// add adds a tile, and reports whether its sums are far from overflowing.
func (k *klSums) add(a *tileArgs) bool {
	lift := float64(a.lift)
	tileP := a.sum / lift // exact
	k.p, k.q = k.p+tileP, k.q+a.sumG
	k.mean, k.magnitude = k.mean+a.kl/lift, k.magnitude+a.klAbs/lift
	return tileP < 1.2e18 && a.sumG < 1.2e18
}

// secondSums holds the sums of a second pass over a row.
type secondSums struct {
	loss, grad float64
	clipped    int
}

// raw returns a row's raw gradient, starting at the tile of entry i. A padded tail has its own memory.
func (r *row) raw(i int) []float32 {
	if full := r.n &^ (block - 1); i < full {
		return r.out[i:full]
	}
	return r.w.padOut[:]
}

// secondPass runs the pass over both rows; a gradient pass leaves the raw gradient in r.out. If a tile diverges, it
// stops and ok is false.
func (r *row) secondPass(wantG bool) (sums secondSums, ok bool) {
	w, p, d, n, size := r.w, &r.p, r.d, r.n, r.d.Size()
	a, next := &w.a, r.next
	for i := 0; i < n; {
		m := tileAt(i, n)
		a.n, a.s, a.t = m, from(&w.padS, r.s, d, n, i), from(&w.padT, r.t, d, n, i)
		a.pfs, a.pft, a.step = r.s, r.t, 0
		if next.s != nil && i < n&^(block-1) { // the first pass has already fetched the last quarter
			a.pfs, a.pft, a.step = unsafe.Add(next.s, i*size*3/4), unsafe.Add(next.t, i*size*3/4), 64
		}
		if wantG {
			a.g = unsafe.Pointer(&r.raw(i)[0])
		}
		if p.kept {
			a.kept, a.keptT = unsafe.Pointer(&w.kept[0][i]), unsafe.Pointer(&w.kept[1][i])
		}
		call(p.f, a)
		if i == 0 && r.adjustPass() {
			continue
		}
		if p.end && float64(a.max)*p.h > steep && w.diverges(d, p.teacherWeighs, -steep/2/a.dk, faintest) {
			return sums, false
		}
		sums.loss += a.sum
		if wantG {
			sums.grad += a.sumG
			sums.clipped += a.clipped
		}
		i += m
	}
	return sums, true
}

// streamFrom is the minimum row length at which gradients without a raw gradient bypass the caches when written.
const streamFrom = 16384

// setFactors sets the factors of a third pass. Rounding gk changes all entries alike.
func (w *worker) setFactors(gk, qk float64) {
	a := &w.a
	a.dgk, a.dqk = gk, qk
	a.gk, a.qk = float32(gk), float32(qk)
}

// thirdPass turns the raw gradient in out into the gradient of the logits: out = (g + q*qk) * gk, with the student's
// kept exponentials. If zero isn't nil, it is a tile of zeros to use as the raw gradient. thirdPass returns the size of
// the largest entry.
func (w *worker) thirdPass(zero *[tile]float32, out []float32) float64 {
	a, n := &w.a, len(out)
	top, finish := float32(0), w.path.finish
	if zero != nil && w.path.stream != nil && n >= streamFrom && uintptr(unsafe.Pointer(&out[0]))&63 == 0 {
		finish = w.path.stream
	}
	for i := 0; i < n; {
		m := tileAt(i, n)
		whole := i < n&^(block-1)
		a.n, a.kept, a.out = m, unsafe.Pointer(&w.kept[0][i]), unsafe.Pointer(&w.padOut)
		if whole {
			a.out = unsafe.Pointer(&out[i])
		}
		if a.g = a.out; zero != nil {
			a.g = unsafe.Pointer(zero)
		}
		if whole {
			call(finish, a)
		} else {
			call(w.path.finish, a)
			copy(out[i:], w.padOut[:n-i])
		}
		top = max(top, a.max)
		i += m
	}
	return float64(top)
}

// slowRow computes a row that float32 can't represent: on float64 tiles or, if that isn't possible, by the definition.
func (j *JSD) slowRow(w *worker, s, t unsafe.Pointer, d DType, n int, grad []float32, scale float64) rowResult {
	if res, ok := j.wideRow(w, s, t, d, n, grad, scale); ok {
		res.exact = true
		return res
	}
	of := d // element type of s
	var put func(i int, g float64)
	if grad != nil { // grad may be the student's own memory: gather first
		z := make([]float64, n)
		for i := range z {
			z[i] = load(s, d, i)
		}
		s, of = unsafe.Pointer(&z[0]), float64s
		put = func(i int, g float64) { grad[i] = float32(g * scale) }
	}
	res := j.opt.refJSD(s, t, of, d, n, put)
	res.exact = true
	return res
}
