package loss

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/kernels"
)

func (c *checker) checkSDPO(file, logits *tensors.File, d *Dump) error {
	own := &columns{files: []*tensors.File{logits, file}}
	rows, _ := own.ints("pair_student_row", 1)
	at, _ := own.ints("pair_student_pos", 1)
	targets, _ := own.ints("pair_target_id", 1)
	yours, err := c.pairLosses(len(targets))
	if err = cmp.Or(own.err, err); err != nil || yours == nil {
		return err
	}
	if n := slices.Max(append(rows, 0)) + 1; n > maxRows {
		return fmt.Errorf("too many rows: got %d, expected at most %d", n, maxRows)
	}
	ours, err := c.divergences(d.SDPO, c.o.JSD)
	if err != nil {
		return err
	}
	if c.pairs(yours, ours, func(i int, d *Difference) {
		d.Row, d.Token, d.ID, d.Pair = int(rows[i]), int(at[i])+1, targets[i], &i
		d.Why = "the divergence differs"
	}) > 0 {
		c.explainJSD(d.SDPO, yours, ours)
	}
	return nil
}

// divergences returns the terms of all pairs.
func (c *checker) divergences(s *SDPO, o kernels.Options) ([]float64, error) {
	o.Reduction, o.Denominator, o.Workers = kernels.ReduceDenom, 1, c.o.Workers
	out := make([]float64, s.Student.Rows)
	one := *s
	one.PairWeight = nil
	_, err := one.jsd(o, 1, &kernels.Output{RowLoss: out})
	return out, err
}

// explainJSD tries common mistakes in a divergence.
func (c *checker) explainJSD(s *SDPO, yours, ours []float64) {
	o := c.o.JSD
	for k := range 41 {
		o.Beta = float64(k) / 40
		if c.same(o.Beta, c.o.JSD.Beta) {
			continue
		}
		if terms, err := c.divergences(s, o); err == nil && c.equal(yours, terms) {
			c.cause("pair_losses: beta is %.4g, not %.4g", o.Beta, c.o.JSD.Beta)
			return
		}
	}
	for _, by := range []int{1, -1} {
		if n := len(ours); n > 2 && c.equal(yours[1:n-1], ours[1+by:n-1+by]) {
			when := map[int]string{1: "next", -1: "previous"}[by]
			c.cause("pair_losses: each term belongs to the %s pair", when)
			return
		}
	}
	if factor, ok := c.factor(yours, ours); ok {
		c.cause("pair_losses: each term is %.4g times nat-go's", factor)
	}
}
