package kernels

import (
	"math"
	"unsafe"
)

// The gradient of an entry is G - q sum G, with G = q*rate. If a few entries hold most of the student's probability,
// those cancel: a token at 0.999 has a gradient of a thousandth of either term, or less. Such entries are heavy:
// they are taken out of the passes, whose sums are then over the others alone, and computed in float64, less a multiple
// of q that makes the heaviest one's G 0. That changes no gradient.

// heavy is an entry that is computed in float64: its place, the student's probability, the entry of the loss, and its
// free derivative.
type heavy struct {
	at      int
	q, l, g float64
	folded  float64 // g less the multiple of q
	clipped bool
}

// heavyShare is the probability from which an entry is heavy to begin with.
const heavyShare = 1.0 / 16

// others summarises a row without its heavy entries: the sum of their kept exponentials and the largest, and the sum of
// the teacher's.
type others struct{ sum, largest, teacher float64 }

// setApart takes entries whose share of the student's total is at least share out of the kept exponentials.
func (r *row) setApart(share float64) (rest others) {
	w, least := r.w, float32(share*r.zs.total)
	for i, at := 0, 0; i < r.n; at++ {
		m := tileAt(i, r.n)
		top := r.largestKept(i, m)
		if top >= least {
			top, w.sums[at] = r.pick(i, m, least)
		}
		rest.sum += w.sums[at]
		rest.largest = max(rest.largest, float64(top))
		i += m
	}
	rest.teacher = r.zt.total - r.apart
	return rest
}

// pick is setApart for the m entries from entry i on. It returns the largest that is left, and the sum.
func (r *row) pick(i, m int, least float32) (top float32, sum float64) {
	s, t := r.w.kept[0][i:i+m], r.w.kept[1][i:i+m]
	for from := 0; from < m; from += block { // m is whole blocks
		largest := r.largestKept(i+from, block)
		if largest >= least {
			for at, x := range s[from : from+block] {
				if x >= least && x > 0 { // what pads the row is 0, and least may be
					at += from
					r.w.heavy = append(r.w.heavy, r.exactly(i+at))
					r.apart += float64(t[at])
					s[at], t[at] = 0, 0
				}
			}
			largest = r.largestKept(i+from, block)
		}
		top = max(top, largest)
	}
	var sums [8]float64 // chains of additions that don't wait for each other
	for at := 0; at < m; at += 8 {
		for c, x := range (*[8]float32)(s[at:]) {
			sums[c] += float64(x)
		}
	}
	return top, (sums[0] + sums[1] + sums[2] + sums[3]) + (sums[4] + sums[5] + sums[6] + sums[7])
}

// largestKept is the largest of the student's n kept exponentials from entry i on.
func (r *row) largestKept(i, n int) float32 {
	a := &r.w.a
	a.s, a.n = unsafe.Pointer(&r.w.kept[0][i]), n
	call(r.w.path.max[Float32], a)
	return a.max
}

// exactly computes an entry in float64.
func (r *row) exactly(at int) heavy {
	o, k := &r.j.opt, r.w.a.dk
	b := k*(load(r.t, r.d, at)-float64(r.zt.ref)) - r.zt.sum
	a := k*(load(r.s, r.d, at)-float64(r.zs.ref)) - r.zs.sum
	h := heavy{at: at, q: math.Exp2(a)}
	h.l, h.g = entryTerms(a*math.Ln2, b*math.Ln2, (b-a)*math.Ln2, o.Beta, true)
	if o.clipsElements() && h.l > o.ClipValue {
		h.l, h.g, h.clipped = o.ClipValue, 0, true
	}
	return h
}

// light holds a second pass's sums over the entries that aren't heavy, in nats.
type light struct {
	loss, grad float64 // sums; G's without the following field
	clipped    int
	unit       float64 // the factor of the raw gradients
	pivot      float64 // the multiple of q that they lack
}

