package loss

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/kernels"
)

const (
	vocab  = 13
	ignore = kernels.IgnoreIndex
)

func logits(r *rand.Rand, rows int) kernels.Matrix {
	x := make([]float32, rows*vocab)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return kernels.F32Matrix(x, rows, vocab)
}

func tokens(r *rand.Rand, rows, t int) Tokens {
	s := Tokens{R: rows, T: t, Logits: logits(r, rows*t)}
	for range rows * t {
		s.IDs = append(s.IDs, int64(r.IntN(vocab)))
	}
	return s
}

// example is a batch with all channels, padding, weights and masked tokens.
func example() Batch {
	r := rand.New(rand.NewPCG(1, 2))
	g := &GRPO{Tokens: tokens(r, 3, 5), Advantage: []float32{1, -0.5, 2}, RowWeight: []float32{1, 0.5, 1}}
	for i := range 15 {
		m := int64(1)
		if i%5 == 0 || i%7 == 3 || i >= 13 {
			m = 0
		}
		g.ResponseMask = append(g.ResponseMask, m)
		g.OldLogprobs = append(g.OldLogprobs, -float32(r.Float64())*4)
		g.RefLogprobs = append(g.RefLogprobs, -float32(r.Float64())*4)
	}
	d := &DPO{
		Chosen:      tokens(r, 2, 4),
		Rejected:    tokens(r, 2, 6),
		RefChosen:   []float32{-5, -7},
		RefRejected: []float32{-6, -6.5},
		RowWeight:   []float32{1, 0.7},
	}
	label := func(t *Tokens, prompt int) (l []int64) {
		for i, id := range t.IDs {
			if i%t.T < prompt {
				id = ignore
			}
			l = append(l, id)
		}
		return l
	}
	d.ChosenLabels, d.RejectedLabels = label(&d.Chosen, 2), label(&d.Rejected, 2)
	s := &SDPO{Student: logits(r, 4), Teacher: logits(r, 4), PairWeight: []float32{1, 2, 0.5, 0}}
	return Batch{GRPO: g, DPO: d, SDPO: s}
}

func options() Options {
	return Options{
		AlphaSDPO:  0.7,
		BetaReplay: 0.3,
		DPO:        kernels.PreferenceOptions{Beta: 0.1, LabelSmoothing: 0.05},
		GRPO:       kernels.PolicyOptions{ClipLow: 0.2, ClipHigh: 0.3, KL: 0.05},
		JSD: kernels.Options{
			Beta:        0.5,
			Temperature: 1.5,
		},
		RolloutTemperature: 1.2,
		MaxTokens:          7,
	}
}

func TestGradients(t *testing.T) {
	for _, red := range []kernels.PolicyReduction{kernels.PerToken, kernels.PerSequence, kernels.PerConstant} {
		b, o := example(), options()
		o.GRPO.Reduction = red
		g := Gradients{
			GRPO:     make([]float32, 15*vocab),
			Chosen:   make([]float32, 8*vocab),
			Rejected: make([]float32, 12*vocab),
			Student:  make([]float32, 4*vocab),
		}
		if _, err := composite(b, o, Step{}, &g); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct{ x, g []float32 }{
			"grpo":     {b.GRPO.Logits.F32, g.GRPO},
			"chosen":   {b.DPO.Chosen.Logits.F32, g.Chosen},
			"rejected": {b.DPO.Rejected.Logits.F32, g.Rejected},
			"student":  {b.SDPO.Student.F32, g.Student},
		} {
			for i := 0; i < len(c.x); i += 3 {
				at := func(d float32) (float64, float32) {
					was := c.x[i]
					defer func() { c.x[i] = was }()
					c.x[i] += d
					m, err := composite(b, o, Step{}, nil)
					if err != nil {
						t.Fatal(err)
					}
					return m.Loss, c.x[i]
				}
				up, xu := at(1e-2)
				down, xd := at(-1e-2)
				if fd := (up - down) / float64(xu-xd); math.Abs(fd-float64(c.g[i])) > 2e-5 {
					t.Errorf("%s entry %d: %g, finite difference %g", name, i, c.g[i], fd)
				}
			}
		}
	}
}

// rowsOf returns rows lo:hi of a side.
func rowsOf(s Tokens, lo, hi int) Tokens {
	return Tokens{
		R: hi - lo, T: s.T, IDs: s.IDs[lo*s.T : hi*s.T],
		Logits: kernels.F32Matrix(s.Logits.F32[lo*s.T*vocab:hi*s.T*vocab], (hi-lo)*s.T, vocab),
	}
}

