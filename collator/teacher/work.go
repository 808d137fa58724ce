package teacher

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/kernels"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Work lists the steps to run on the batches in a folder. A site that a step drops has weight 0 from then on, and is
// reported once, with the first reason.
type Work struct {
	Client   *Client   // supplies the top-k columns, unless Mixture does; may be nil
	Mixture  *Mixture  // if not nil, supplies the top-k columns instead of Client
	Effect   *Measure  // measures the hints with the client's model; if nil, nothing is measured
	Weighing *Weighing // sets weights from full logits; if nil, weights are unchanged
	Rollouts bool      // also score the rows of rl batches, at every position
	Dropped  func(Drop)
}

// Drop is a site that has weight 0.
type Drop struct {
	Reason ledger.Reason
	Site   batch.Site
	Row    *batch.Meta // metadata of the site's student row
	Detail string      // the details, on one line
}

// Report counts sites and requests by outcome.
type Report struct {
	Sites   int                   `json:"sites"`
	Dropped map[ledger.Reason]int `json:"dropped,omitempty"` // sites with weight 0, by reason
	Asked   *Asked                `json:"asked,omitempty"`
	Groups  *Taught               `json:"rollouts,omitempty"` // rows of rl batches; none of these is dropped
	Hints   *Measured             `json:"hints,omitempty"`
	Weighed *Weighed              `json:"weighed,omitempty"`
}

// Kept returns the number of sites that still have weight.
func (r *Report) Kept() int {
	n := r.Sites
	for _, k := range r.Dropped {
		n -= k
	}
	return n
}

// Run processes every sdpo batch in a batches folder, and with Rollouts every rl batch, and rewrites the index. It can
// be rerun: stored answers are not requested twice, and weights are computed from the original ones, which the batches
// store too. If it is interrupted, the index is unchanged and doesn't match the batches rewritten so far; another
// Run repairs it.
func (w *Work) Run(ctx context.Context, dir string) (*Report, error) {
	rep := &Report{Dropped: map[ledger.Reason]int{}}
	p := &pass{Work: w, teacher: w.asked(), rep: rep}
	if p.teacher != nil {
		rep.Asked = &Asked{}
		if err := p.teacher.Check(ctx); err != nil {
			return rep, err
		}
	}
	if w.Effect != nil {
		rep.Hints = &Measured{}
	}
	if w.Weighing != nil {
		jsd, err := kernels.NewJSD(w.Weighing.JSD)
		if err != nil {
			return rep, err
		}
		p.weigher = &weigher{Weighing: w.Weighing, k: divergences{jsd: jsd}}
		if w.Weighing.Scoring != nil {
			p.weigher.rep.Scorer = &w.Weighing.Scoring.rep
		}
		rep.Weighed = &p.weigher.rep
	}
	channels := []string{"sdpo"}
	var rollouts *rollouts
	if w.Rollouts && p.teacher != nil {
		channels = append(channels, "rl")
		rollouts = newRollouts(p.teacher)
		rep.Groups = &rollouts.rep
	}
	err := eachBatch(dir, channels, func(l *batch.Line, all []tensors.Tensor) ([]tensors.Tensor, error) {
		if l.Channel == "rl" {
			return rollouts.batch(ctx, l, all)
		}
		return p.sites(ctx, l, all)
	})
	return rep, err
}

// pass is one pass over the sdpo batches.
type pass struct {
	*Work
	teacher asker    // nil means no teacher
	weigher *weigher // nil if nothing is weighed
	rep     *Report
}

// sites processes one sdpo batch and returns its new tensors.
func (p *pass) sites(ctx context.Context, l *batch.Line, all []tensors.Tensor) ([]tensors.Tensor, error) {
	for i := range l.Sites {
		l.Sites[i].Effect = nil // discard the effect measured by an earlier run
	}
	b, err := openBatch(l, all)
	if err == nil && p.teacher != nil {
		err = columns(ctx, p.teacher, b, p.rep.Asked)
	}
	if err == nil && p.Effect != nil {
		err = p.Client.measure(ctx, b, p.Effect, p.rep.Hints)
	}
	if err == nil && p.weigher != nil {
		err = p.weigher.batch(ctx, b)
	}
	if err != nil {
		return nil, err
	}
	p.rep.Sites += len(b.sites)
	for _, site := range slices.Sorted(maps.Keys(b.out)) {
		drop := b.drop(site)
		p.rep.Dropped[drop.Reason]++
		if p.Dropped != nil {
			p.Dropped(drop)
		}
	}
	return b.tensors(), nil
}

// asked returns the mixture if there is one, otherwise the client, which may be nil.
func (w *Work) asked() asker {
	switch {
	case w.Mixture != nil:
		return w.Mixture
	case w.Client != nil:
		return w.Client
	}
	return nil
}

// batchWork is a batch that is being processed.
type batchWork struct {
	line  *batch.Line
	all   []tensors.Tensor
	pairs *Pairs // the pair table, with the batch's original weights
	sites []int64
	out   map[int64]Drop // the dropped sites, without their metadata
	// spread, if not nil, holds new weights for the pairs.
	spread []float32
	jsd    *Divergence // nil if no divergence was measured
}

func openBatch(l *batch.Line, all []tensors.Tensor) (*batchWork, error) {
	p, err := basePairs(all)
	if err != nil {
		return nil, err
	}
	b := &batchWork{line: l, all: all, pairs: p, out: map[int64]Drop{}}
	b.sites = slices.Clone(p.Site)
	slices.Sort(b.sites)
	b.sites = slices.Compact(b.sites)
	if n := len(b.sites); n > 0 && b.sites[n-1] >= int64(len(l.Sites)) {
		return nil, fmt.Errorf("unknown pair_site %d: the index lists %d sites", b.sites[n-1], len(l.Sites))
	}
	return b, nil
}

// lose drops a site, unless it has already been dropped.
func (b *batchWork) lose(site int64, reason ledger.Reason, detail string) {
	if _, ok := b.out[site]; !ok {
		b.out[site] = Drop{Reason: reason, Detail: detail}
	}
}

// in reports whether a site is still in the batch, that is, has not been dropped.
func (b *batchWork) in(site int64) bool { _, out := b.out[site]; return !out }

func (b *batchWork) drop(site int64) Drop {
	d := b.out[site]
	d.Site = b.line.Sites[site]
	if row := b.pairs.StudentRow[slices.Index(b.pairs.Site, site)]; row < int64(len(b.line.RowInfo)) {
		d.Row = &b.line.RowInfo[row]
	}
	return d
}

// tensors returns the batch in its current state.
func (b *batchWork) tensors() []tensors.Tensor {
	w := b.pairs.Weight
	if b.spread != nil {
		w = b.spread
	}
	w = slices.Clone(w)
	for i, site := range b.pairs.Site {
		if !b.in(site) {
			w[i] = 0
		}
	}
	n := b.pairs.Len()
	if b.jsd != nil {
		b.all = replace(b.all, b.jsd.column())
	}
	if slices.Equal(w, b.pairs.Weight) {
		kept := slices.DeleteFunc(slices.Clone(b.all), func(t tensors.Tensor) bool { return t.Name == baseWeight })
		return replace(kept, tensors.Of("pair_weight", w, n))
	}
	return replace(b.all, tensors.Of("pair_weight", w, n), tensors.Of(baseWeight, b.pairs.Weight, n))
}