// lights does the second pass. It fails if a tile diverges.
func (r *row) lights(rest others) (l light, ok bool) {
	p := &r.p
	sums, ok := r.secondPass(true)
	if p.kind != ratePass {
		unit := math.Ln2 * p.fix
		return light{loss: sums.loss * unit, grad: sums.grad * unit, clipped: sums.clipped, unit: unit}, ok
	}
	student, teacher := weights(r.j.opt.Beta)
	student, teacher = student*math.Ln2*p.h, teacher*math.Ln2*p.h
	q, t := rest.sum/r.zs.total, rest.teacher/r.zt.total
	l = light{unit: student / r.zs.total, pivot: student * p.pivot}
	l.grad = sums.grad * l.unit
	l.loss = l.grad + l.pivot*q + teacher/r.zt.total*sums.loss
	if p.end { // elsewhere the loss doesn't depend on what all D lack
		l.loss += p.off * (teacher*t - student*q)
		l.loss += (student - teacher) / (math.Ln2 * p.h) * (t - q) // as heavy entries have it
	}
	if p.teacherWeighs { // the gradient is q - p
		l.grad, l.unit, l.pivot = -t, -1/r.zt.total, 1
	}
	return l, ok
}

// turn makes raw gradients small where the student's rate is about u, in units of the table.
func (r *row) turn(u float64) {
	u = float64(float32(u))
	r.p.pivot, r.w.a.pivot = u, float32(u)
	r.j.table.rate.less(u, r.w.rates)
	r.w.a.tab = unsafe.Pointer(r.w.rates)
}

// turns looks at a row's first tile: if the student's rates are nearer to their limit than to 0, they are taken from
// their mean there, and the tile is to be repeated.
func (r *row) turns() bool {
	p := &r.p
	if p.kind != ratePass || p.end || p.pivot != 0 || !(r.w.sums[0] > 0) {
		return false
	}
	mean := r.w.a.sumG / r.w.sums[0]
	if !(mean > studentRate(math.Inf(-1), r.j.opt.Beta)/p.h/2) {
		return false
	}
	r.turn(mean)
	return true
}

// roughLoss reports whether a ratePass may be off by more than 1e-6 of the loss: its errors are of the first order in
// D, which cancels.
func (r *row) roughLoss(l *light, loss float64) bool {
	switch {
	case r.p.kind != ratePass:
		return false
	case r.p.end:
		return !(loss >= 0.05) // even the first order of D must cancel
	}
	return !(1e-7*math.Sqrt(math.Abs(l.loss)) <= 1e-6*loss)
}

// lossAgain computes the loss of a row whose sides are nearly equal, in place of a ratePass's result.
func (r *row) lossAgain(res *rowResult) (ok bool) {
	was, tab := r.p, r.w.a.tab
	r.choose(againPass)
	sums, ok := r.secondPass(false)
	res.loss = sums.loss * math.Ln2 * r.p.fix
	if r.p.kept {
		for i := range r.w.heavy {
			res.loss += r.w.heavy[i].l
		}
	}
	r.choose(was.kind)
	r.p, r.w.a.tab = was, tab
	return ok
}

// gradient does the second pass and the third, as often as it takes to find all entries that are too heavy for the
// accuracy that float32 leaves of them.
func (r *row) gradient(res *rowResult, grad []float32, scale float64) bool {
	w, o := r.w, &r.j.opt
	w.reserve(r.n)
	w.heavy = w.heavy[:0]
	nf := o.normFactor()
	out := grad
	inPlace := unsafe.Pointer(&grad[0]) == r.s
	if inPlace {
		out = w.raw[:r.n]
	}
	res.loss = 0
	for share := heavyShare; ; {
		rest := r.setApart(share)
		l, ok := r.lights(rest)
		tmp := rowResult{loss: l.loss, clipped: l.clipped}
		for i := range w.heavy {
			tmp.add(&w.heavy[i])
		}
		if r.roughLoss(&l, tmp.loss) {
			if r.p.end {
				r.choose(entryPass)
				continue
			}
			ok = r.lossAgain(&tmp) && ok
		}
		if !ok || !(tmp.loss < maxLoss) {
			return false
		}
		flat := o.clipToken(&tmp)
		res.loss, res.clipped = tmp.loss*nf, tmp.clipped
		if flat {
			clear(grad)
			return true
		}
		top, gone := r.fold(&l, rest, out, scale*nf/o.Temperature)
		top, gone = top/math.Abs(scale), gone/o.Temperature*nf
		if !(top < 0.2*gone && gone*4e-7 > 3e-14) {
			// Without the terms of clipped entries, errors of the normalisers don't cancel.
			free := w.unclipped(rest.sum / r.zs.total)
			if o.clipsElements() && tmp.clipped > 0 && free > 1e-5 && top < min(0.005*free, 0.002)*nf/o.Temperature {
				return false
			}
			break
		}
		if !r.turnsAgain() {
			share = min(rest.largest/r.zs.total/2, 2*top/gone*rest.largest/r.zs.total)
		}
	}
	if inPlace {
		copy(grad, out)
	}
	return true
}

