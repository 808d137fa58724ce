package loss

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/nat-go/nat-go/collator/tensors"
	"github.com/nat-go/nat-go/kernels"
)

// A check compares the loss terms of a training script with ours, token by token. The script supplies its own as
// tensors beside the logits:
//
//	sft   yours.token_losses [R,T]: -log p of the tokens that labels names
//	rl    yours.token_losses [R,T]: what the objective is a sum of, before weights
//	dpo   yours.chosen_logps, yours.rejected_logps [R,T]: log p of the labels' tokens; yours.pair_losses [R]
//	sdpo  yours.pair_losses [P]: the divergence of each pair, before weights
//	all   yours.loss []: the whole, reduced
//
// A tensor [R,T] has the term of token t at t and 0 where nothing is trained; one of [R,T-1] has it at t-1, as shifted
// logits do. Any of them may be absent.

// Report is the result of a check.
type Report struct {
	Channel     string       `json:"channel"`
	Compared    []string     `json:"compared"`    // terms
	Entries     int          `json:"entries"`     // number of tokens and pairs compared
	Differ      int          `json:"differ"`      // of these
	Differences []Difference `json:"differences"` // the first
	Causes      []string     `json:"causes"`      // what would explain all differences in a term
	Loss        Number       `json:"loss"`        // ours
}

// Difference is a term whose value differs in the script.
type Difference struct {
	Term  string `json:"term"`
	Row   int    `json:"row"`            // in the batch, from 0; for sdpo, the student's
	Token int    `json:"token"`          // position of the token in the row; -1: the whole row
	ID    int64  `json:"id"`             // of the token
	Pair  *int   `json:"pair,omitempty"` // of sdpo
	Yours Number `json:"yours"`
	Ours  Number `json:"ours"`
	Why   string `json:"why"`
}

// MostRows is how many rows a check accepts, and mostDifferences how many differences it lists.
const (
	MostRows        = 64
	mostDifferences = 20
)

// checker is a check in progress.
type checker struct {
	yours  *columns
	o      Options
	tol    float64
	report *Report
}

// Check compares the script's terms in the logits file with ours. tolerance is relative, and absolute for numbers below
// 1.
func Check(file, logits *tensors.File, o Options, tolerance float64) (*Report, error) {
	c := &checker{&columns{files: []*tensors.File{logits}}, o, tolerance, &Report{
		Compared: []string{}, Differences: []Difference{}, Causes: []string{},
	}}
	if !(tolerance > 0) {
		return nil, fmt.Errorf("tolerance is %v: want a number above 0", tolerance)
	}
	own := &columns{files: []*tensors.File{logits, file}}
	var err error
	if own.has("labels") {
		err = c.checkSFT(own)
	} else {
		err = c.checkDump(file, logits)
	}
	err = cmp.Or(err, c.yours.err)
	if err == nil && len(c.report.Compared) == 0 {
		err = errors.New("there is nothing to compare: give some of the script's own terms")
	}
	return c.report, err
}

func (c *checker) checkSFT(own *columns) error {
	c.report.Channel = "sft"
	if own.has("seq_lengths") {
		return errors.New("the batch is packed: check one that is padded")
	}
	ids, shape := own.ints("input_ids", 2)
	labels, _ := own.ints("labels", 2)
	side := Tokens{IDs: ids, Logits: own.logits("logits", 3)}
	weights := own.floats("row_weight", 1)
	if own.err != nil {
		return own.err
	}
	side.R, side.T = shape[0], shape[1]
	if err := side.check("tokens", map[string]int{"labels": len(labels)}); err != nil {
		return err
	}
	for i, l := range labels {
		if l >= 0 && l != ids[i] {
			return fmt.Errorf("row %d: label %d at token %d is not the token, %d: labels are token-aligned",
				i/side.T, l, i%side.T, ids[i])
		}
	}
	g, err := c.grid("token_losses", &side, func(i int) bool { return labels[i] >= 0 }, -1)
	if err != nil {
		return err
	}
	total, n := 0.0, 0.0
	for i, on := range g.trained {
		if w := weight(weights, i/side.T); on {
			total, n = total+w*g.ours[i], n+w
		}
	}
	c.whole(total / max(n, 1))
	c.compare(g)
	return nil
}

func (c *checker) checkDump(file, logits *tensors.File) error {
	d, err := ReadDump(file, logits)
	if err != nil {
		return err
	}
	m, _, err := Evaluate([]*Dump{d}, c.o, false)
	if err != nil {
		return err
	}
	c.whole(m.Loss)
	switch {
	case d.GRPO != nil:
		c.report.Channel = "rl"
		return c.checkRL(d.GRPO)
	case d.DPO != nil:
		c.report.Channel = "dpo"
		return c.checkDPO(d.DPO)
	}
	c.report.Channel = "sdpo"
	return c.checkSDPO(file, logits, d)
}

