package loss

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/kernels"
)

// Report is the result of a check.
type Report struct {
	Channel     string       `json:"channel"`
	Compared    []string     `json:"compared"`    // names of the terms that were compared
	Entries     int          `json:"entries"`     // number of entries compared
	Differ      int          `json:"differ"`      // number of entries that differ
	Differences []Difference `json:"differences"` // the first maxDifferences
	Causes      []string     `json:"causes"`      // mistakes that each explain all differences in a term
	Loss        Number       `json:"loss"`        // the loss as computed by nat-go
	Warnings    []string     `json:"warnings"`
}

// Difference is a term whose value in the script differs from nat-go's.
type Difference struct {
	Term string `json:"term"`
	// row in the batch, starting at 0; for sdpo, the student's; -1 means the whole batch
	Row   int    `json:"row"`
	Token int    `json:"token"`          // position of the token in the row; -1 means the whole row
	ID    int64  `json:"id"`             // id of the token
	Pair  *int   `json:"pair,omitempty"` // for sdpo, index of the pair
	Yours Number `json:"yours"`
	Ours  Number `json:"ours"`
	Why   string `json:"why"`
}

// maxRows is the maximum number of rows that a check accepts, and maxDifferences is the maximum number of differences
// that it lists.
const (
	maxRows        = 64
	maxDifferences = 20
)

// checker is a check in progress.
type checker struct {
	yours  *columns
	o      Options
	tol    float64
	report *Report
}

// Check compares the script's terms in the logits file with nat-go's. The tolerance is relative, but absolute for
// numbers below 1.
func Check(file, logits *tensors.File, o Options, tolerance float64) (*Report, error) {
	c := &checker{&columns{files: []*tensors.File{logits}}, o, tolerance, &Report{
		Compared: []string{}, Differences: []Difference{}, Causes: []string{}, Warnings: []string{},
	}}
	if !(tolerance > 0) {
		return nil, fmt.Errorf("invalid tolerance %v: expected a number above 0", tolerance)
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
		err = errors.New("no terms to compare: provide some of the script's own terms")
	}
	return c.report, err
}

