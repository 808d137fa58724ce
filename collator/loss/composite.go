package loss

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nat-go/nat-go/kernels"
)

// Options holds the settings of the composite objective.
type Options struct {
	AlphaSDPO  float64 // weight of the JSD
	BetaReplay float64 // weight of DPO
	DPO        kernels.PreferenceOptions
	GRPO       kernels.PolicyOptions
	JSD        kernels.Options // this package sets Reduction, Denominator and Workers
	// RolloutTemperature is the temperature at which old_logprobs were computed. The logits for grpo are divided by it.
	// 0 means 1.
	RolloutTemperature float64
	// MaxTokens is the length by which PerConstant reduction divides every row.
	MaxTokens int
	Workers   int
}

// Tokens is one side of a channel. It holds ids [R,T], row-major, and the logits at every position, [R*T, V].
type Tokens struct {
	R, T   int
	IDs    []int64
	Logits kernels.Matrix
}

// GRPO is the rl channel.
type GRPO struct {
	Tokens
	ResponseMask []int64   // [R,T], 0/1
	OldLogprobs  []float32 // [R,T], for the token at t; nil means the log-probs of Logits, so every ratio is 1
	RefLogprobs  []float32 // [R,T], used only with a KL weight
	Advantage    []float32 // [R]
	RowWeight    []float32 // [R] or nil
}

// DPO is the dpo channel. Row i on both sides is one pair.
type DPO struct {
	Chosen, Rejected             Tokens
	ChosenLabels, RejectedLabels []int64   // [R,T], kernels.IgnoreIndex where not trained on
	RefChosen, RefRejected       []float32 // [R], sums over labels under the reference model
	RowWeight                    []float32 // [R] or nil
}

// SDPO is the sdpo channel. It holds both sides' logits at the pair positions, [P, V].
type SDPO struct {
	Student, Teacher kernels.Matrix
	// TopK holds the teacher's top log-probs and replaces Teacher. The other tokens form one bucket.
	TopK *kernels.SparseTeacher
	// the temperature at which TopK was computed (servers use 1); the SDPO temperature must be the same
	TopKTemperature float64
	PairWeight      []float32 // [P] or nil
}

// Batch is the input to one call; channels that are nil are absent.
type Batch struct {
	GRPO *GRPO
	DPO  *DPO
	SDPO *SDPO
}

// Step holds the denominators for an optimiser step, so that a step split into micro-batches gives the same result as
// the whole. Add up the Steps of all micro-batches and pass the sum to each call. A zero Step means that the batch is
// the whole step.
type Step struct {
	GRPO float64 // sum of row weights times, by Reduction, the row's token count, 1 (0 if empty) or MaxTokens
	DPO  float64 // sum of the pairs' weights
	SDPO float64 // sum of pair weights
}

// Add returns the sum of two steps.
func (s Step) Add(o Step) Step { return Step{s.GRPO + o.GRPO, s.DPO + o.DPO, s.SDPO + o.SDPO} }

// stepOf returns the denominators of one batch.
func stepOf(b Batch, o Options) Step {
	var s Step
	if g := b.GRPO; g != nil {
		for r := range g.R {
			n := 0
			for _, m := range g.ResponseMask[r*g.T : (r+1)*g.T] {
				n += int(m)
			}
			w := weight(g.RowWeight, r)
			switch {
			case o.GRPO.Reduction == kernels.PerToken:
				s.GRPO += w * float64(n)
			case o.GRPO.Reduction == kernels.PerConstant:
				s.GRPO += w * float64(o.MaxTokens)
			case n > 0:
				s.GRPO += w
			}
		}
	}
	if d := b.DPO; d != nil {
		for i := range d.Chosen.R {
			s.DPO += weight(d.RowWeight, i)
		}
	}
	if p := b.SDPO; p != nil {
		for i := range p.Student.Rows {
			s.SDPO += weight(p.PairWeight, i)
		}
	}
	return s
}

