package teacher

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/kernels"
)

// baseWeight is the column that keeps a batch's original pair weights after Work has set others.
const baseWeight = batch.BaseWeight

// Weighing configures where the full logits at the pair positions come from, and how they are used.
type Weighing struct {
	// Dumps is a folder with one file per batch, named after the batch, that contains student_logits and teacher_logits
	// [P, V].
	Dumps    string
	Scoring  *Scoring // a program that computes the logits; used instead of Dumps
	Spread   bool     // spread each site's weight over its pairs in proportion to their divergence
	Least    float64  // sites with a smaller mean divergence get weight 0; 0 means no limit
	WrongWay bool     // a site whose hint moves the target the wrong way gets weight 0
	JSD      kernels.Options
}

// Weighed counts sites by outcome.
type Weighed struct {
	Batches  int     `json:"batches"`
	Sites    int     `json:"sites"`               // sites with logits
	Below    int     `json:"below,omitempty"`     // sites with a mean divergence below Least, even if already dropped
	WrongWay int     `json:"wrong_way,omitempty"` // sites whose hint moves the target the wrong way, even if dropped
	Mean     float64 `json:"mean_jsd"`            // mean divergence over sites
	// mean over sites of log p(target | hint) - log p(target), in nats per token
	Change   float64 `json:"mean_change"`
	Kernel   Kernel  `json:"kernel"`             // work of the JSD kernel
	Scorer   *Scored `json:"scorer,omitempty"`   // requests to the program that computes the logits
	Unscored int     `json:"unscored,omitempty"` // sites without logits
}

// weigher reads logits, a batch at a time. A missing dump is an error.
type weigher struct {
	*Weighing
	k   divergences
	rep Weighed
	sum struct{ jsd, change float64 }
}

// batch drops, as configured, the sites whose divergence is too small or whose hint moves the target the wrong way, and
// spreads each site's weight over its pairs. It records the effect of every site's hint.
func (w *weigher) batch(ctx context.Context, b *batchWork) error {
	d, route, err := w.logits(ctx, b)
	if err != nil {
		return err
	}
	w.rep.Batches++
	w.rep.Kernel = w.k.count
	w.rep.Unscored += len(b.sites) - len(d.Sites)
	directions := b.directions()
	for i := range d.Sites {
		s := &d.Sites[i]
		w.rep.Sites++
		w.sum.jsd += s.Mean
		w.sum.change += s.Change
		b.line.Sites[s.Site].Effect = &batch.Effect{
			Route:  route,
			Lower:  s.Plain,
			Upper:  s.Plain,
			Max:    s.Max,
			Target: s.Change,
		}
		if !(s.Mean >= w.Least) {
			w.rep.Below++
			b.lose(s.Site, siteBelowJSD,
				fmt.Sprintf("the site's mean divergence is %.3g nats; min_jsd is %.3g", s.Mean, w.Least))
		}
		if to := directions[s.Site]; float64(to)*s.Change < 0 {
			w.rep.WrongWay++
			if w.WrongWay {
				detail := fmt.Sprintf("the hint changes the target by %+.4f nats per token", s.Change)
				b.lose(s.Site, hintWrongWay, detail)
			}
		}
	}
	if w.rep.Sites > 0 {
		w.rep.Mean, w.rep.Change = w.sum.jsd/float64(w.rep.Sites), w.sum.change/float64(w.rep.Sites)
	}
	b.jsd = d
	if w.Spread {
		b.spread = d.Weights(b.pairs)
	}
	return nil
}

// logits returns the batch's divergences and their source, "logits" (the program) or "dumps".
func (w *weigher) logits(ctx context.Context, b *batchWork) (*Divergence, string, error) {
	if w.Scoring != nil {
		d, err := w.Scoring.batch(ctx, b, &w.k)
		return d, "logits", err
	}
	dump, err := tensors.OpenFile(filepath.Join(w.Dumps, filepath.FromSlash(b.line.File)))
	if err != nil {
		return nil, "", fmt.Errorf("cannot read the batch's dump: %w", err)
	}
	defer dump.Close()
	d, err := w.k.fromDump(dump, b.pairs)
	if err != nil {
		return nil, "", fmt.Errorf("cannot read the batch's dump: %w", err)
	}
	return d, "dumps", nil
}

// directions returns, for each site, the direction in which a good hint moves its target.
func (b *batchWork) directions() map[int64]Direction {
	out, site := map[int64]Direction{}, int64(0)
	for r := range b.line.RowInfo {
		for k := range b.line.RowInfo[r].Sites {
			out[site] = direction(&b.line.RowInfo[r].Sites[k])
			site++
		}
	}
	return out
}

func direction(s *batch.RowSite) Direction {
	if s.Target == "next_turn" {
		return higher
	}
	return lower
}

// basePairs reads the pair table with the batch's original weights.
func basePairs(all []tensors.Tensor) (*Pairs, error) {
	if i := slices.IndexFunc(all, func(t tensors.Tensor) bool { return t.Name == baseWeight }); i >= 0 {
		base := all[i]
		base.Name = "pair_weight"
		all = replace(all, base)
	}
	return ReadPairs(all)
}
