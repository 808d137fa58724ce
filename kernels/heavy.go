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

// others is what is left of a row without its heavy entries: the sum of their kept exponentials, and the largest.
type others struct{ sum, largest float64 }

// setApart takes entries whose share of the student's total is at least share out of the kept exponentials.
func (r *row) setApart(share float64) (rest others) {
	w, a := r.w, &r.w.a
	kept, least := w.kept[0], float32(share*r.zs.total)
	for i, at := 0, 0; i < r.n; at++ {
		m := tileAt(i, r.n)
		a.s, a.n = unsafe.Pointer(&kept[i]), m
		call(w.path.max[Float32], a)
		top := a.max
		if top >= least {
			top, w.sums[at] = r.pick(i, m, least)
		}
		rest.sum += w.sums[at]
		rest.largest = max(rest.largest, float64(top))
		i += m
	}
	return rest
}

// pick is setApart for the m entries from entry i on. It returns the largest that is left, and the sum.
func (r *row) pick(i, m int, least float32) (top float32, sum float64) {
	s, t := r.w.kept[0][i:i+m], r.w.kept[1][i:i+m]
	for at, x := range s {
		if x >= least && x > 0 { // what pads the row is 0, and least may be
			r.w.heavy = append(r.w.heavy, r.exactly(i+at))
			s[at], t[at] = 0, 0
		}
	}
	var sums [4]float64            // chains of additions that don't wait for each other
	for at := 0; at < m; at += 4 { // m is whole blocks
		for c, x := range s[at : at+4] {
			sums[c] += float64(x)
		}
	}
	w, a := r.w, &r.w.a
	a.s, a.n = unsafe.Pointer(&s[0]), m
	call(w.path.max[Float32], a)
	return a.max, sums[0] + sums[1] + sums[2] + sums[3]
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

// gradient does the second pass and the third, as often as it takes to find all entries that are too heavy for the
// accuracy that float32 leaves of them.
func (r *row) gradient(res *rowResult, grad []float32, scale float64) bool {
	w, o, p := r.w, &r.j.opt, &r.p
	w.reserve(r.n)
	w.heavy = w.heavy[:0]
	nf := o.normFactor()
	unit := scale * nf / o.Temperature
	out := grad
	inPlace := unsafe.Pointer(&grad[0]) == r.s
	if inPlace {
		out = w.raw[:r.n]
	}
	res.loss = 0
	for share := heavyShare; ; {
		rest := r.setApart(share)
		sums, ok := r.secondPass(true)
		light := sums.grad * math.Ln2 * p.fix
		tmp := rowResult{loss: sums.loss * math.Ln2 * p.fix, clipped: sums.clipped}
		for i := range w.heavy {
			tmp.add(&w.heavy[i])
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
		pivot, all := w.fold(light, rest.sum/r.zs.total)
		w.setFactors(unit*math.Ln2*p.fix, -(all+pivot)*unit/r.zs.total)
		top := w.thirdPass(w.raw, out)
		for i := range w.heavy {
			h := &w.heavy[i]
			v := (h.folded - h.q*all) * unit
			out[h.at] = float32(v)
			top = max(top, math.Abs(v))
		}
		// What float32 may have lost of the others' gradients, in units of the loss.
		gone := rest.largest / r.zs.total * math.Abs(all+pivot) / o.Temperature * nf
		top /= math.Abs(scale)
		if !(top < 0.2*gone && gone*4e-7 > 3e-14) {
			// Without the terms of clipped entries, errors of the normalisers don't cancel.
			free := w.unclipped(rest.sum / r.zs.total)
			if o.clipsElements() && tmp.clipped > 0 && free > 1e-5 && top < min(0.005*free, 0.002)*nf/o.Temperature {
				return false
			}
			break
		}
		share = min(rest.largest/r.zs.total/2, 2*top/gone*rest.largest/r.zs.total)
	}
	if inPlace {
		copy(grad, out)
	}
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

// fold returns the heaviest entry's pivot, G/q, and the sum over all entries of G less pivot*q, given the sums of G and
// of q over the others.
func (w *worker) fold(light, q float64) (pivot, all float64) {
	heaviest := -1
	for i := range w.heavy {
		if heaviest < 0 || w.heavy[i].q > w.heavy[heaviest].q {
			heaviest = i
		}
	}
	if heaviest >= 0 {
		pivot = w.heavy[heaviest].g / w.heavy[heaviest].q
	}
	all = light - pivot*q
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