func weight(w []float32, i int) float64 {
	if w == nil {
		return 1
	}
	return float64(w[i])
}

// Gradients receives d L / d logits. Gradients are computed only for slices that aren't nil. Slices are contiguous
// and have the same shapes as the logits.
type Gradients struct {
	GRPO, Chosen, Rejected, Student []float32
}

// Metrics describes a loss, channel by channel. Channel losses are unweighted.
type Metrics struct {
	Loss         float64 `json:"loss/total"`
	GRPO         float64 `json:"loss/grpo"`
	SDPO         float64 `json:"loss/sdpo_kl"`
	DPO          float64 `json:"loss/trace_replay_dpo"`
	AlphaSDPO    float64 `json:"loss/alpha_sdpo"`
	BetaReplay   float64 `json:"loss/beta_replay"`
	Tokens       int     `json:"grpo_tokens"`
	Ratio        float64 `json:"grpo_ratio"`
	ClipShare    float64 `json:"grpo_clip_share"`
	KL           float64 `json:"grpo_kl"`
	Pairs        int     `json:"dpo_pairs"`
	Margin       float64 `json:"dpo_margin"`   // mean reward margin
	Accuracy     float64 `json:"dpo_accuracy"` // share of pairs whose chosen reward is larger
	Positions    int     `json:"sdpo_positions"`
	NonFinite    int     `json:"nonfinite_rows"`
	Rows         int     `json:"logit_rows"`
	Exact        int     `json:"float64_rows"` // number of rows computed in float64
	SDPOClipped  int     `json:"sdpo_clipped"`
	TokenLogprob float64 `json:"grpo_mean_logprob"`
}

// count adds the row counts from one kernel call.
func (m *Metrics) count(st kernels.Stats) {
	m.NonFinite += st.NonFinite
	m.Rows += st.Active
	m.Exact += st.Exact
}

// Slow reports how many rows of logits took the kernels' float64 path. It returns "" if at most one in a hundred did.
func (m *Metrics) Slow() string { return kernels.Stats{Exact: m.Exact, Active: m.Rows}.Slow() }

// composite computes the objective over one batch. step holds the denominators for the whole optimiser step; the zero
// value means the batch's own.
func composite(b Batch, o Options, step Step, grads *Gradients) (Metrics, error) {
	if grads == nil {
		grads = &Gradients{}
	}
	o.RolloutTemperature = cmp.Or(o.RolloutTemperature, 1)
	var m Metrics
	for _, channel := range []struct {
		name string
		run  func() error
	}{
		{"rl", func() error { return b.GRPO.run(o, step, grads, &m) }},
		{"dpo", func() error { return b.DPO.run(o, step, grads, &m) }},
		{"sdpo", func() error { return b.SDPO.run(o, step, grads, &m) }},
	} {
		if err := channel.run(); err != nil {
			return Metrics{}, fmt.Errorf("%s channel: %w", channel.name, err)
		}
	}
	m.weigh(o)
	return m, nil
}

// weigh sets the total loss and records the weights used to compute it.
func (m *Metrics) weigh(o Options) {
	m.AlphaSDPO, m.BetaReplay = o.AlphaSDPO, o.BetaReplay
	m.Loss = m.GRPO + o.AlphaSDPO*m.SDPO + o.BetaReplay*m.DPO
}

// check validates a side's shape and the lengths of the named columns.
func (t *Tokens) check(side string, columns map[string]int) error {
	if t.R < 0 || t.T < 0 || len(t.IDs) != t.R*t.T {
		return fmt.Errorf("%s: got %d ids, expected R x T = %d x %d", side, len(t.IDs), t.R, t.T)
	}
	if t.Logits.Rows != t.R*t.T {
		return fmt.Errorf("%s: got %d rows of logits, expected R x T = %d x %d", side, t.Logits.Rows, t.R, t.T)
	}
	for name, n := range columns {
		if n != t.R*t.T {
			return fmt.Errorf("%s: %s has %d entries, expected R x T = %d x %d", side, name, n, t.R, t.T)
		}
	}
	return nil
}