func (c *checker) checkSFT(own *columns) error {
	c.report.Channel = "sft"
	if own.has("seq_lengths") {
		return errors.New("cannot check a packed batch: provide a padded one")
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
			return fmt.Errorf("invalid labels: row %d has label %d at token %d, whose id is %d; labels are "+
				"token-aligned", i/side.T, l, i%side.T, ids[i])
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
	if batch.IsComposer(func(name string) bool { _, ok := file.Lookup(name); return ok }) {
		return errors.New("cannot check a batch in the composer layout, because it lacks a pair table: write the " +
			"run's batches without `collator.format: composer`")
	}
	d, err := ReadDump(file, logits)
	if err != nil {
		return err
	}
	m, _, err := Evaluate([]*Dump{d}, c.o, false)
	if err != nil {
		return err
	}
	c.whole(m.Loss)
	if text := m.Slow(); text != "" {
		c.report.Warnings = append(c.report.Warnings, text)
	}
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
	if len(c.report.Differences) < maxDifferences {
		c.report.Differences = append(c.report.Differences, d)
	}
}

func (c *checker) cause(format string, a ...any) {
	c.report.Causes = append(c.report.Causes, fmt.Sprintf(format, a...))
}

// whole compares the reduced loss. If terms are given, they show the cause of a difference.
func (c *checker) whole(ours float64) {
	c.report.Loss = Number(ours)
	for dims := range 2 {
		t, ok := c.yours.take("yours.loss", dims)
		if !ok {
			c.yours.err = nil // try the next number of dimensions
			continue
		}
		v, err := tensors.Floats(t)
		if err != nil || len(v) != 1 {
			c.yours.err = cmp.Or(err, fmt.Errorf("invalid yours.loss: got %d numbers, expected one", len(v)))
			return
		}
		c.report.Compared, c.report.Entries = append(c.report.Compared, "loss"), c.report.Entries+1
		if !c.same(v[0], ours) {
			c.differ(Difference{
				Term: "loss", Row: -1, Token: -1, ID: -1, Yours: Number(v[0]), Ours: Number(ours),
				Why: "the reduced loss differs; if all terms agree, check the weights and the denominator",
			})
		}
		return
	}
}

// grid holds the script's and our values of a per-token term, aligned by token.
type grid struct {
	name    string
	side    *Tokens
	trained []bool
	yours   []float64 // nil if the script provides none
	ours    []float64
	at      [][]float64 // nat-go's values of the term, from the logits at each position in elsewhere
}

// elsewhere lists wrong positions from which a script may read a token's logits. The correct position is the one
// before the token.
var elsewhere = []struct {
	from int
	what string
}{
	{0, "the logits are not shifted: the logits at a token's own position predict the next token"},
	{-2, "the logits are shifted twice: the logits two positions before a token predict the preceding token"},
}

// grid computes nat-go's terms: the log-prob of each trained token, multiplied by sign.
func (c *checker) grid(name string, side *Tokens, trained func(i int) bool, sign float64) (*grid, error) {
	g := &grid{name: name, side: side, trained: make([]bool, side.R*side.T)}
	for i := range g.trained {
		g.trained[i] = trained(i)
	}
	if side.R > maxRows {
		return nil, fmt.Errorf("too many rows: got %d, expected at most %d", side.R, maxRows)
	}
	if err := g.fill(func(from int) ([]float64, error) { return c.logProbs(g, from, 1, sign) }); err != nil {
		return nil, err
	}
	var err error
	g.yours, err = c.tokens(name, side)
	return g, err
}

// fill sets nat-go's terms using a function that computes them from the logits at an offset.
func (g *grid) fill(terms func(from int) ([]float64, error)) (err error) {
	g.ours, err = terms(-1)
	g.at = make([][]float64, len(elsewhere))
	for i, e := range elsewhere {
		if err == nil {
			g.at[i], err = terms(e.from)
		}
	}
	return err
}

// logProbs returns the log-probs of trained tokens, multiplied by sign, from logits at the given offset.
func (c *checker) logProbs(g *grid, from int, temperature, sign float64) ([]float64, error) {
	n := g.side.R * g.side.T
	targets := slices.Repeat([]int32{kernels.IgnoreIndex}, n)
	for i, on := range g.trained {
		at := i%g.side.T + from
		if !on || at < 0 || at >= g.side.T {
			continue
		}
		if id := g.side.IDs[i]; id < 0 || id >= int64(g.side.Logits.Cols) {
			return nil, fmt.Errorf("row %d: token %d has id %d, but the vocabulary size is %d",
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

// tokens reads the script's terms for a side's tokens, aligned by token. It returns nil if the script didn't provide
// any.
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
		return nil, fmt.Errorf("invalid yours.%s: got shape %v, expected [%d, %d] or [%d, %d]",
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

// compare compares a term token by token, and looks for a single mistake that would explain all differences.
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
			why = "the script trains the token, but the batch does not"
		case g.trained[i] && y == 0 && !c.same(0, o):
			why = "the batch trains the token, but the script does not"
		case g.trained[i] && !c.same(y, o):
			why = "the term differs"
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

// explain looks for a single mistake that explains all of the script's terms.
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
	for _, mistake := range []struct {
		want func(i int) float64
		what string
	}{
		{next(1), "each term is one token too early"},
		{next(-1), "each term is one token too late"},
		{func(i int) float64 { return -g.ours[i] }, "the sign is flipped"},
	} {
		if all(mistake.want) {
			c.cause("%s: %s", g.name, mistake.what)
			return
		}
	}
	for i, terms := range g.at {
		if c.fits(g, terms) {
			c.cause("%s: %s", g.name, elsewhere[i].what)
			return
		}
	}
	if factor, ok := c.factor(g.yours, g.ours); ok {
		c.cause("%s: each term is %.4g times nat-go's", g.name, factor)
	}
}

// fits reports whether the script's terms equal the given ones at every trained token where the script's term isn't 0.
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

// factor returns the factor by which our terms must be scaled to equal the script's.
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

// pairLosses reads the script's per-row terms. It returns nil if the script didn't provide any.
func (c *checker) pairLosses(rows int) ([]float64, error) {
	t, ok := c.yours.take("yours.pair_losses", 1)
	if !ok {
		return nil, c.yours.err
	}
	if t.Shape[0] != rows {
		return nil, fmt.Errorf("invalid yours.pair_losses: got shape %v, expected [%d]", t.Shape, rows)
	}
	return tensors.Floats(t)
}

// pairs compares the losses of pairs and returns how many differ. It calls place to complete each Difference.
func (c *checker) pairs(yours, ours []float64, place func(i int, d *Difference)) (wrong int) {
	c.report.Compared = append(c.report.Compared, "pair_losses")
	c.report.Entries += len(ours)
	for i := range ours {
		if !c.same(yours[i], ours[i]) {
			wrong++
			d := Difference{Term: "pair_losses", Yours: Number(yours[i]), Ours: Number(ours[i])}
			place(i, &d)
			c.differ(d)
		}
	}
	return wrong
}

func (c *checker) equal(a, b []float64) bool {
	return slices.EqualFunc(a, b, c.same)
}
