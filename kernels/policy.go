package kernels

import "math"

// PolicyReduction turns token losses into one number.
type PolicyReduction uint8

// The policy reductions.
const (
	PerToken    PolicyReduction = iota // sum(w l) / sum(w) over active tokens
	PerSequence                        // weighted mean over sequences of each sequence's token mean
	PerConstant                        // sum(w l) / Denominator, which must be given
)

// ParsePolicyReduction parses token, sequence or constant.
func ParsePolicyReduction(s string) (PolicyReduction, error) {
	return parse[PolicyReduction](CodeDenominator, "policy reduction", s, "token", "sequence", "constant")
}

// PolicyOptions are the options of PolicyLoss.
type PolicyOptions struct {
	ClipLow, ClipHigh float64 // the ratio is clipped to [1-ClipLow, 1+ClipHigh]; if both are 0, clipping is off
	KL                float64 // weight of the KL penalty towards Reference, with the k3 estimator; 0 means none
	Reduction         PolicyReduction
	// Denominator is the divisor of the weighted sum, for a training step of several batches; 0 means the sum of this
	// batch's weights.
	Denominator float64
}

// PolicyBatch holds one element per token. Sequence s consists of tokens Offsets[s]:Offsets[s+1].
type PolicyBatch struct {
	LogProbs  []float64 // log-probabilities under the policy being trained
	Old       []float64 // log-probabilities under the policy that sampled the tokens
	Reference []float64 // log-probabilities under the reference; nil without KL
	Mask      []bool    // whether the policy produced each token; nil means that it produced all
	Offsets   []int     // [sequences+1]
	Advantage []float64 // [sequences]
	Weights   []float64 // [sequences] or nil
}

// PolicyStats describes a policy loss. Means are over active tokens.
type PolicyStats struct {
	Loss      float64
	Active    int
	ClipShare float64 // share of tokens whose gradient the clip removed
	Ratio     float64
	KL        float64
}

// maxLogRatio bounds log-probability differences before exp, so that one broken token can't overflow a batch.
const maxLogRatio = 20

// PolicyLoss is the clipped surrogate of PPO with GRPO's sequence-level advantage:
//
//	l = -min(r A, clamp(r, 1-ClipLow, 1+ClipHigh) A) + KL (e^(ref-lp) - (ref-lp) - 1),  r = e^(lp-old)
//
// grad, if not nil, receives d loss / d LogProbs, 0 outside the mask. Tokens outside the mask are never read. Without
// an active token the result is exactly 0.
func PolicyLoss(b PolicyBatch, o PolicyOptions, grad []float64) (PolicyStats, error) {
	if err := b.check(&o, grad); err != nil {
		return PolicyStats{}, err
	}
	active := func(i int) bool { return b.Mask == nil || b.Mask[i] }
	weight := func(s int) float64 {
		if b.Weights == nil {
			return 1
		}
		return b.Weights[s]
	}
	seqs := len(b.Offsets) - 1
	count := make([]int, seqs)
	denom := 0.0
	for s := range seqs {
		for i := b.Offsets[s]; i < b.Offsets[s+1]; i++ {
			if active(i) {
				count[s]++
			}
		}
		switch {
		case o.Reduction == PerToken:
			denom += weight(s) * float64(count[s])
		case count[s] > 0:
			denom += weight(s)
		}
	}
	if o.Denominator > 0 {
		denom = o.Denominator
	}
	clear(grad)
	var st PolicyStats
	for s := range seqs {
		scale := 0.0
		if denom > 0 {
			scale = weight(s) / denom
		}
		if o.Reduction == PerSequence {
			scale /= float64(max(count[s], 1))
		}
		for i := b.Offsets[s]; i < b.Offsets[s+1]; i++ {
			if !active(i) {
				continue
			}
			l, g := b.token(&o, &st, i, b.Advantage[s])
			st.Active++
			st.Loss += scale * l
			if grad != nil {
				grad[i] = scale * g
			}
		}
	}
	if n := float64(st.Active); n > 0 {
		st.ClipShare /= n
		st.Ratio /= n
		st.KL /= n
	}
	return st, nil
}

