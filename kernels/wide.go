package kernels

import (
	"math"
	"unsafe"
)

// The float64 tiles compute a row that float32 can't represent. A tile reads both sides, adds up the summands of the
// loss and the free derivatives, and writes gradients. Each of its constants is a row of eight equal values, so that it
// can be a memory operand. The sums follow the constants.

// The constants below are the indices of these rows. Entries are in log2 units: a = (s - topS)*k + normS, b likewise,
// and D = b - a = (t-topT - (s-topS))*k + apart. A summand is lossP*p*log2(p/M) + lossQ*q*log2(M/q) + lossMinus*(q-p),
// or q*D*D*near(D) for |D| below near. Its free derivative is q*(freeQ*log2(M/q) + freeShare) + freeMinus*(q-p). For
// beta 0 and 1, the tile takes D for both logarithms, because the one that is 0 has the factor 0.
const (
	wideK = iota
	wideTopS
	wideTopT
	wideNormS
	wideNormT
	wideApart
	wideLossP
	wideLossQ
	wideLossMinus
	wideFreeQ
	wideFreeMinus
	wideFreeShare
	wideMinusNear
	wideCut  // larger summands are cut to this value
	wideMean // a gradient is (derivative + wideMean*q) * wideScale
	wideScale
	wideBeta
	wideRest // 1 - beta
	wideMinusFar
	wideFar
	wideLeast // log2 of the smallest probability; it counts as 0
	wideSmallest
	wideSign
	wideOne
	wideMagic // rounds to an integer, which a shift moves into the exponent
	wideMinusLog2E
	wideTwoLog2E
	wideOffset // carries a mantissa of 2^1/2 or more into the exponent
	wideInteger
	wideBias
	wideMantissa
	wideRoot
	wideNear
	wideExp  = wideNear + wideNears
	wideLog  = wideExp + wideExps
	wideSums = wideLog + wideLogs

	wideNears = 4
	wideExps  = 10
	wideLogs  = 7

	// indices of the sums, relative to wideSums
	wideClipped  = 0
	wideFarthest = 1 // not a sum, but the smallest -|D|
	wideP        = 2
	wideQ        = 3
	wideFree     = 4
	wideLoss     = 5

	wideScratch = wideSums + 6 // four float64 for each entry of a block
	wideCount   = wideScratch + 4*block/8
)

// wideRows are the constants and sums of float64 tiles.
type wideRows [wideCount][8]float64

// farD is the |D| of an entry that one side masks. Finite float32 logits don't reach it.
const farD = 1e160

// leastLog is log2 of the smallest probability. Products of smaller ones would be subnormal, which is slow.
const leastLog = -500

// nearD is the |D| below which summands come from a series.
const nearD = 1.0 / 64

func newWideRows() *wideRows {
	r := (*wideRows)(unsafe.Pointer(&aligned(16 * wideCount)[0]))
	root := math.Float64bits(math.Sqrt2 / 2)
	for i, x := range map[int]float64{
		wideMinusFar: -farD, wideFar: farD, wideLeast: leastLog, wideSmallest: 0x1p-500, wideOne: 1,
		wideMagic:      3<<51 + 1023,
		wideSign:       math.Copysign(0, -1),
		wideMinusLog2E: -math.Log2E, wideTwoLog2E: 2 * math.Log2E,
		wideOffset:   math.Float64frombits(1023<<52 - root),
		wideInteger:  1 << 52,
		wideBias:     1<<52 + 1023,
		wideMantissa: math.Float64frombits(1<<52 - 1),
		wideRoot:     math.Float64frombits(root),
	} {
		r.set(i, x)
	}
	// Most rows need fewer terms, but log2(M/q) cancels for beta near an end.
	r.set(wideExp, 7.070977866508138e-09, 1.0205905413765595e-07, 1.3215451633221434e-06, 1.5252672924850737e-05,
		0.00015403530424776529, 0.0013333558200794592, 0.009618129107618665, 0.05550410866465167, 0.24022650695910075,
		math.Ln2) // (2^x-1)/x on [-1/2,1/2]
	r.set(wideLog, 0.24296332611259117, 0.26144042332141254, 0.32061650335968256, 0.41219840046505485,
		0.5770780172560378, 0.9617966939243131, 2.885390081777927) // log2((1+x)/(1-x))/x in powers of x^2
	return r
}