// fold computes the gradient. It returns the size of its largest entry, and of the terms against which the others may
// have lost precision, in units of the loss.
func (r *row) fold(l *light, rest others, out []float32, unit float64) (top, gone float64) {
	w := r.w
	pivot, all := w.fold(l, rest.sum/r.zs.total, r.p.teacherWeighs)
	raw := w.raw
	if r.p.kind == ratePass && r.p.teacherWeighs {
		raw = w.kept[1]
	}
	r.mean = all + pivot
	w.setFactors(unit*l.unit, -(r.mean-l.pivot)*unit/r.zs.total)
	top = w.thirdPass(raw, out)
	for i := range w.heavy {
		h := &w.heavy[i]
		v := (h.folded - h.q*all) * unit
		out[h.at] = float32(v)
		top = max(top, math.Abs(v))
	}
	gone = math.Abs(r.mean - l.pivot)
	if r.p.pivot != 0 {
		gone += 0.002 // U is off by up to 1e-9 near its limit
	}
	return top, gone * rest.largest / r.zs.total
}

// turnsAgain makes a ratePass more accurate where the gradient cancels, if it can.
func (r *row) turnsAgain() bool {
	p := &r.p
	switch {
	case p.kind != ratePass:
		return false
	case p.end:
		r.choose(entryPass)
		return true
	}
	student, _ := weights(r.j.opt.Beta)
	u := r.mean / (student * math.Ln2 * p.h)
	if math.Abs(u-p.pivot) < 0.01*math.Abs(u) {
		return false
	}
	r.turn(u)
	return true
}

// add adds a heavy entry to a row.
func (r *rowResult) add(h *heavy) {
	r.loss += h.l
	if h.clipped {
		r.clipped++
	}
}

// unclipped is how much of the student's probability may be in entries that aren't clipped: rest is the others'.
func (w *worker) unclipped(rest float64) float64 {
	for i := range w.heavy {
		if !w.heavy[i].clipped {
			rest += w.heavy[i].q
		}
	}
	return rest
}

// fold returns a pivot, and the sum over all entries of G less pivot*q, where q is the sum over the others. The pivot
// is the heaviest entry's G/q if own is set, that entry is more than half of the row, or no other pivot exists.
func (w *worker) fold(l *light, q float64, own bool) (pivot, all float64) {
	heaviest := -1
	for i := range w.heavy {
		if heaviest < 0 || w.heavy[i].q > w.heavy[heaviest].q {
			heaviest = i
		}
	}
	switch {
	case heaviest >= 0 && (own || l.pivot == 0 || w.heavy[heaviest].q > 0.5):
		pivot = w.heavy[heaviest].g / w.heavy[heaviest].q
	case !own:
		pivot, heaviest = l.pivot, -1
	}
	all = l.grad + (l.pivot-pivot)*q
	for i := range w.heavy {
		h := &w.heavy[i]
		h.folded = h.g - float64(pivot*h.q) // not fused, because equal entries must cancel
		if i == heaviest {
			h.folded = 0
		}
		all += h.folded
	}
	return pivot, all
}
