package kernels

import (
	"cmp"
	"math"
	"unsafe"
)

// LogProb computes sequence log-probabilities: log softmax(z/T) at a target per row, summed or averaged over the rows
// of a sequence.
type LogProb struct {
	opt  LogProbOptions
	path *tileSet
	pool runPool
}

// LogProbOptions are the options of a LogProb.
type LogProbOptions struct {
	Temperature float64
	Mean        bool // average over a sequence's scored rows instead of summing; the average of no rows is 0
	Workers     int
	Strict      bool
	Path        string
}

// NewLogProb checks the options.
func NewLogProb(o LogProbOptions) (*LogProb, error) {
	common := Options{Temperature: o.Temperature, Path: o.Path}
	path, err := common.choosePath()
	if err != nil {
		return nil, err
	}
	return &LogProb{opt: o, path: path}, nil
}

// LogProbBatch holds rows of logits with one target each. Sequence s consists of rows Offsets[s]:Offsets[s+1].
type LogProbBatch struct {
	Logits   Matrix
	Targets  []int32 // [rows]; IgnoreIndex if not scored
	Offsets  []int   // [sequences+1]
	Upstream []float64
	// Upstream[s] is d loss / d sequence s; nil means 1 for every sequence.
}

// LogProbOutput receives results; leave unwanted slices nil.
type LogProbOutput struct {
	Token      []float64 // [rows] log-probability of the target, 0 where not scored
	Sequence   []float64 // [sequences]
	Count      []int32   // [sequences] scored rows
	Grad       []float32 // d sum_s Upstream[s]*Sequence[s] / d logits
	GradStride int
}

func (b *LogProbBatch) check(out *LogProbOutput) error {
	m := &b.Logits
	if err := m.check("logits"); err != nil {
		return err
	}
	switch {
	case len(b.Targets) != m.Rows:
		return fail(CodeShape, "%d targets for %d rows", len(b.Targets), m.Rows)
	case len(b.Offsets) == 0 || b.Offsets[0] != 0 || b.Offsets[len(b.Offsets)-1] != m.Rows:
		return fail(CodeOffsets, "offsets must run from 0 to rows=%d", m.Rows)
	}
	seqs := len(b.Offsets) - 1
	for s := range seqs {
		if b.Offsets[s+1] < b.Offsets[s] {
			return fail(CodeOffsets, "sequence %d: offsets decrease from %d to %d", s, b.Offsets[s], b.Offsets[s+1])
		}
	}
	if b.Upstream != nil && len(b.Upstream) != seqs {
		return fail(CodeShape, "%d upstream gradients for %d sequences", len(b.Upstream), seqs)
	}
	for r, y := range b.Targets {
		if y != IgnoreIndex && (y < 0 || int(y) >= m.Cols) {
			return fail(CodeTarget, "row %d: target %d is outside the vocabulary, V=%d; only %d means not scored", r, y, m.Cols, IgnoreIndex)
		}
	}
	return cmp.Or(checkRoom("token", out.Token, m.Rows, ""), checkRoom("sequence", out.Sequence, seqs, ""),
		checkRoom("count", out.Count, seqs, ""), out.grads().checkGrad(m))
}

// grads returns the part of out that holds gradients.
func (o *LogProbOutput) grads() *Output { return &Output{Grad: o.Grad, GradStride: o.GradStride} }

// Run computes log-probabilities and, where out.Grad is set, their gradient.
func (l *LogProb) Run(b *LogProbBatch, out *LogProbOutput) (Stats, error) {
	if err := b.check(out); err != nil {
		return Stats{}, err
	}
	clearIgnored(out.grads(), &b.Logits, b.Targets)
	clear(out.Token)
	r := l.pool.get(l.path)
	defer l.pool.put(r)
	r.start(b.Logits.Rows, b.Targets)
	q := &logProbJob{l: l, b: b, out: out, scale: make([]float64, b.Logits.Rows)}
	seqs := len(b.Offsets) - 1
	for s := range seqs {
		n := 0
		for _, y := range b.Targets[b.Offsets[s]:b.Offsets[s+1]] {
			if y != IgnoreIndex {
				n++
			}
		}
		up := 1.0
		if b.Upstream != nil {
			up = b.Upstream[s]
		}
		if l.opt.Mean {
			up /= float64(max(n, 1))
		}
		for i := b.Offsets[s]; i < b.Offsets[s+1]; i++ {
			q.scale[i] = up
		}
	}
	r.job = q
	if len(r.active) > 0 {
		r.do(l.opt.Workers)
	}
	return q.collect(r)
}