// set sets consecutive rows, starting at i.
func (r *wideRows) set(i int, values ...float64) {
	for j, x := range values {
		for lane := range r[i+j] {
			r[i+j][lane] = x
		}
	}
}

// sum returns the sum of a result's lanes.
func (r *wideRows) sum(of int) (sum float64) {
	for _, x := range r[wideSums+of] {
		sum += x
	}
	return sum
}

// setTerms sets the factors of the summands. bregman selects, for beta 0 and 1, the summands that are never negative.
func (r *wideRows) setTerms(beta float64, bregman bool) {
	const perNat = math.Log2E
	set := func(lossP, lossQ, lossMinus, freeQ, freeMinus, freeShare float64) {
		r.set(wideLossP, lossP, lossQ, lossMinus, freeQ, freeMinus, freeShare)
	}
	near := nearD
	r.set(wideBeta, beta, 1-beta)
	switch {
	case beta > 0 && beta < 1:
		set(beta, beta-1, 0, beta-1, 0, 0)
	case bregman && beta == 0:
		set(1, 0, perNat, 0, perNat, 0)
	case bregman:
		set(0, -1, -perNat, -1, 0, 0)
	case beta == 0:
		set(1, 0, 0, 0, perNat, -perNat)
	default:
		set(0, -1, 0, -1, 0, perNat)
	}
	if (beta == 0 || beta == 1) && !bregman {
		near = -1 // these summands don't cancel
	}
	r.set(wideMinusNear, -near)
	for i, c := range nearSeries(beta) { // the highest power first
		r.set(wideNear+wideNears-1-i, c*math.Pow(math.Ln2, float64(i+1)))
	}
}

// nearSeries returns the coefficients of d^2, d^3, ... of a summand divided by q, in nats.
func nearSeries(beta float64) [wideNears]float64 {
	switch beta {
	case 0: // e^d d - e^d + 1
		return [...]float64{1. / 2, 1. / 3, 1. / 8, 1. / 30}
	case 1: // e^d - 1 - d
		return [...]float64{1. / 2, 1. / 6, 1. / 24, 1. / 120}
	}
	// The derivative is beta e^d h(d), where h = log(p/M) is an integral of a logistic function.
	c := 1 - beta
	v := c * beta
	h := [...]float64{c, -v / 2, v * (2*c - 1) * -1 / 6, -v * (1 - 6*v) / 24}
	return [...]float64{
		beta * h[0] / 2,
		beta * (h[0] + h[1]) / 3,
		beta * (h[0]/2 + h[1] + h[2]) / 4,
		beta * (h[0]/6 + h[1]/2 + h[2] + h[3]) / 5,
	}
}

// wideRow is a row that float64 tiles compute.
type wideRow struct {
	j    *JSD
	w    *worker
	s, t unsafe.Pointer
	d    DType
	n    int
	at   int // beginning of the tile with the student's largest entry
}