// same reports whether two numbers are equal within the tolerance.
func (c *checker) same(a, b float64) bool {
	return math.Abs(a-b) <= c.tol*max(1, math.Abs(a), math.Abs(b)) || math.IsNaN(a) && math.IsNaN(b) || a == b
}

func (c *checker) differ(d Difference) {
	c.report.Differ++
	if len(c.report.Differences) < mostDifferences {
		c.report.Differences = append(c.report.Differences, d)
	}
}

func (c *checker) cause(format string, a ...any) {
	c.report.Causes = append(c.report.Causes, fmt.Sprintf(format, a...))
}

// whole compares the reduced loss. If the terms are given too, they say more about what is wrong.
func (c *checker) whole(ours float64) {
	c.report.Loss = Number(ours)
	for dims := range 2 {
		t, ok := c.yours.take("yours.loss", dims)
		if !ok {
			c.yours.err = nil // a different number of dimensions
			continue
		}
		v, err := tensors.Floats(t)
		if err != nil || len(v) != 1 {
			c.yours.err = cmp.Or(err, fmt.Errorf("yours.loss has %d numbers: want one", len(v)))
			return
		}
		c.report.Compared, c.report.Entries = append(c.report.Compared, "loss"), c.report.Entries+1
		if !c.same(v[0], ours) {
			c.differ(Difference{
				Term: "loss", Row: -1, Token: -1, ID: -1, Yours: Number(v[0]), Ours: Number(ours),
				Why: "the reduced loss is another; where all terms agree, it is their weights or the denominator",
			})
		}
		return
	}
}

// grid holds one term per token, the script's and ours, aligned by token.
type grid struct {
	name    string
	side    *Tokens
	trained []bool
	yours   []float64 // nil: not given
	ours    []float64
	at      [][]float64 // the term computed from logits at other positions
}

// elsewhere lists where a script may mistakenly read a token's logits, instead of the position before it.
var elsewhere = []struct {
	from int
	what string
}{
	{0, "the logits are not shifted: those at a token's own place predict the next one"},
	{-2, "the logits are shifted twice: those two places before a token predict the one before it"},
}

// grid computes our terms: sign times the log-probability of each trained token.
func (c *checker) grid(name string, side *Tokens, trained func(i int) bool, sign float64) (*grid, error) {
	g := &grid{name: name, side: side, trained: make([]bool, side.R*side.T)}
	for i := range g.trained {
		g.trained[i] = trained(i)
	}
	if side.R > MostRows {
		return nil, fmt.Errorf("the batch has %d rows: a check takes at most %d", side.R, MostRows)
	}
	var err error
	if g.ours, err = c.logProbs(g, -1, 1, sign); err != nil {
		return nil, err
	}
	for _, e := range elsewhere {
		terms, err := c.logProbs(g, e.from, 1, sign)
		if err != nil {
			return nil, err
		}
		g.at = append(g.at, terms)
	}
	g.yours, err = c.tokens(name, side)
	return g, err
}

// logProbs returns sign times the log-probabilities of trained tokens, from logits at the given offset.
func (c *checker) logProbs(g *grid, from int, temperature, sign float64) ([]float64, error) {
	n := g.side.R * g.side.T
	targets := slices.Repeat([]int32{kernels.IgnoreIndex}, n)
	for i, on := range g.trained {
		at := i%g.side.T + from
		if !on || at < 0 || at >= g.side.T {
			continue
		}
		if id := g.side.IDs[i]; id < 0 || id >= int64(g.side.Logits.Cols) {
			return nil, fmt.Errorf("row %d: token %d has id %d, the vocabulary is %d",
				i/g.side.T, i%g.side.T, id, g.side.Logits.Cols)
		}
		targets[i+from] = int32(g.side.IDs[i])
	}
	lp, err := kernels.NewLogProb(kernels.LogProbOptions{Temperature: temperature, Workers: c.o.Workers})
	if err != nil {
		return nil, err
	}
	tok := make([]float64, n)
	batch := &kernels.LogProbBatch{Logits: g.side.Logits, Targets: targets, Offsets: g.side.each()}
	if _, err := lp.Run(batch, &kernels.LogProbOutput{Token: tok}); err != nil {
		return nil, err
	}
	out := make([]float64, n)
	for i, on := range g.trained {
		if at := i%g.side.T + from; on && at >= 0 && at < g.side.T {
			out[i] = sign * tok[i+from]
		}
	}
	return out, nil
}

