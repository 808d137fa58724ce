package loss

import (
	"math"

	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/kernels"
)

func (c *checker) checkDPO(d *DPO) error {
	chosen, err := c.grid("chosen_logps", &d.Chosen, func(i int) bool { return d.ChosenLabels[i] >= 0 }, 1)
	if err != nil {
		return err
	}
	rejected, err := c.grid("rejected_logps", &d.Rejected, func(i int) bool { return d.RejectedLabels[i] >= 0 }, 1)
	if err != nil {
		return err
	}
	c.compare(chosen)
	c.compare(rejected)
	yours, err := c.pairLosses(d.Chosen.R)
	if yours == nil {
		return err
	}
	pairs := kernels.Pairs{
		PolicyChosen: sums(chosen), PolicyRejected: sums(rejected),
		ReferenceChosen: convert[float64](d.RefChosen), ReferenceRejected: convert[float64](d.RefRejected),
	}
	ours, err := dpoLosses(pairs, c.o.DPO)
	if err != nil {
		return err
	}
	if c.pairs(yours, ours, func(i int, d *Difference) {
		d.Row, d.Token, d.ID, d.Why = i, -1, -1, "the pair's loss differs"
	}) == 0 {
		return nil
	}
	return c.explainDPO(pairs, yours)
}

// sums returns the row sums of a grid.
func sums(g *grid) []float64 {
	out := make([]float64, g.side.R)
	for i, x := range g.ours {
		out[i/g.side.T] += x
	}
	return out
}

func dpoLosses(p kernels.Pairs, o kernels.PreferenceOptions) ([]float64, error) {
	res := make([]kernels.PairResult, len(p.PolicyChosen))
	if _, err := kernels.DPO(p, o, res); err != nil {
		return nil, err
	}
	return lists.Map(res, func(r kernels.PairResult) float64 { return r.Loss }), nil
}

// explainDPO tries common mistakes in a preference loss.
func (c *checker) explainDPO(p kernels.Pairs, yours []float64) error {
	o := c.o.DPO
	swapped, bare := p, p
	swapped.PolicyChosen, swapped.PolicyRejected = p.PolicyRejected, p.PolicyChosen
	swapped.ReferenceChosen, swapped.ReferenceRejected = p.ReferenceRejected, p.ReferenceChosen
	bare.ReferenceChosen = make([]float64, len(yours))
	bare.ReferenceRejected = bare.ReferenceChosen
	for _, mistake := range []struct {
		pairs kernels.Pairs
		what  string
	}{{swapped, "chosen and rejected are swapped"}, {bare, "the reference's log-probs are omitted"}} {
		if terms, err := dpoLosses(mistake.pairs, o); err == nil && c.equal(yours, terms) {
			c.cause("pair_losses: %s", mistake.what)
			return nil
		}
	}
	if beta, ok := c.betaOf(p, yours); ok {
		c.cause("pair_losses: beta is %.4g, not %.4g", beta, o.Beta)
	}
	return nil
}

// betaOf finds the beta that explains all of the script's losses. It searches using the first pair whose losses for
// extreme betas bracket the script's.
func (c *checker) betaOf(p kernels.Pairs, yours []float64) (float64, bool) {
	o := c.o.DPO
	one := func(i int, beta float64) float64 {
		o.Beta = beta
		terms, err := dpoLosses(p, o)
		if err != nil {
			return math.NaN()
		}
		return terms[i]
	}
	for i := range yours {
		low, high := 1e-6, 1e3
		a, b := one(i, low)-yours[i], one(i, high)-yours[i]
		if !(a*b < 0) {
			continue
		}
		for range 100 {
			mid := math.Sqrt(low * high)
			if m := one(i, mid) - yours[i]; m*a > 0 {
				low = mid
			} else {
				high = mid
			}
		}
		o.Beta = low
		terms, err := dpoLosses(p, o)
		return low, err == nil && c.equal(yours, terms)
	}
	return 0, false
}