// pass runs a tile function over the row. If grad isn't nil, it receives gradients; it may be the student's memory. The
// gradients of the row's tail remain in padOut.
func (r *wideRow) pass(f tileFunc, grad []float32) {
	w, a := r.w, &r.w.a
	rows := w.rows
	var sums [6][8]float64
	for i := 0; i < r.n; {
		m := tileAt(i, r.n)
		s, t := from(&w.padS, r.s, r.d, r.n, i), from(&w.padT, r.t, r.d, r.n, i)
		if r.d != Float32 {
			s = unsafe.Pointer(&decode(s, r.d, m, &a.wide[0])[0])
			t = unsafe.Pointer(&decode(t, r.d, m, &a.wide[1])[0])
		}
		a.s, a.t, a.n, a.g, a.rows = s, t, m, unsafe.Pointer(w.copied), unsafe.Pointer(rows)
		a.kept = unsafe.Pointer(&w.kept[0][i])
		switch {
		case i >= r.n&^(block-1):
			a.g = unsafe.Pointer(&w.padOut)
		case grad != nil:
			a.g = unsafe.Pointer(&grad[i])
		}
		call(f, a)
		for k := range sums {
			for lane, x := range rows[wideSums+k] {
				if k == wideFarthest {
					sums[k][lane] = min(sums[k][lane], x)
				} else {
					sums[k][lane] += x
				}
			}
		}
		i += m
	}
	copy(rows[wideSums:], sums[:])
}

// top returns a side's largest entry, and sets at to the beginning of its tile. It fails if the side lacks a softmax.
func (r *wideRow) top(p unsafe.Pointer) (top float64, ok bool) {
	w, a := r.w, &r.w.a
	largest, sum := negInf, 0.0
	a.pfs, a.step = p, 0
	for i := 0; i < r.n; {
		m := tileAt(i, r.n)
		x := from(&w.padS, p, r.d, r.n, i)
		if x := w.largest(x, r.d, m); x > largest {
			largest, r.at = x, i
		}
		// The factor is so small that the sum is finite unless an entry is NaN or infinite.
		a.k, a.dk, a.ref, a.dref = 0x1p-122, 0x1p-122, 0, 0
		a.s, a.n = x, m
		call(w.path.sum[r.d], a)
		sum += a.sum
		i += m
	}
	return float64(largest), !math.IsInf(float64(largest), 0) && sum-sum == 0
}

// widen provides memory for a row of n entries on float64 tiles.
func (w *worker) widen(n int) {
	if w.rows == nil {
		w.rows = newWideRows()
	}
	if w.copied == nil {
		w.copied = new([tile]float32)
	}
	if w.a.wide == nil {
		w.a.wide = new([2][tile]float32)
	}
	w.keep(n)
}

// wideTiles returns the tile functions for normalisers and for summands.
func (j *JSD) wideTiles(p *tileSet) (sum, terms tileFunc) {
	switch {
	case p.wideSum == nil:
		return pureWideSum, func(a *tileArgs) { pureWide(a, !j.end) }
	case j.end:
		return p.wideSum, p.wideEnd
	}
	return p.wideSum, p.wideMix
}