// tokens reads the script's terms for a side's tokens, aligned by token; nil: not given.
func (c *checker) tokens(name string, side *Tokens) ([]float64, error) {
	t, ok := c.yours.take("yours."+name, 2)
	if !ok {
		return nil, c.yours.err
	}
	v, err := tensors.Floats(t)
	if err != nil {
		return nil, err
	}
	width := t.Shape[1]
	if t.Shape[0] != side.R || width != side.T && width != side.T-1 {
		return nil, fmt.Errorf("yours.%s has shape %v: want [%d, %d] or [%d, %d]",
			name, t.Shape, side.R, side.T, side.R, side.T-1)
	}
	if width == side.T {
		return v, nil
	}
	out := make([]float64, side.R*side.T)
	for r := range side.R {
		copy(out[r*side.T+1:(r+1)*side.T], v[r*width:(r+1)*width])
	}
	return out, nil
}

// compare compares a term token by token, and looks for one mistake that would explain everything.
func (c *checker) compare(g *grid) {
	if g.yours == nil {
		return
	}
	c.report.Compared = append(c.report.Compared, g.name)
	c.report.Entries += len(g.ours)
	wrong := 0
	for i := range g.ours {
		why := ""
		switch y, o := g.yours[i], g.ours[i]; {
		case !g.trained[i] && y != 0:
			why = "the script trains the token, the batch leaves it out"
		case g.trained[i] && y == 0 && !c.same(0, o):
			why = "the batch trains the token, the script leaves it out"
		case g.trained[i] && !c.same(y, o):
			why = "the term is another"
		default:
			continue
		}
		wrong++
		c.differ(Difference{
			Term: g.name, Row: i / g.side.T, Token: i % g.side.T, ID: g.side.IDs[i],
			Yours: Number(g.yours[i]), Ours: Number(g.ours[i]), Why: why,
		})
	}
	if wrong > 0 {
		c.explain(g)
	}
}

// explain looks for one mistake that accounts for all of the script's terms.
func (c *checker) explain(g *grid) {
	all := func(want func(i int) float64) bool {
		for i := range g.yours {
			if !c.same(g.yours[i], want(i)) {
				return false
			}
		}
		return true
	}
	next := func(by int) func(int) float64 {
		return func(i int) float64 {
			if at := i%g.side.T + by; at < 0 || at >= g.side.T {
				return 0
			}
			return g.ours[i+by]
		}
	}
	switch {
	case all(next(1)):
		c.cause("%s: each term is one token too early", g.name)
		return
	case all(next(-1)):
		c.cause("%s: each term is one token too late", g.name)
		return
	case all(func(i int) float64 { return -g.ours[i] }):
		c.cause("%s: the sign is the other", g.name)
		return
	}
	for i, terms := range g.at {
		if c.fits(g, terms) {
			c.cause("%s: %s", g.name, elsewhere[i].what)
			return
		}
	}
	if factor, ok := c.factor(g.yours, g.ours); ok {
		c.cause("%s: each term is %.4g times ours", g.name, factor)
	}
}

// fits reports whether the script's terms equal these wherever both sides train.
func (c *checker) fits(g *grid, terms []float64) bool {
	n := 0
	for i, on := range g.trained {
		if !on || g.yours[i] == 0 {
			continue
		}
		if n++; !c.same(g.yours[i], terms[i]) {
			return false
		}
	}
	return n > 0
}

// factor returns the number that all of ours would have to be multiplied by.
func (c *checker) factor(yours, ours []float64) (factor float64, ok bool) {
	for i, o := range ours {
		if math.Abs(o) > c.tol {
			factor = yours[i] / o
			break
		}
	}
	if factor == 0 || math.IsNaN(factor) || math.IsInf(factor, 0) || c.same(factor, 1) {
		return 0, false
	}
	for i, o := range ours {
		if !c.same(yours[i], factor*o) {
			return 0, false
		}
	}
	return factor, true
}

func (c *checker) checkRL(g *GRPO) error {
	terms, err := c.grid("token_losses", &g.Tokens, func(i int) bool { return g.ResponseMask[i] == 1 }, 1)
	if err != nil {
		return err
	}
	policy := func(at int) ([]float64, error) {
		lp, err := c.logProbs(terms, at, cmp.Or(c.o.RolloutTemperature, 1), 1)
		if err != nil {
			return nil, err
		}
		return c.policy(g, terms.trained, lp)
	}
	if terms.ours, err = policy(-1); err != nil {
		return err
	}
	for i, e := range elsewhere {
		if terms.at[i], err = policy(e.from); err != nil {
			return err
		}
	}
	c.compare(terms)
	return nil
}

