package kernels

import (
	"math"
	"unsafe"
)

// The gradient of an entry is G - q sum G, with G = q*rate. If a few entries hold most of the student's probability,
// the two terms cancel: a token at 0.999 has a gradient of a thousandth of either term, or less. Such entries are
// heavy. They are computed in float64 and removed from the passes, whose sums then cover only the other entries. A
// multiple of q is subtracted from their G and from every G in the sum, usually the one that makes the heaviest entry's
// G 0. This doesn't change any gradient, because all q add up to 1.

// heavy is an entry that is computed in float64: its index, the student's probability, its loss, and the free
// derivative of that loss.
type heavy struct {
	at      int
	q, l, g float64
	folded  float64 // g minus pivot*q; see fold
	clipped bool
}

// heavyShare is the minimum probability at which an entry is initially considered heavy.
const heavyShare = 1.0 / 16

// remainder summarises the exponentials of a row's entries that aren't heavy: the sum and the maximum of the student's,
// and the sum of the teacher's.
type remainder struct{ sum, largest, teacher float64 }

// setApart moves entries that hold at least this share of the student's total from the kept exponentials to w.heavy.
func (r *row) setApart(share float64) (rest remainder) {
	w, threshold := r.w, float32(share*r.zs.total)
	for i, at := 0, 0; i < r.n; at++ {
		m := tileAt(i, r.n)
		if !w.path.keepsMax {
			w.tops[at] = r.largestKept(i, m)
		}
		if w.tops[at] >= threshold {
			w.tops[at] = r.pick(i, m, threshold)
			w.a.s, w.a.t, w.a.n = unsafe.Pointer(&w.kept[0][i]), unsafe.Pointer(&r.second(i, m)[0]), m
			call(w.path.totals, &w.a)
			w.sums[0][at], w.sums[1][at] = w.a.sum, w.a.sumG
		}
		rest.sum += w.sums[0][at]
		rest.teacher += w.sums[1][at]
		rest.largest = max(rest.largest, float64(w.tops[at]))
		i += m
	}
	return rest
}

// pick moves the heavy ones of the m entries starting at entry i to w.heavy; m is a multiple of block. It returns the
// student's largest remaining exponential.
func (r *row) pick(i, m int, threshold float32) (top float32) {
	top = r.largestKept(i, m)
	switch half := (m/2 + block - 1) &^ (block - 1); {
	case top < threshold:
		return top
	case m > block:
		return max(r.pick(i, half, threshold), r.pick(i+half, m-half, threshold))
	}
	s, t := r.w.kept[0][i:i+block], r.second(i, block)
	for at, x := range s {
		if x >= threshold && x > 0 { // the padding and the threshold may both be 0
			r.w.heavy = append(r.w.heavy, r.exactly(i+at))
			s[at], t[at] = 0, 0
		}
	}
	return r.largestKept(i, block)
}

// second returns the values that a row keeps in addition to the student's exponentials, for the m entries starting at
// entry i. They are the teacher's exponentials or the raw gradient.
func (r *row) second(i, m int) []float32 {
	if r.p.kind == klPass {
		return r.raw(i)[:m]
	}
	return r.w.kept[1][i : i+m]
}

// largestKept returns the largest of the student's n kept exponentials starting at entry i.
func (r *row) largestKept(i, n int) float32 {
	return r.w.largest(unsafe.Pointer(&r.w.kept[0][i]), Float32, n)
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
	loss, grad float64 // sums of the losses and of G minus pivot*q
	clipped    int
	unit       float64 // factor that converts raw gradients to nats
	pivot      float64 // the multiple of q that the raw gradients don't include
}

// lightPass runs the second pass. It returns false if a tile diverges.
func (r *row) lightPass(rest remainder) (l light, ok bool) {
	p := &r.p
	if p.kind == klPass {
		l = r.read
		l.grad = rest.teacher * l.unit
		for i := range r.w.heavy {
			l.loss -= r.w.heavy[i].l
		}
		return l, true
	}
	sums, ok := r.secondPass(true)
	if p.kind != ratePass {
		unit := math.Ln2 * p.fix
		return light{loss: sums.loss * unit, grad: sums.grad * unit, clipped: sums.clipped, unit: unit}, ok
	}
	return r.rated(sums, rest.sum, rest.teacher), ok
}

