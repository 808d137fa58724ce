package loss

import (
	"cmp"

	"github.com/nat-go/nat-go/kernels"
)

func (c *checker) checkRL(g *GRPO) error {
	terms, err := c.grid("token_losses", &g.Tokens, func(i int) bool { return g.ResponseMask[i] == 1 }, 1)
	if err != nil {
		return err
	}
	if err := terms.fill(func(from int) ([]float64, error) {
		lp, err := c.logProbs(terms, from, cmp.Or(c.o.RolloutTemperature, 1), 1)
		if err != nil {
			return nil, err
		}
		return c.policy(g, terms.trained, lp)
	}); err != nil {
		return err
	}
	c.compare(terms)
	return nil
}

// policy computes each trained token's contribution to the objective from its log-prob, before weighting.
func (c *checker) policy(g *GRPO, trained []bool, lp []float64) ([]float64, error) {
	o := c.o.GRPO
	o.Reduction, o.Denominator = kernels.PerToken, 1
	out := make([]float64, len(lp))
	for i, on := range trained {
		if !on {
			continue
		}
		one := kernels.PolicyBatch{
			LogProbs: lp[i : i+1], Old: lp[i : i+1], Offsets: []int{0, 1},
			Advantage: convert[float64](g.Advantage[i/g.T : i/g.T+1]),
		}
		if g.OldLogprobs != nil {
			one.Old = convert[float64](g.OldLogprobs[i : i+1])
		}
		if o.KL > 0 {
			one.Reference = convert[float64](g.RefLogprobs[i : i+1])
		}
		st, err := kernels.PolicyLoss(one, o, nil)
		if err != nil {
			return nil, err
		}
		out[i] = st.Loss
	}
	return out, nil
}