// policy turns each token's log-probability into its part of the objective, before weights.
func (c *checker) policy(g *GRPO, trained []bool, lp []float64) ([]float64, error) {
	o := c.o.GRPO
	o.Reduction, o.Denominator = kernels.PerToken, 1
	out := make([]float64, len(lp))
	for i, on := range trained {
		if !on {
			continue
		}
		one := kernels.PolicyBatch{
			LogProbs: lp[i : i+1], Old: widen(g.OldLogprobs[i : i+1]), Offsets: []int{0, 1},
			Advantage: widen(g.Advantage[i/g.T : i/g.T+1]),
		}
		if o.KL > 0 {
			one.Reference = widen(g.RefLogprobs[i : i+1])
		}
		st, err := kernels.PolicyLoss(one, o, nil)
		if err != nil {
			return nil, err
		}
		out[i] = st.Loss
	}
	return out, nil
}

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
	yours, err := c.column("pair_losses", d.Chosen.R)
	if yours == nil {
		return err
	}
	pairs := kernels.Pairs{
		PolicyChosen: sums(chosen), PolicyRejected: sums(rejected),
		ReferenceChosen: widen(d.RefChosen), ReferenceRejected: widen(d.RefRejected),
	}
	ours, err := dpoLosses(pairs, c.o.DPO)
	if err != nil {
		return err
	}
	if c.rows("pair_losses", yours, ours) == 0 {
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
	out := make([]float64, len(res))
	for i, r := range res {
		out[i] = r.Loss
	}
	return out, nil
}

// column reads the script's per-row terms; nil: not given.
func (c *checker) column(name string, rows int) ([]float64, error) {
	t, ok := c.yours.take("yours."+name, 1)
	if !ok {
		return nil, c.yours.err
	}
	if t.Shape[0] != rows {
		return nil, fmt.Errorf("yours.%s has shape %v: want [%d]", name, t.Shape, rows)
	}
	return tensors.Floats(t)
}

// rows compares a per-row term, and returns how many differ.
func (c *checker) rows(name string, yours, ours []float64) (wrong int) {
	c.report.Compared = append(c.report.Compared, name)
	c.report.Entries += len(ours)
	for i := range ours {
		if !c.same(yours[i], ours[i]) {
			wrong++
			c.differ(Difference{
				Term: name, Row: i, Token: -1, ID: -1, Yours: Number(yours[i]), Ours: Number(ours[i]),
				Why: "the loss of the pair is another",
			})
		}
	}
	return wrong
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
	}{{swapped, "chosen and rejected are swapped"}, {bare, "the reference's log-probs are left out"}} {
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

// betaOf finds the beta that explains all of the script's losses: it searches with the first pair that distinguishes
// betas.
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

func (c *checker) equal(a, b []float64) bool {
	return slices.EqualFunc(a, b, c.same)
}

func (c *checker) checkSDPO(file, logits *tensors.File, d *Dump) error {
	own := &columns{files: []*tensors.File{logits, file}}
	rows, _ := own.ints("pair_student_row", 1)
	at, _ := own.ints("pair_student_pos", 1)
	targets, _ := own.ints("pair_target_id", 1)
	yours, err := c.column("pair_losses", len(targets))
	if err = cmp.Or(own.err, err); err != nil || yours == nil {
		return err
	}
	if n := slices.Max(append(rows, 0)) + 1; n > MostRows {
		return fmt.Errorf("the batch has %d rows: a check takes at most %d", n, MostRows)
	}
	ours, err := c.divergences(d.SDPO, c.o.JSD)
	if err != nil {
		return err
	}
	c.report.Compared = append(c.report.Compared, "pair_losses")
	c.report.Entries += len(ours)
	wrong := 0
	for i := range ours {
		if !c.same(yours[i], ours[i]) {
			wrong++
			c.differ(Difference{
				Term: "pair_losses", Row: int(rows[i]), Token: int(at[i]) + 1, ID: targets[i], Pair: &i,
				Yours: Number(yours[i]), Ours: Number(ours[i]), Why: "the divergence is another",
			})
		}
	}
	if wrong > 0 {
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
		if off := shifted(ours, by); len(ours) > 2 && c.equal(yours[1:len(yours)-1], off[1:len(off)-1]) {
			side := map[int]string{1: "before", -1: "behind"}[by]
			c.cause("pair_losses: each term is at the pair %s its own", side)
			return
		}
	}
	if factor, ok := c.factor(yours, ours); ok {
		c.cause("pair_losses: each term is %.4g times ours", factor)
	}
}

// shifted has at each position the value that many positions further on.
func shifted(x []float64, by int) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		if at := i + by; at >= 0 && at < len(x) {
			out[i] = x[at]
		}
	}
	return out
}