// TestAccumulation checks that a step in three micro-batches equals the step in one.
func TestAccumulation(t *testing.T) {
	b, o := example(), options()
	for _, red := range []kernels.PolicyReduction{kernels.PerToken, kernels.PerSequence, kernels.PerConstant} {
		o.GRPO.Reduction = red
		whole, err := composite(b, o, Step{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var parts []Batch
		for r := range 3 {
			g := b.GRPO
			parts = append(parts, Batch{GRPO: &GRPO{
				Tokens:       rowsOf(g.Tokens, r, r+1),
				ResponseMask: g.ResponseMask[r*5 : r*5+5],
				OldLogprobs:  g.OldLogprobs[r*5 : r*5+5],
				RefLogprobs:  g.RefLogprobs[r*5 : r*5+5],
				Advantage:    g.Advantage[r : r+1],
				RowWeight:    g.RowWeight[r : r+1],
			}})
		}
		for r := range 2 {
			d := b.DPO
			parts[r].DPO = &DPO{
				Chosen:         rowsOf(d.Chosen, r, r+1),
				Rejected:       rowsOf(d.Rejected, r, r+1),
				ChosenLabels:   d.ChosenLabels[r*4 : r*4+4],
				RejectedLabels: d.RejectedLabels[r*6 : r*6+6],
				RefChosen:      d.RefChosen[r : r+1],
				RefRejected:    d.RefRejected[r : r+1],
				RowWeight:      d.RowWeight[r : r+1],
			}
			s := b.SDPO
			parts[r+1].SDPO = &SDPO{
				Student:    kernels.F32Matrix(s.Student.F32[2*r*vocab:2*(r+1)*vocab], 2, vocab),
				Teacher:    kernels.F32Matrix(s.Teacher.F32[2*r*vocab:2*(r+1)*vocab], 2, vocab),
				PairWeight: s.PairWeight[2*r : 2*r+2],
			}
		}
		var step Step
		for _, p := range parts {
			step = step.Add(stepOf(p, o))
		}
		sum := 0.0
		for _, p := range parts {
			m, err := composite(p, o, step, nil)
			if err != nil {
				t.Fatal(err)
			}
			sum += m.Loss
		}
		if math.Abs(sum-whole.Loss) > 1e-7 {
			t.Errorf("reduction %d: parts %g, whole %g", red, sum, whole.Loss)
		}
	}
}

// TestStepZero checks the values that any correct loss must show before the first update.
func TestStepZero(t *testing.T) {
	b, o := example(), options()
	o.GRPO.KL = 0
	o.DPO.LabelSmoothing = 0
	b.DPO.RowWeight = nil
	// The reference is the policy, the sampler is the policy, the teacher is the student.
	logProbs := func(temperature float64) *kernels.LogProb {
		lp, err := kernels.NewLogProb(kernels.LogProbOptions{Temperature: temperature})
		if err != nil {
			t.Fatal(err)
		}
		return lp
	}
	reference := func(s *Tokens, labels []int64) (sums []float32) {
		targets, err := s.predictions("", func(i int) bool { return labels[i] != ignore })
		if err != nil {
			t.Fatal(err)
		}
		out := make([]float64, s.R)
		if _, err := logProbs(1).
			Run(&kernels.LogProbBatch{
				Logits:  s.Logits,
				Targets: targets,
				Offsets: s.rows(),
			}, &kernels.LogProbOutput{Sequence: out}); err != nil {
			t.Fatal(err)
		}
		for _, v := range out {
			sums = append(sums, float32(v))
		}
		return sums
	}
	b.DPO.RefChosen, b.DPO.RefRejected = reference(&b.DPO.Chosen, b.DPO.ChosenLabels),
		reference(&b.DPO.Rejected, b.DPO.RejectedLabels)
	targets, _ := b.GRPO.predictions("", func(i int) bool { return b.GRPO.ResponseMask[i] == 1 })
	tok := make([]float64, 15)
	if _, err := logProbs(o.RolloutTemperature).
		Run(&kernels.LogProbBatch{
			Logits:  b.GRPO.Logits,
			Targets: targets,
			Offsets: b.GRPO.each(),
		}, &kernels.LogProbOutput{Token: tok}); err != nil {
		t.Fatal(err)
	}
	for i, v := range tok[:14] {
		b.GRPO.OldLogprobs[i+1] = float32(v)
	}
	b.SDPO.Teacher = b.SDPO.Student
	g := Gradients{Student: make([]float32, 4*vocab)}
	m, err := composite(b, o, Step{}, &g)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(m.DPO-math.Ln2) > 1e-6 {
		t.Errorf("dpo is %g, want ln 2", m.DPO)
	}
	if math.Abs(m.Ratio-1) > 1e-6 || m.ClipShare != 0 {
		t.Errorf("grpo ratio %g, clip share %g", m.Ratio, m.ClipShare)
	}
	if m.SDPO != 0 {
		t.Errorf("jsd of equal logits is %g", m.SDPO)
	}
	for _, x := range g.Student {
		if x != 0 {
			t.Fatalf("jsd gradient of equal logits is %g", x)
		}
	}
}

// TestNothingActive checks that the loss is exactly 0 with a zero gradient, whatever the logits hold.
func TestNothingActive(t *testing.T) {
	b, o := example(), options()
	clear(b.GRPO.ResponseMask)
	for i := range b.GRPO.Logits.F32 {
		b.GRPO.Logits.F32[i] = float32(math.NaN())
	}
	clear(b.SDPO.PairWeight)
	b.DPO = &DPO{Chosen: Tokens{T: 4}, Rejected: Tokens{T: 4}, RefChosen: []float32{}, RefRejected: []float32{}}
	g := Gradients{GRPO: make([]float32, 15*vocab), Student: make([]float32, 4*vocab)}
	g.GRPO[3], g.Student[3] = 7, 7
	m, err := composite(b, o, Step{}, &g)
	if err != nil || m.Loss != 0 {
		t.Fatalf("loss %g, %v", m.Loss, err)
	}
	for _, x := range append(g.GRPO, g.Student...) {
		if x != 0 {
			t.Fatalf("gradient %g", x)
		}
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(b *Batch)
		want  string
	}{
		"no reference": {func(b *Batch) { b.DPO.RefChosen = nil }, "zeros are not a valid substitute"},
		"shifted labels": {
			func(b *Batch) { b.DPO.ChosenLabels[3] = (b.DPO.ChosenLabels[3] + 1) % vocab },
			"token-aligned",
		},
		"first token":       {func(b *Batch) { b.GRPO.ResponseMask[5] = 1 }, "token 0"},
		"id out of range":   {func(b *Batch) { b.GRPO.IDs[1] = vocab }, "vocabulary"},
		"short mask":        {func(b *Batch) { b.GRPO.ResponseMask = b.GRPO.ResponseMask[:14] }, "response_mask"},
		"different columns": {func(b *Batch) { b.SDPO.Teacher.Cols--; b.SDPO.Teacher.Stride = vocab }, "V="},
	} {
		t.Run(name, func(t *testing.T) {
			b := example()
			c.spoil(&b)
			if _, err := composite(b, options(), Step{}, nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

func TestRows(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	q := RowsRequest{
		Student:     logits(r, 3),
		Teacher:     logits(r, 3),
		Weights:     []float32{1, 2, 3},
		Labels:      []int32{1, ignore, 2},
		Beta:        0.3,
		Temperature: 2,
		Normalize:   "beta",
	}
	res, err := Rows(q)
	if err != nil {
		t.Fatal(err)
	}
	if res.Totals.Active != 2 || res.Totals.Weight != 4 ||
		math.Abs(float64(res.Totals.Loss)-(res.RowLoss[0]+3*res.RowLoss[2])/4) > 1e-15 {
		t.Errorf("%+v %v", res.Totals, res.RowLoss)
	}
	q.Clip, q.Beta, q.ClipValue = "element", 0, 0.05
	if res, err = Rows(q); err != nil || len(res.Totals.Findings) == 0 {
		t.Errorf("%+v %v", res, err)
	}
	q.Normalize = "yes"
	if _, err := Rows(q); err == nil {
		t.Error("an unknown normalisation is accepted")
	}
	if res, err := Rows(RowsRequest{
		Student:     kernels.F32Matrix(nil, 0, 5),
		Teacher:     kernels.F32Matrix(nil, 0, 5),
		Beta:        0.5,
		Temperature: 1,
	}); err != nil || res.Totals.Loss != 0 {
		t.Errorf("empty: %v", err)
	}
}

// TestSlowRows checks that rows of logits which take the kernels' float64 path are reported.
func TestSlowRows(t *testing.T) {
	huge := []float32{1e8, 0, 1, 2, 1, 0, 2, 1}
	mild := []float32{0, 1, 2, 1, 0, 2, 1, 0}
	for _, c := range []struct {
		student []float32
		rows    int
	}{{huge, 1}, {mild, 0}} {
		res, err := Rows(RowsRequest{
			Student: kernels.F32Matrix(c.student, 2, 4), Teacher: kernels.F32Matrix(mild, 2, 4), Beta: 0.5,
			Temperature: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		said := strings.Contains(strings.Join(res.Totals.Findings, "\n"), "1 of 2 rows of logits took the float64 path")
		if res.Totals.Exact != c.rows || said != (c.rows > 0) {
			t.Errorf("%d rows on the float64 path, want %d; findings %q", res.Totals.Exact, c.rows, res.Totals.Findings)
		}
	}
}
