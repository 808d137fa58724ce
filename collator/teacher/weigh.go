package teacher

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tensors"
	"github.com/nat-go/nat-go/kernels"
)

// BaseWeight is the column that keeps the pair weights a batch was made with, once Work has set others.
const BaseWeight = batch.BaseWeight

// Weighing says what dumped logits are used for.
type Weighing struct {
	Dumps  string  // folder with a file a batch, under the batch's name, of student_logits and teacher_logits [P, V]
	Spread bool    // spread each site's weight over its pairs in proportion to their divergence
	Least  float64 // sites whose mean divergence is below weigh nothing; 0: none
	JSD    kernels.Options
}

// Weighed counts what became of sites.
type Weighed struct {
	Batches int     `json:"batches"`
	Sites   int     `json:"sites"`
	Below   int     `json:"below,omitempty"` // sites below Least, whether or not they were in
	Mean    float64 `json:"mean_jsd"`        // over sites
}

// weigher reads dumps, a batch at a time. A batch without a dump is an error.
type weigher struct {
	*Weighing
	jsd *kernels.JSD
	rep Weighed
	sum float64
}

func newWeigher(w *Weighing) (*weigher, error) {
	jsd, err := kernels.NewJSD(w.JSD)
	return &weigher{Weighing: w, jsd: jsd}, err
}

// batch puts out the sites that differ too little and spreads the weights of the others over their tokens, as asked.
func (w *weigher) batch(b *open) error {
	d, err := w.read(b.line.File, b.pairs, w.jsd)
	if err != nil {
		return err
	}
	w.rep.Batches++
	for _, s := range d.Sites {
		w.rep.Sites++
		w.sum += s.Mean
		if !(s.Mean >= w.Least) {
			w.rep.Below++
			b.lose(s.Site, SiteBelowJSD, fmt.Sprintf("its mean divergence is %.3g nats, the least asked for %.3g", s.Mean, w.Least))
		}
	}
	if w.rep.Sites > 0 {
		w.rep.Mean = w.sum / float64(w.rep.Sites)
	}
	if w.Spread {
		b.spread = d.Weights(b.pairs)
	}
	return nil
}

// basePairs reads the pair table with the weights the batch was made with.
func basePairs(all []tensors.Tensor) (*Pairs, error) {
	if i := slices.IndexFunc(all, func(t tensors.Tensor) bool { return t.Name == BaseWeight }); i >= 0 {
		base := all[i]
		base.Name = "pair_weight"
		all = replace(all, base)
	}
	return ReadPairs(all)
}

func (w *Weighing) read(name string, p *Pairs, jsd *kernels.JSD) (*Divergence, error) {
	dump, err := tensors.OpenFile(filepath.Join(w.Dumps, filepath.FromSlash(name)))
	if err != nil {
		return nil, err
	}
	defer dump.Close()
	return FromDump(dump, p, jsd)
}