// rated converts the sums of a ratePass over some entries to nats. student and teacher are the sums of each side's
// exponentials over the same entries.
func (r *row) rated(sums secondSums, student, teacher float64) light {
	p, beta := &r.p, r.j.opt.Beta
	unit := math.Ln2 * p.h * (1 - beta)
	l := light{unit: unit / r.zs.total, pivot: unit * p.pivot}
	l.grad = sums.grad * l.unit
	l.loss = l.grad + l.pivot*student/r.zs.total
	l.loss += math.Ln2 * p.h * beta * (sums.loss + (p.bend+p.pivot)*teacher) / r.zt.total
	return l
}

// setPivot sets the pivot to u, in units of the table: raw gradients are small where the student's rate is about u.
func (r *row) setPivot(u float64) {
	r.p.pivot = u
	r.w.path.rates.plus(r.p.natural()-u-sharedRate(math.Abs(r.p.bend)), r.w.rates)
	r.w.a.tab = unsafe.Pointer(&r.w.rates[0])
}

// turned reports whether the row's pass is a ratePass with a pivot other than the natural one.
func (r *row) turned() bool { return r.p.kind == ratePass && r.p.pivot != r.p.natural() }

// adjustPass examines the first tile of a ratePass, and reports whether to repeat it with another pivot or pass. If the
// mean of the student's rates is nearer to their limit than to 0, that mean becomes the pivot. If the sides are so
// nearly equal that a ratePass isn't accurate, the row gets an entryPass.
func (r *row) adjustPass() bool {
	p, a := &r.p, &r.w.a
	student, teacher := r.w.sums[0][0], r.w.sums[1][0]
	if p.kind != ratePass || p.pivot != p.natural() || !(student > 0) {
		return false
	}
	if mean := a.sumG/student + p.pivot; mean != p.pivot && mean > -math.Log2(1-r.j.opt.Beta)/p.h/2 {
		r.setPivot(mean)
		return true
	}
	share := student / r.zs.total
	loss := r.rated(secondSums{loss: a.sum, grad: a.sumG}, student, teacher).loss
	if !r.isRough(share, loss, loss) {
		return false
	}
	r.choose(entryPass)
	return true
}

// isRough reports whether a ratePass may be off by more than 1e-6 of the loss. Each side's terms, and thus their
// rounding errors, are of first order in D or contain the bend. These parts cancel in the sum, so the loss is of second
// order. share is the probability of the entries that the pass covers, and lights is their loss. By Cauchy-Schwarz, the
// square root bounds the size of the terms without the bend. The second summand is for the bend's rounding errors,
// which don't average out if the row has few distinct values.
func (r *row) isRough(share, lights, loss float64) bool {
	beta := r.j.opt.Beta
	off := 2e-7*math.Sqrt(beta*(1-beta)*share*math.Abs(lights)) +
		1e-8*share*min(beta, 1-beta)*math.Abs(bend(beta))
	return r.p.kind == ratePass && !(off <= 1e-6*loss)
}

