package teacher

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/nat-go/nat-go/collator/tensors"
	"github.com/nat-go/nat-go/kernels"
)

// SiteJSD is how far teacher and student are apart at a site.
type SiteJSD struct {
	Site int64
	Mean float64 // weighted mean over its pairs, in nats
	Max  float64
	N    int
}

// Divergence is the JSD at every pair and of every site, out of full-vocabulary logits at the pair positions.
type Divergence struct {
	Token []float64 // [P]
	Sites []SiteJSD // by site
}

// FromDump computes divergences from dumped logits, student_logits and teacher_logits [P, V], with a kernel.
func FromDump(dump *tensors.File, p *Pairs, jsd *kernels.JSD) (*Divergence, error) {
	var sides [2]kernels.Matrix
	for i, name := range []string{"student_logits", "teacher_logits"} {
		t, err := dump.Read(name)
		if err != nil {
			return nil, err
		}
		if len(t.Shape) != 2 || t.Shape[0] != p.Len() {
			return nil, fmt.Errorf("tensor %s has shape %v: want [%d, V], a row a pair", name, t.Shape, p.Len())
		}
		if sides[i], err = logits(t); err != nil {
			return nil, err
		}
	}
	d := &Divergence{Token: make([]float64, p.Len())}
	st, err := jsd.Run(&kernels.Batch{Student: sides[0], Teacher: sides[1]}, &kernels.Output{RowLoss: d.Token})
	if err != nil {
		return nil, err
	}
	if st.NonFinite > 0 {
		at := slices.IndexFunc(d.Token, math.IsNaN)
		return nil, fmt.Errorf("%d rows of logits have no softmax (a NaN, +Inf, or -Inf throughout); the first is of pair %d", st.NonFinite, at)
	}
	d.sum(p)
	return d, nil
}

func logits(t tensors.Tensor) (kernels.Matrix, error) {
	rows, cols := t.Shape[0], t.Shape[1]
	if t.DType.Size() == 2 {
		bits, err := tensors.Bits(t)
		m := kernels.BF16Matrix(bits, rows, cols)
		if t.DType == tensors.Float16 {
			m = kernels.F16Matrix(bits, rows, cols)
		}
		return m, err
	}
	x, err := tensors.Items[float32](t)
	return kernels.F32Matrix(x, rows, cols), err
}

func (d *Divergence) sum(p *Pairs) {
	type total struct {
		SiteJSD
		weight float64
	}
	sites := map[int64]*total{}
	for i, l := range d.Token {
		s := sites[p.Site[i]]
		if s == nil {
			s = &total{SiteJSD: SiteJSD{Site: p.Site[i]}}
			sites[p.Site[i]] = s
		}
		w := float64(p.Weight[i])
		s.Mean += w * l
		s.weight += w
		s.Max = max(s.Max, l)
		s.N++
	}
	for _, s := range slices.SortedFunc(maps.Values(sites), func(a, b *total) int { return cmp.Compare(a.Site, b.Site) }) {
		if s.weight > 0 {
			s.Mean /= s.weight
		}
		d.Sites = append(d.Sites, s.SiteJSD)
	}
}

// Weights spreads each site's weight over its pairs in proportion to their divergence: tokens the hint changes count more.
// What a site weighs in all stays the same; one without any divergence keeps its weights.
func (d *Divergence) Weights(p *Pairs) []float32 {
	sums := map[int64][2]float64{} // of weights, and of weights times divergence
	for i, site := range p.Site {
		s := sums[site]
		w := float64(p.Weight[i])
		sums[site] = [2]float64{s[0] + w, s[1] + w*d.Token[i]}
	}
	out := slices.Clone(p.Weight)
	for i, site := range p.Site {
		if s := sums[site]; s[1] > 0 && !math.IsInf(s[1], 1) {
			out[i] = float32(float64(p.Weight[i]) * d.Token[i] * s[0] / s[1])
		}
	}
	return out
}