// predictions returns the target of each row of logits, given which tokens are trained on. The logits at t-1
// predict token t.
func (t *Tokens) predictions(side string, trained func(i int) bool) ([]int32, error) {
	targets := slices.Repeat([]int32{kernels.IgnoreIndex}, t.R*t.T)
	for r := range t.R {
		for p := range t.T {
			i := r*t.T + p
			if !trained(i) {
				continue
			}
			if p == 0 {
				return nil, fmt.Errorf("%s row %d: token 0 is trained, but no logits predict it", side, r)
			}
			if id := t.IDs[i]; id < 0 || id >= int64(t.Logits.Cols) {
				return nil,
					fmt.Errorf("%s row %d: token %d has id %d, but the vocabulary size is %d",
						side, r, p, id, t.Logits.Cols)
			}
			targets[i-1] = int32(t.IDs[i])
		}
	}
	return targets, nil
}

// each returns offsets that treat every row of logits as a sequence. rows returns offsets that treat every row of the
// batch as a sequence.
func (t *Tokens) each() []int { return ramp(t.R*t.T, 1) }
func (t *Tokens) rows() []int { return ramp(t.R, t.T) }

func ramp(n, step int) []int {
	off := make([]int, n+1)
	for i := range off {
		off[i] = i * step
	}
	return off
}

func (g *GRPO) run(o Options, step Step, grads *Gradients, m *Metrics) error {
	if g == nil {
		return nil
	}
	if err := g.sound(o); err != nil {
		return err
	}
	targets, err := g.predictions("tokens", func(i int) bool { return g.ResponseMask[i] == 1 })
	if err != nil {
		return err
	}
	lp, err := kernels.NewLogProb(kernels.LogProbOptions{Temperature: o.RolloutTemperature, Workers: o.Workers})
	if err != nil {
		return err
	}
	tok := make([]float64, g.R*g.T)
	batch := &kernels.LogProbBatch{Logits: g.Logits, Targets: targets, Offsets: g.each()}
	st, err := lp.Run(batch, &kernels.LogProbOutput{Token: tok})
	if err != nil {
		return err
	}
	m.count(st)
	po := o.GRPO
	po.Denominator = cmp.Or(step.GRPO, stepOf(Batch{GRPO: g}, o).GRPO)
	if po.Reduction == kernels.PerConstant && po.Denominator == 0 { // no token is counted
		po.Denominator = 1
	}
	up := make([]float64, len(tok))
	ps, err := kernels.PolicyLoss(g.policyBatch(o, tok, targets), po, up)
	if err != nil {
		return err
	}
	m.GRPO, m.Tokens, m.Ratio, m.ClipShare, m.KL = ps.Loss, ps.Active, ps.Ratio, ps.ClipShare, ps.KL
	if ps.Active > 0 {
		m.TokenLogprob = st.Loss / float64(ps.Active)
	}
	batch.Upstream = up
	return gradient(lp, batch, grads.GRPO)
}

// sound checks that the columns are present and consistent.
func (g *GRPO) sound(o Options) error {
	columns := map[string]int{"response_mask": len(g.ResponseMask)}
	if g.OldLogprobs != nil {
		columns["old_logprobs"] = len(g.OldLogprobs)
	}
	if o.GRPO.KL > 0 {
		columns["ref_logprobs"] = len(g.RefLogprobs)
	}
	if err := g.check("tokens", columns); err != nil {
		return err
	}
	if o.GRPO.Reduction == kernels.PerConstant && o.MaxTokens < 1 {
		return fmt.Errorf("invalid constant reduction: max-tokens is %d, expected more than 0", o.MaxTokens)
	}
	if len(g.Advantage) != g.R || (g.RowWeight != nil && len(g.RowWeight) != g.R) {
		return fmt.Errorf("mismatched lengths: got %d advantages and %d row weights for %d "+
			"rows", len(g.Advantage), len(g.RowWeight), g.R)
	}
	return nil
}