// wideRow computes a row on float64 tiles. ok is false if a side lacks a softmax.
func (j *JSD) wideRow(
	w *worker, s, t unsafe.Pointer, d DType, n int, grad []float32, scale float64,
) (res rowResult, ok bool) {
	o := &j.opt
	w.widen(n)
	r, rows := wideRow{j: j, w: w, s: s, t: t, d: d, n: n}, w.rows
	topT, okT := r.top(t)
	topS, okS := r.top(s)
	if !okS || !okT || o.Temperature < 1e-100 || o.Temperature > 1e100 {
		return res, false
	}
	k := math.Log2E / o.Temperature
	sum, mix := j.wideTiles(w.path)
	inf := math.Inf(1)
	rows.set(wideK, k, topS, topT, 0, 0, 0)
	rows.setTerms(o.Beta, o.Clip != ClipElement)
	rows.set(wideCut, inf, 0, 0)
	r.pass(sum, nil)
	normS, normT := math.Log2(rows.sum(wideQ)), math.Log2(rows.sum(wideP))
	res.lseZ, res.lseT = topS/o.Temperature+normS*math.Ln2, topT/o.Temperature+normT*math.Ln2
	rows.set(wideNormS, -normS, -normT, normS-normT)
	if o.clipsElements() {
		rows.set(wideCut, o.ClipValue*math.Log2E)
	} else if grad != nil {
		rows.set(wideFreeShare, rows[wideFreeShare][0]-rows[wideFreeQ][0]*r.pivot())
	}
	raw := grad // unless grad is the student's memory, which later passes read
	if grad != nil && unsafe.Pointer(&grad[0]) == s {
		raw = w.scratch(n)
	}
	rows.set(wideScale, 1)
	r.pass(mix, raw)
	faintest := r.faintest(normS, normT)
	if o.clipsElements() && faintest <= leastLog*math.Ln2 {
		return res, false // an infinite summand must be clipped, but the tiles treat its weight as 0
	}
	res.clipped = int(rows.sum(wideClipped))
	if j.end && o.Clip == ClipElement && res.clipped == 0 {
		// Nothing was clipped, so the Bregman summands have the same sum, and they don't cancel.
		rows.setTerms(o.Beta, true)
		rows.set(wideCut, inf)
		r.pass(mix, raw)
	}
	if res.loss = rows.sum(wideLoss) * math.Ln2; faintest < inf && !o.clipsElements() {
		res.loss = inf
	}
	switch flat := o.clipToken(&res); {
	case grad == nil:
	case flat:
		clear(grad)
	case math.IsInf(res.loss, 1):
		fillNaN(grad)
	default:
		r.finish(mix, raw, grad, math.Ln2*scale*o.normFactor()/o.Temperature, math.Exp2(-normS))
	}
	res.loss *= o.normFactor()
	return res, true
}

// finish subtracts the mean from the float32 raw gradients, and scales them to unit. If they cancel, the tiles run
// again with the mean. largest is the student's largest probability.
func (r *wideRow) finish(f tileFunc, raw, grad []float32, unit, largest float64) {
	w, mean := r.w, r.w.rows.sum(wideFree)
	w.setFactors(unit, -mean)
	top := w.thirdPass(nil, raw)
	if lost := math.Abs(unit * mean * largest); lost <= 4*top && top < math.MaxFloat32 {
		if &raw[0] != &grad[0] {
			copy(grad, raw)
		}
		return
	}
	w.rows.set(wideMean, -mean, unit)
	r.pass(f, grad)
	full := r.n &^ (block - 1)
	copy(grad[full:], w.padOut[:r.n-full])
}

// pivot returns log2(M/q) of the student's largest entry. Subtracting it from every entry's log2(M/q) doesn't change
// the gradient, and brings that entry's derivative, which might cancel, close to 0.
func (r *wideRow) pivot() float64 {
	rows, beta := r.w.rows, r.j.opt.Beta
	top := rows[wideTopS][0]
	for i := r.at; ; i++ {
		if load(r.s, r.d, i) == top {
			d := (load(r.t, r.d, i)-rows[wideTopT][0])*rows[wideK][0] + rows[wideApart][0]
			if beta == 1 {
				return max(d, -farD)
			}
			return max(d, 0) + math.Log2(beta*math.Exp2(min(d, 0))+(1-beta)*math.Exp2(-max(d, 0)))
		}
	}
}

// farthest returns the smallest -|D|.
func (r *wideRows) farthest() float64 {
	far := 0.0
	for _, x := range r[wideSums+wideFarthest] {
		far = min(far, x)
	}
	return far
}

// faintest returns the smallest log-probability among entries that the other side of KL masks, or +Inf if there are
// none. Any such entry makes KL infinite, unless float64 rounds its probability to 0; then it is ignored.
func (r *wideRow) faintest(normS, normT float64) float64 {
	if !r.j.end || r.w.rows.farthest() > -farD {
		return math.Inf(1)
	}
	p, q, top, norm := r.s, r.t, r.w.rows[wideTopS][0], normS
	if r.j.opt.Beta == 0 {
		p, q, top, norm = r.t, r.s, r.w.rows[wideTopT][0], normT
	}
	least := math.Inf(1)
	for i := 0; i < r.n; i += tile {
		for at, x := range decode(unsafe.Add(q, i*r.d.Size()), r.d, min(tile, r.n-i), &r.w.a.wide[0]) {
			if x < -math.MaxFloat32 {
				y := (load(p, r.d, i+at)-top)/r.j.opt.Temperature - norm*math.Ln2
				if math.Exp(y) > 0 {
					least = min(least, y)
				}
			}
		}
	}
	return least
}

