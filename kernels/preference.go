package kernels

import "math"

// PreferenceKind is a loss of the DPO family.
type PreferenceKind uint8

// The losses of the DPO family.
const (
	Sigmoid PreferenceKind = iota // -(1-s) log sigma(beta m) - s log sigma(-beta m), where s is the label smoothing
	IPO                           // (m - 1/(2 beta))^2
	Hinge                         // max(0, 1 - beta m), gradient 0 at the kink
)

// ParsePreference parses sigmoid, ipo or hinge.
func ParsePreference(s string) (PreferenceKind, error) {
	return parse[PreferenceKind](CodeKind, "preference loss", s, "sigmoid", "ipo", "hinge")
}

// PreferenceOptions are the options of DPO.
type PreferenceOptions struct {
	Kind           PreferenceKind
	Beta           float64 // > 0
	LabelSmoothing float64 // in [0, 0.5), sigmoid only
}

// Pairs holds sequence log-probabilities under the policy and the reference, one element per pair.
type Pairs struct {
	PolicyChosen, PolicyRejected       []float64
	ReferenceChosen, ReferenceRejected []float64
	Weights                            []float64 // may be nil
}

// PairResult is the result for one pair of a preference loss. With the policy's log-probabilities pc and pr and the
// reference's rc and rr, Margin is (pc-rc)-(pr-rr), and a reward is beta times (pc-rc) or (pr-rr). Grad is d loss / d
// PolicyChosen before weight and mean; the rejected side's is its negative.
type PairResult struct {
	Loss, Grad, Margin, RewardChosen, RewardRejected float64
}

// DPO computes the loss of every pair into out and returns sum(w*loss)/max(pairs,1). The gradient of that mean is
// w*Grad/max(pairs,1). It returns an error if a log-probability isn't finite, because the mean might then be infinite
// or NaN.
func DPO(p Pairs, o PreferenceOptions, out []PairResult) (float64, error) {
	switch {
	case !(o.Beta > 0) || math.IsInf(o.Beta, 1):
		return 0, fail(CodeBeta, "invalid beta %v: expected a finite number above 0", o.Beta)
	case !(o.LabelSmoothing >= 0 && o.LabelSmoothing < 0.5):
		return 0, fail(CodeLabelSmoothing, "invalid label_smoothing %v: expected a number in [0, 0.5)",
			o.LabelSmoothing)
	case o.LabelSmoothing > 0 && o.Kind != Sigmoid:
		return 0, fail(CodeLabelSmoothing, "label_smoothing must be 0 for ipo and hinge")
	case o.Kind > Hinge:
		return 0, fail(CodeKind, "unknown preference loss %d", o.Kind)
	}
	n := len(p.PolicyChosen)
	columns := []struct {
		name string
		x    []float64
	}{{"pc", p.PolicyChosen}, {"pr", p.PolicyRejected}, {"rc", p.ReferenceChosen}, {"rr", p.ReferenceRejected}}
	for _, c := range columns {
		if len(c.x) != n {
			return 0, fail(CodeShape, "%s holds %d pairs, pc %d", c.name, len(c.x), n)
		}
	}
	if len(out) < n || (p.Weights != nil && len(p.Weights) != n) {
		return 0, fail(CodeShape, "mismatch: %d pairs, room for %d results, %d weights", n, len(out), len(p.Weights))
	}
	for i := range n {
		for _, c := range columns {
			if v := c.x[i]; !finite(v) {
				return 0, fail(CodeLogProb, "pair %d: %s is %v", i, c.name, v)
			}
		}
		if p.Weights != nil && (!(p.Weights[i] >= 0) || math.IsInf(p.Weights[i], 1)) {
			return 0, fail(CodeWeight, "pair %d: invalid weight %v: expected a finite number, 0 or above",
				i, p.Weights[i])
		}
	}
	total := 0.0
	for i := range n {
		out[i] = o.pair(p.PolicyChosen[i]-p.ReferenceChosen[i], p.PolicyRejected[i]-p.ReferenceRejected[i])
		w := 1.0
		if p.Weights != nil {
			w = p.Weights[i]
		}
		total += w * out[i].Loss
	}
	return total / float64(max(n, 1)), nil
}

func (o *PreferenceOptions) pair(chosen, rejected float64) PairResult {
	m := chosen - rejected
	x := o.Beta * m
	r := PairResult{Margin: m, RewardChosen: o.Beta * chosen, RewardRejected: o.Beta * rejected}
	switch o.Kind {
	case Sigmoid:
		s := o.LabelSmoothing
		r.Loss = softplus(-x)
		r.Grad = -o.Beta * sigmoid(-x)
		if s > 0 {
			r.Loss = (1-s)*r.Loss + s*softplus(x)
			r.Grad = o.Beta * (s*sigmoid(x) - (1-s)*sigmoid(-x))
		}
	case IPO:
		e := m - 1/(2*o.Beta)
		r.Loss, r.Grad = e*e, 2*e
	case Hinge:
		r.Loss = max(0, 1-x)
		if x < 1 {
			r.Grad = -o.Beta
		}
	}
	return r
}

func sigmoid(x float64) float64 {
	e := math.Exp(-math.Abs(x))
	if x >= 0 {
		return 1 / (1 + e)
	}
	return e / (1 + e)
}