// policyBatch pairs the log-probs of the logits with the columns, whose entries for token t belong to the logits at
// t-1.
func (g *GRPO) policyBatch(o Options, logProbs []float64, targets []int32) kernels.PolicyBatch {
	n := len(logProbs)
	p := kernels.PolicyBatch{
		LogProbs:  logProbs,
		Old:       make([]float64, n),
		Mask:      make([]bool, n),
		Offsets:   g.rows(),
		Advantage: convert[float64](g.Advantage),
		Weights:   convert[float64](g.RowWeight),
	}
	if o.GRPO.KL > 0 {
		p.Reference = make([]float64, n)
	}
	for i := range n {
		if targets[i] == kernels.IgnoreIndex {
			continue
		}
		p.Mask[i], p.Old[i] = true, logProbs[i]
		if g.OldLogprobs != nil {
			p.Old[i] = float64(g.OldLogprobs[i+1])
		}
		if p.Reference != nil {
			p.Reference[i] = float64(g.RefLogprobs[i+1])
		}
	}
	return p
}

func (d *DPO) run(o Options, step Step, grads *Gradients, m *Metrics) error {
	if d == nil {
		return nil
	}
	if err := d.sound(); err != nil {
		return err
	}
	lp, err := kernels.NewLogProb(kernels.LogProbOptions{Temperature: 1, Workers: o.Workers})
	if err != nil {
		return err
	}
	chosen, pc, err := d.Chosen.sums(lp, "chosen", d.ChosenLabels, m)
	if err != nil {
		return err
	}
	rejected, pr, err := d.Rejected.sums(lp, "rejected", d.RejectedLabels, m)
	if err != nil {
		return err
	}
	pairs := kernels.Pairs{
		PolicyChosen:      pc,
		PolicyRejected:    pr,
		ReferenceChosen:   convert[float64](d.RefChosen),
		ReferenceRejected: convert[float64](d.RefRejected),
		Weights:           convert[float64](d.RowWeight),
	}
	out := make([]kernels.PairResult, d.Chosen.R)
	if _, err = kernels.DPO(pairs, o.DPO, out); err != nil {
		return err
	}
	total := cmp.Or(step.DPO, stepOf(Batch{DPO: d}, o).DPO, 1) // 1 avoids 0/0 if nothing is counted
	chosen.Upstream, rejected.Upstream = d.tally(o, total, out, m)
	if err := gradient(lp, chosen, grads.Chosen); err != nil {
		return err
	}
	return gradient(lp, rejected, grads.Rejected)
}

// sound checks that the columns are present and consistent.
func (d *DPO) sound() error {
	n := d.Chosen.R
	switch {
	case d.RefChosen == nil || d.RefRejected == nil:
		return fmt.Errorf("missing ref_chosen_logps or ref_rejected_logps: compute them under the reference " +
			"model; zeros are not a valid substitute")
	case d.Rejected.R != n || len(d.RefChosen) != n || len(d.RefRejected) != n ||
		(d.RowWeight != nil && len(d.RowWeight) != n):
		return fmt.Errorf("mismatched pairs: got %d chosen rows, %d rejected, %d and %d reference sums, %d row "+
			"weights; expected one of each per pair",
			n, d.Rejected.R, len(d.RefChosen), len(d.RefRejected), len(d.RowWeight))
	}
	return nil
}