// pureWideSum is the portable tile function for normalisers.
func pureWideSum(a *tileArgs) {
	rows := (*wideRows)(a.rows)
	k := rows[wideK][0]
	sum := func(p unsafe.Pointer, top float64) (sum [8]float64) {
		for _, x := range unsafe.Slice((*float32)(p), a.n) {
			sum[0] += exp2((float64(x) - top) * k)
		}
		return sum
	}
	rows[wideSums+wideQ], rows[wideSums+wideP] = sum(a.s, rows[wideTopS][0]), sum(a.t, rows[wideTopT][0])
}

// pureWide is the portable tile function for summands.
func pureWide(a *tileArgs, mix bool) {
	rows := (*wideRows)(a.rows)
	get := func(i int) float64 { return rows[i][0] }
	ss, ts := unsafe.Slice((*float32)(a.s), a.n), unsafe.Slice((*float32)(a.t), a.n)
	out, kept := unsafe.Slice((*float32)(a.g), a.n), unsafe.Slice((*float32)(a.kept), a.n)
	k, topS, topT := get(wideK), get(wideTopS), get(wideTopT)
	normS, normT, apart := get(wideNormS), get(wideNormT), get(wideApart)
	beta, cut, near := get(wideBeta), get(wideCut), -get(wideMinusNear)
	c0, c1, c2, c3 := get(wideNear+3), get(wideNear+2), get(wideNear+1), get(wideNear)
	var sums [6]float64
	for i, x := range ss {
		s, t := float64(x)-topS, float64(ts[i])-topT
		d := (t-s)*k + apart
		if !(d > -farD) {
			d = -farD
		} else if d > farD {
			d = farD
		}
		hi := s*k + normS
		if y := t*k + normT; y > hi {
			hi = y
		}
		larger, away := exp2(hi), math.Abs(d)
		share, less := exp2(-away), math.Expm1(-away*math.Ln2)
		q, p, minus := larger, larger*share, -larger*less
		if d >= 0 {
			q, p, minus = p, q, -minus
		}
		if hi <= leastLog {
			q, p, minus = 0, 0, 0
		}
		lm, h := d, d
		if mix {
			l := mixture(beta, d < 0, share, less)
			lm, h = l+max(d, 0), min(d, 0)-l
		}
		loss := get(wideLossP)*p*h + get(wideLossQ)*q*lm + get(wideLossMinus)*minus
		free := q*(get(wideFreeQ)*lm+get(wideFreeShare)) + get(wideFreeMinus)*minus
		if away < near {
			loss = q * d * d * (((c3*d+c2)*d+c1)*d + c0)
		}
		if loss > cut {
			loss, free = cut, 0
			sums[wideClipped]++
		}
		sums[wideFarthest] = min(sums[wideFarthest], -away)
		sums[wideP] += p
		sums[wideQ] += q
		sums[wideFree] += free
		sums[wideLoss] += loss
		out[i], kept[i] = float32((free+q*get(wideMean))*get(wideScale)), float32(q)
	}
	for i, x := range sums {
		rows[wideSums+i] = [8]float64{x}
	}
}

// mixture returns log2 of M divided by the larger side's probability. The other side's probability is the larger one
// times share, which is 1+less. minor means that the other side is the teacher.
func mixture(beta float64, minor bool, share, less float64) float64 {
	weight, rest := 1-beta, beta
	if minor {
		weight, rest = rest, weight
	}
	if u := weight * less; u > -0.5 {
		return math.Log1p(u) * math.Log2E
	}
	return math.Log2(rest + weight*share)
}
