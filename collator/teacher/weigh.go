package teacher

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tensors"
	"github.com/nat-go/nat-go/kernels"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// BaseWeight is the column that keeps the pair weights a batch was made with, once Weigh has set others.
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
	Batches int                   `json:"batches"`
	Sites   int                   `json:"sites"`
	Dropped map[ledger.Reason]int `json:"dropped,omitempty"` // sites that weigh nothing, by reason
	Mean    float64               `json:"mean_jsd"`          // over sites
}

// Weigh sets pair_weight in every sdpo batch of a folder from logits dumped for it, and renews the index. The weights there
// were are kept beside, so that it can be run again and the batches still be verified. A batch without a dump is an error.
func Weigh(dir string, w Weighing) (*Weighed, error) {
	jsd, err := kernels.NewJSD(w.JSD)
	if err != nil {
		return nil, err
	}
	rep := &Weighed{}
	sum := 0.0
	err = eachBatch(dir, func(l *batch.Line, all []tensors.Tensor) ([]tensors.Tensor, error) {
		p, err := basePairs(all)
		if err != nil {
			return nil, err
		}
		d, err := w.read(l.File, p, jsd)
		if err != nil {
			return nil, fmt.Errorf("its dump: %w", err)
		}
		base := p.Weight
		var dropped map[int64]ledger.Reason
		p.Weight, dropped = d.Filter(p, w.Least)
		if w.Spread {
			p.Weight = d.Weights(p)
		}
		rep.Batches++
		rep.Sites += len(d.Sites)
		for _, s := range d.Sites {
			sum += s.Mean
		}
		for _, reason := range dropped {
			if rep.Dropped == nil {
				rep.Dropped = map[ledger.Reason]int{}
			}
			rep.Dropped[reason]++
		}
		return replace(all, tensors.Of("pair_weight", p.Weight, p.Len()), tensors.Of(BaseWeight, base, p.Len())), nil
	})
	if rep.Sites > 0 {
		rep.Mean = sum / float64(rep.Sites)
	}
	return rep, err
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
	f, err := os.Open(filepath.Join(w.Dumps, filepath.FromSlash(name)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	dump, err := tensors.Open(f, info.Size())
	if err != nil {
		return nil, err
	}
	return FromDump(dump, p, jsd)
}