// sums returns the total log-prob of each row's labelled tokens, and the batch needed to compute the gradient.
func (t *Tokens) sums(
	lp *kernels.LogProb, side string, labels []int64, m *Metrics,
) (*kernels.LogProbBatch, []float64, error) {
	if err := t.check(side, map[string]int{"labels": len(labels)}); err != nil {
		return nil, nil, err
	}
	for i, l := range labels {
		if l != kernels.IgnoreIndex && l != t.IDs[i] {
			return nil, nil, fmt.Errorf("%s row %d: label %d at token %d differs from the token, %d: labels are token-aligned", side, i/t.T, l, i%t.T, t.IDs[i])
		}
	}
	targets, err := t.predictions(side, func(i int) bool { return labels[i] != kernels.IgnoreIndex })
	if err != nil {
		return nil, nil, err
	}
	b := &kernels.LogProbBatch{Logits: t.Logits, Targets: targets, Offsets: t.rows()}
	sum := make([]float64, t.R)
	st, err := lp.Run(b, &kernels.LogProbOutput{Sequence: sum})
	m.count(st)
	return b, sum, err
}

// tally adds the pairs to the metrics, and returns the loss's gradient with respect to the log-probs of each side.
func (d *DPO) tally(o Options, total float64, pairs []kernels.PairResult, m *Metrics) (chosen, rejected []float64) {
	n := len(pairs)
	m.Pairs = n
	chosen, rejected = make([]float64, n), make([]float64, n)
	for i, r := range pairs {
		w := weight(d.RowWeight, i) / total
		m.DPO += w * r.Loss
		g := o.BetaReplay * w * r.Grad
		chosen[i], rejected[i] = g, -g
		m.Margin += (r.RewardChosen - r.RewardRejected) / float64(n)
		if r.RewardChosen > r.RewardRejected {
			m.Accuracy += 1 / float64(n)
		}
	}
	return chosen, rejected
}

// gradient computes the gradient with respect to a batch's logits, if requested.
func gradient(lp *kernels.LogProb, b *kernels.LogProbBatch, grad []float32) error {
	if grad == nil {
		return nil
	}
	_, err := lp.Run(b, &kernels.LogProbOutput{Grad: grad})
	return err
}

func (s *SDPO) run(o Options, step Step, grads *Gradients, m *Metrics) error {
	if s == nil {
		return nil
	}
	total := cmp.Or(step.SDPO, stepOf(Batch{SDPO: s}, o).SDPO)
	if total == 0 { // nothing is counted, so the loss is exactly 0
		clear(grads.Student)
		return nil
	}
	jo := o.JSD
	jo.Reduction, jo.Denominator, jo.Workers = kernels.ReduceDenom, total, o.Workers
	out := &kernels.Output{Grad: grads.Student}
	if o.AlphaSDPO == 0 { // no gradient, even if the rows contain NaN
		clear(grads.Student)
		out.Grad = nil
	}
	st, err := s.jsd(jo, o.AlphaSDPO, out)
	if err != nil {
		return err
	}
	m.SDPO, m.Positions, m.SDPOClipped = st.Loss, st.Active, st.Clipped
	m.count(st)
	return nil
}

func (s *SDPO) jsd(o kernels.Options, scale float64, out *kernels.Output) (kernels.Stats, error) {
	if s.TopK != nil {
		if at := s.TopKTemperature; float32(o.Temperature) != float32(at) {
			return kernels.Stats{}, fmt.Errorf("cannot compare the teacher's top-k log-probs, taken at "+
				"temperature %g, with a student at %g: set the temperature to %g, or provide teacher_logits",
				at, o.Temperature, at)
		}
		j, err := kernels.NewSparseJSD(o, kernels.RestBucket)
		if err != nil {
			return kernels.Stats{}, err
		}
		b := &kernels.SparseBatch{Student: s.Student, Teacher: *s.TopK, Weights: s.PairWeight, Upstream: &scale}
		return j.Run(b, out)
	}
	j, err := kernels.NewJSD(o)
	if err != nil {
		return kernels.Stats{}, err
	}
	b := &kernels.Batch{Student: s.Student, Teacher: s.Teacher, Weights: s.PairWeight, Upstream: &scale}
	return j.Run(b, out)
}