func (b *PolicyBatch) token(o *PolicyOptions, st *PolicyStats, i int, adv float64) (l, g float64) {
	diff := b.LogProbs[i] - b.Old[i]
	r, slope := math.Exp(max(-maxLogRatio, min(maxLogRatio, diff))), 1.0
	if math.Abs(diff) > maxLogRatio {
		slope = 0
	}
	l, g = -r*adv, -r*adv*slope
	if o.ClipLow > 0 || o.ClipHigh > 0 {
		if c := -max(1-o.ClipLow, min(1+o.ClipHigh, r)) * adv; c > l {
			l, g = c, 0
			st.ClipShare++
		}
	}
	st.Ratio += r
	if o.KL > 0 {
		d := b.Reference[i] - b.LogProbs[i]
		e := math.Exp(max(-maxLogRatio, min(maxLogRatio, d)))
		k := e - d - 1
		if math.Abs(d) < 1e-4 {
			k = d * d / 2 * (1 + d/3)
		}
		st.KL += k
		l += o.KL * k
		if d <= maxLogRatio {
			g -= o.KL * math.Expm1(max(-maxLogRatio, d))
		} else {
			g += o.KL
		}
	}
	return l, g
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func (b *PolicyBatch) check(o *PolicyOptions, grad []float64) error {
	n := len(b.LogProbs)
	switch {
	case !(o.ClipLow >= 0 && o.ClipLow <= 1) || !(o.ClipHigh >= 0) || !finite(o.ClipHigh):
		return fail(CodeClip, "invalid clip range [1-%v, 1+%v]: expected a low in [0,1] and a finite high of "+
			"0 or above", o.ClipLow, o.ClipHigh)
	case !(o.KL >= 0) || !finite(o.KL):
		return fail(CodeBeta, "invalid KL weight %v: expected a finite number, 0 or above", o.KL)
	case o.Reduction > PerConstant || !(o.Denominator >= 0) || !finite(o.Denominator) ||
		(o.Reduction == PerConstant && o.Denominator == 0):
		return fail(CodeDenominator, "invalid denom %v: expected a finite number above 0", o.Denominator)
	case len(b.Old) != n:
		return fail(CodeShape, "%d log-probs but %d old ones", n, len(b.Old))
	case b.Mask != nil && len(b.Mask) != n:
		return fail(CodeShape, "%d log-probs but a mask of %d", n, len(b.Mask))
	case o.KL > 0 && len(b.Reference) != n:
		return fail(CodeShape, "%d log-probs but %d reference ones", n, len(b.Reference))
	case grad != nil && len(grad) < n:
		return fail(CodeShape, "grad has len %d, need %d", len(grad), n)
	case len(b.Offsets) == 0 || b.Offsets[0] != 0 || b.Offsets[len(b.Offsets)-1] != n:
		return fail(CodeOffsets, "offsets must run from 0 to %d", n)
	}
	seqs := len(b.Offsets) - 1
	if len(b.Advantage) != seqs || (b.Weights != nil && len(b.Weights) != seqs) {
		return fail(CodeShape, "%d sequences, %d advantages, %d weights", seqs, len(b.Advantage), len(b.Weights))
	}
	for s := range seqs {
		if b.Offsets[s+1] < b.Offsets[s] {
			return fail(CodeOffsets, "sequence %d: offsets decrease", s)
		}
		if b.Weights != nil && (!(b.Weights[s] >= 0) || !finite(b.Weights[s])) {
			return fail(CodeWeight, "sequence %d: invalid weight %v: expected a finite number, 0 or above",
				s, b.Weights[s])
		}
		for i := b.Offsets[s]; i < b.Offsets[s+1]; i++ {
			if b.Mask != nil && !b.Mask[i] {
				continue
			}
			if !finite(b.LogProbs[i]) || !finite(b.Old[i]) || (o.KL > 0 && !finite(b.Reference[i])) {
				return fail(CodeLogProb, "token %d of sequence %d: a log-probability is not finite", i-b.Offsets[s], s)
			}
			if !finite(b.Advantage[s]) {
				return fail(CodeWeight, "sequence %d: advantage %v is not finite", s, b.Advantage[s])
			}
		}
	}
	return nil
}