// gradient runs the second and third passes, and repeats them until it has found all entries that are too heavy for
// float32's accuracy. It returns false if the row needs the float64 path.
func (r *row) gradient(res *rowResult, grad []float32, scale float64) bool {
	w, o := r.w, &r.j.opt
	w.heavy = w.heavy[:0]
	nf := o.normFactor()
	res.loss = 0
	natural := 0.0 // the loss with the natural pivot, which is the most accurate one where the sides are close
	for share := heavyShare; ; {
		rest := r.setApart(share)
		l, ok := r.lightPass(rest)
		tmp := rowResult{loss: l.loss, clipped: l.clipped}
		for i := range w.heavy {
			tmp.add(&w.heavy[i])
		}
		if r.turned() && natural > 0 {
			tmp.loss = natural
		}
		// isRough takes a square root, so the factor 4 is a margin of 2 for the entries' own share of the errors.
		if r.isRough(min(1, 4*max(rest.sum/r.zs.total, rest.teacher/r.zt.total)), l.loss, tmp.loss) {
			r.choose(entryPass)
			continue
		}
		if !ok || !(tmp.loss < maxLoss) {
			return false
		}
		natural = tmp.loss
		flat := o.clipToken(&tmp)
		res.loss, res.clipped = tmp.loss*nf, tmp.clipped
		if flat {
			clear(grad)
			return true
		}
		top, gone := r.fold(&l, rest, scale*nf/o.Temperature)
		top, gone = top/math.Abs(scale), gone/o.Temperature*nf
		if r.p.kind == klPass && !r.p.teacherWeighs && top < 1e-9*tmp.loss && tmp.loss > 1e4 {
			return false // the gradient is negligible compared with the log-odds, and may be exactly 0
		}
		if !(top < 0.2*gone && gone*4e-7 > 3e-14) {
			// Without the terms of clipped entries, errors of the normalisers don't cancel.
			free := w.unclipped(rest.sum / r.zs.total)
			if o.clipsElements() && tmp.clipped > 0 && free > 1e-5 && top < min(0.005*free, 0.002)*nf/o.Temperature {
				return false
			}
			break
		}
		if r.p.kind == klPass {
			return false
		}
		if !r.refinePivot() {
			share = min(rest.largest/r.zs.total/2, 2*top/gone*rest.largest/r.zs.total)
		}
	}
	if &r.out[0] != &grad[0] {
		copy(grad, r.out)
	}
	return true
}

// fold computes the gradient. top is the absolute value of its largest entry. gone is the size of the terms whose
// cancellation may have cost precision, in units of the loss.
func (r *row) fold(l *light, rest remainder, unit float64) (top, gone float64) {
	w := r.w
	turned := r.turned()
	pivot, all := w.fold(l, rest.sum/r.zs.total, !turned)
	r.mean = all + pivot
	w.setFactors(unit*l.unit, -(r.mean-l.pivot)/(r.zs.total*l.unit))
	top = w.thirdPass(nil, r.out)
	for i := range w.heavy {
		h := &w.heavy[i]
		v := (h.folded - h.q*all) * unit
		r.out[h.at] = float32(v)
		top = max(top, math.Abs(v))
	}
	gone = math.Abs(r.mean - l.pivot)
	switch natural := r.p.natural(); {
	case turned:
		// U is off by up to 1e-9 near its limit, and x by the rounding error of the bend.
		beta := r.j.opt.Beta
		gone += 0.002 + 0.05*math.Abs(bend(beta))*beta*(1-beta)
	case r.p.kind == ratePass && natural > 0:
		// The pivot is the same in all rates, so its cancellation costs only rounding: count only a quarter of it.
		gone = math.Abs(r.mean) + l.pivot/4
	}
	return top, gone * rest.largest / r.zs.total
}

// refinePivot makes a ratePass more accurate where the gradient cancels, by moving its pivot to the row's mean rate. It
// returns false if the pivot is close to that already, or the pass isn't a ratePass.
func (r *row) refinePivot() bool {
	p := &r.p
	u := r.mean / (math.Ln2 * p.h * (1 - r.j.opt.Beta))
	if p.kind != ratePass || math.Abs(u-p.pivot) < 0.01*math.Abs(u) {
		return false
	}
	r.setPivot(u)
	return true
}

// add adds a heavy entry to a row.
func (r *rowResult) add(h *heavy) {
	r.loss += h.l
	if h.clipped {
		r.clipped++
	}
}

// unclipped returns the maximum share of the student's probability in entries that aren't clipped; rest is the share of
// the entries that aren't heavy.
func (w *worker) unclipped(rest float64) float64 {
	for i := range w.heavy {
		if !w.heavy[i].clipped {
			rest += w.heavy[i].q
		}
	}
	return rest
}

// fold returns a pivot, and the sum over all entries of G minus pivot*q. The parameter q is the share of the entries
// that aren't heavy. The pivot is the heaviest entry's G/q if own is set or that entry is more than half of the row;
// otherwise it is l.pivot. If own is set and w.heavy is empty, the pivot is 0.
func (w *worker) fold(l *light, q float64, own bool) (pivot, all float64) {
	heaviest := -1
	for i := range w.heavy {
		if heaviest < 0 || w.heavy[i].q > w.heavy[heaviest].q {
			heaviest = i
		}
	}
	switch {
	case heaviest >= 0 && (own || w.heavy[heaviest].q > 0.5):
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