type logProbJob struct {
	l     *LogProb
	b     *LogProbBatch
	out   *LogProbOutput
	scale []float64 // [rows] derivative of the loss with respect to the row's log-probability
}

func (q *logProbJob) explain(row int) error { return explain(row, q.b.Logits.Cols, &q.b.Logits, nil) }

func (q *logProbJob) row(r *run, w *worker, i, next int) {
	row, m := r.active[i], &q.b.Logits
	var ahead unsafe.Pointer
	if next >= 0 {
		ahead = m.row(r.active[next])
	}
	res := &r.results[i]
	*res = rowResult{}
	res.loss, res.exact = w.logProb(m.row(row), m.DType, m.Cols, int(q.b.Targets[row]), q.l.opt.Temperature, ahead,
		q.out.grads().gradRow(row, m.Cols), q.scale[row])
}

func (q *logProbJob) collect(r *run) (Stats, error) {
	st := Stats{Active: len(r.active)}
	var bad error
	i := 0
	for s := range len(q.b.Offsets) - 1 {
		sum, n := 0.0, 0
		for ; i < len(r.active) && r.active[i] < q.b.Offsets[s+1]; i++ {
			v := r.results[i].loss
			if st.count(&r.results[i]) && q.l.opt.Strict && bad == nil {
				bad = q.explain(r.active[i])
			}
			if q.out.Token != nil {
				q.out.Token[r.active[i]] = v
			}
			sum += v
			n++
		}
		if q.l.opt.Mean && n > 0 {
			sum /= float64(n)
		}
		if q.out.Sequence != nil {
			q.out.Sequence[s] = sum
		}
		if q.out.Count != nil {
			q.out.Count[s] = int32(n)
		}
		st.Loss += sum
	}
	r.job = nil
	return st, bad
}

// logProb returns log softmax(z/T)[y]. The mass of all other entries is summed without the target's, so that the
// log-probability of a near-certain token keeps its relative accuracy: -log(1 + rest/target). exact reports whether the
// row took the float64 path.
func (w *worker) logProb(
	p unsafe.Pointer, d DType, n, y int, tau float64, next unsafe.Pointer, grad []float32, scale float64,
) (lp float64, exact bool) {
	a := &w.a
	a.k = float32(math.Log2E / tau)
	a.dk = float64(a.k)
	x := load(p, d, y)
	w.skips.reset(n, int32(y))
	w.skips.top, w.skips.parts[w.skips.tile(y)] = x, 1
	sum := w.path.sum[d]
	if grad != nil {
		sum = w.path.keep[d]
		w.keep(n)
	}
	rest := w.normaliser(0, p, d, n, next, sum, grad != nil)
	w.skips.clear()
	if !rest.ok || math.IsInf(x, 0) || math.IsNaN(x) || math.Abs(a.dk*x) > maxNormaliser || tau < 1e-6 || tau > 1e6 {
		return slowLogProb(p, d, n, y, tau, grad, scale), true
	}
	tok := -softplus((rest.l - a.dk*x) * math.Ln2)
	if grad == nil {
		return tok, false
	}
	// q is the kept exponential over the total, out = -q*scale/T; the target's own 1-q is computed without cancelling.
	l := a.dk*x - tok*math.Log2E
	w.scaleKept(grad, -scale/tau*math.Exp2(a.dref-l))
	grad[y] = float32(-math.Expm1(tok) * scale / tau)
	return tok, false
}

// scaleKept is a third pass without a raw gradient: out = q*by.
func (w *worker) scaleKept(out []float32, by float64) {
	if w.zero == nil {
		w.zero = new([tile]float32)
	}
	w.setFactors(by, 1)
	w.thirdPass(w.zero, out)
}

// softplus is log(1+e^x).
func softplus(x float64) float64 {
	if x > 0 {
		return x + math.Log1p(math.Exp(-x))
	}
	return math.Log1p(math.Exp(x))
}

// slowLogProb is the float64 definition of logProb.
func slowLogProb(p unsafe.Pointer, d DType, n, y int, tau float64, grad []float32, scale float64) float64 {
	z := newRefRow(p, d, n, tau)
	if !z.finite {
		fillNaN(grad)
		return math.NaN()
	}
	rest := z.complement([]int32{int32(y)})
	a := z.y(y) - z.s
	if !math.IsInf(a, -1) {
		a = -softplus(rest - a)
	}
	if grad != nil {
		q := make([]float64, n) // grad may be the logits' own memory
		for i := range q {
			q[i] = -math.Exp(z.y(i) - z.s)
		}
		q[y] = -math.Expm1(a)
		for i, v := range q {
			grad[i] = float32(v * scale / tau)
		}
	}
	return a
}
