package teacher

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/kernels"
)

// SiteJSD is the divergence between teacher and student at a site.
type SiteJSD struct {
	Site   int64
	Mean   float64 // weighted mean over its pairs, in nats
	Max    float64
	Change float64 // mean over the pairs of the teacher's log-prob of the target minus the student's
	Plain  float64 // unweighted mean
	N      int
}

// Divergence is the JSD of every pair and every site, from full-vocabulary logits at the pair positions. It is NaN for
// pairs whose logits were unavailable, and their sites are not listed.
type Divergence struct {
	Token            []float64 // [P]
	Student, Teacher []float64 // [P], log-prob of the target
	Sites            []SiteJSD // in ascending order of Site
}

func newDivergence(n int) *Divergence {
	unknown := slices.Repeat([]float64{math.NaN()}, n)
	return &Divergence{Token: unknown, Student: make([]float64, n), Teacher: make([]float64, n)}
}

// Kernel counts the work of the JSD kernel.
type Kernel struct {
	Calls   int64   `json:"calls"`
	Rows    int64   `json:"rows"`                   // pairs of rows of logits
	Exact   int64   `json:"float64_rows,omitempty"` // pairs of rows that took the float64 path
	Seconds float64 `json:"seconds"`                // time spent in the kernel
}

// divergences computes divergences and keeps counts.
type divergences struct {
	jsd   *kernels.JSD
	count Kernel
	// results of a kernel call, in memory that the next call reuses
	loss, student, teacher []float64
}

// run computes and records the divergences of rows of logits. Row i belongs to pair pairs[i]. If a row lacks a softmax,
// run records nothing and returns the first such row as bad; otherwise bad is -1.
func (k *divergences) run(d *Divergence, p *Pairs, pairs []int, student, teacher kernels.Matrix) (bad int, err error) {
	n := len(pairs)
	for _, list := range []*[]float64{&k.loss, &k.student, &k.teacher} {
		*list = slices.Grow((*list)[:0], n)[:n]
	}
	began := time.Now()
	st, err := k.jsd.Run(&kernels.Batch{Student: student, Teacher: teacher},
		&kernels.Output{RowLoss: k.loss, StudentLSE: k.student, TeacherLSE: k.teacher})
	k.count.Seconds += time.Since(began).Seconds()
	k.count.Calls++
	k.count.Rows += int64(n)
	k.count.Exact += int64(st.Exact)
	if err != nil {
		return -1, err
	}
	if st.NonFinite > 0 {
		return slices.IndexFunc(k.loss, math.IsNaN), nil
	}
	for i, pair := range pairs {
		d.Token[pair] = k.loss[i]
		d.Student[pair] = logProb(&student, i, p.Target[pair], k.student[i])
		d.Teacher[pair] = logProb(&teacher, i, p.Target[pair], k.teacher[i])
	}
	return -1, nil
}

// logProb returns a target's log-prob, or the floor if that is higher.
func logProb(m *kernels.Matrix, row int, target int64, lse float64) float64 {
	return max(floor, min(0, m.At(row, int(target))-lse))
}

// fromDump computes divergences from dumped logits, student_logits and teacher_logits [P, V].
func (k *divergences) fromDump(dump *tensors.File, p *Pairs) (*Divergence, error) {
	var sides [2]kernels.Matrix
	for i, name := range []string{"student_logits", "teacher_logits"} {
		t, err := dump.Read(name)
		if err != nil {
			return nil, err
		}
		if len(t.Shape) != 2 || t.Shape[0] != p.Len() {
			return nil, fmt.Errorf("invalid tensor %s: got shape %v, expected [%d, V], one row per "+
				"pair", name, t.Shape, p.Len())
		}
		if sides[i], err = logits(t); err != nil {
			return nil, err
		}
		if at := slices.IndexFunc(p.Target, func(id int64) bool { return id >= int64(t.Shape[1]) }); at >= 0 {
			return nil, fmt.Errorf("invalid tensor %s: got %d columns, but the target of pair %d is %d", name,
				t.Shape[1], at, p.Target[at])
		}
	}
	d := newDivergence(p.Len())
	all := make([]int, p.Len())
	for i := range all {
		all[i] = i
	}
	bad, err := k.run(d, p, all, sides[0], sides[1])
	if err != nil {
		return nil, err
	}
	if bad >= 0 {
		return nil, fmt.Errorf("a row of logits has no softmax (a NaN, +Inf, or -Inf throughout); the first one "+
			"belongs to pair %d", bad)
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
		if math.IsNaN(l) {
			continue
		}
		s := sites[p.Site[i]]
		if s == nil {
			s = &total{SiteJSD: SiteJSD{Site: p.Site[i]}}
			sites[p.Site[i]] = s
		}
		w := float64(p.Weight[i])
		s.Mean += w * l
		s.weight += w
		s.Plain += l
		s.Change += d.Teacher[i] - d.Student[i]
		s.Max = max(s.Max, l)
		s.N++
	}
	for _, s := range slices.SortedFunc(maps.Values(sites), func(a, b *total) int {
		return cmp.Compare(a.Site, b.Site)
	}) {
		if s.weight > 0 {
			s.Mean /= s.weight
		}
		s.Plain /= float64(s.N)
		s.Change /= float64(s.N)
		d.Sites = append(d.Sites, s.SiteJSD)
	}
}

// column returns the divergences as a column of the batch.
func (d *Divergence) column() tensors.Tensor {
	out := make([]float32, len(d.Token))
	for i, l := range d.Token {
		if out[i] = float32(l); math.IsNaN(l) {
			out[i] = -1
		}
	}
	return tensors.Of(batch.PairJSD, out, len(out))
}

// Weights spreads each site's weight over its pairs in proportion to their divergence, so that tokens which the hint
// affects more have a larger weight. A site's total weight is unchanged. If its divergence is 0 or unknown, the
// weights of its pairs are unchanged, too.
func (d *Divergence) Weights(p *Pairs) []float32 {
	sums := map[int64][2]float64{} // by site, the sum of weights and the sum of weights times divergence
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
