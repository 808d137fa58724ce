package loss

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/kernels"
)

// Dump is one micro-batch of an optimiser step, with the logits a trainer dumped for it.
type Dump struct {
	Batch
	// Unscored is the number of sdpo pairs whose teacher columns are empty. These pairs have weight 0.
	Unscored int

	shapes map[string][]int // shapes of the logits, by tensor name
	places []int            // sdpo: each pair's row in the student's [R, T, V] logits; nil if the logits are [P, V]
	shared bool             // sdpo: rl and the student share their logits, because the file has both channels
}

// ReadDump reads one batch file and its logits. The batch has the columns of a batch file; the logits are the tensors
//
//	rl    logits [R,T,V]; ref_logprobs [R,T] if a KL penalty needs them
//	dpo   chosen_logits, rejected_logits [R,T,V]; ref_chosen_logps, ref_rejected_logps [R] if the batch lacks them
//	sdpo  student_logits, teacher_logits, each [P,V] for the pair positions or [R,T,V] for the whole side; without
//	      teacher_logits, the teacher is read from the pair_teacher_topk_ columns of the batch or of this file, at
//	      the temperature in pair_teacher_temperature [1], by default 1
//
// A column found in both files is taken from the logits file. In the composer layout a file may hold all of a step's
// channels. Its logits then belong to input_ids, for rl and for sdpo students, and channels without logits are skipped.
func ReadDump(file, logits *tensors.File) (*Dump, error) {
	c := &columns{files: []*tensors.File{logits, file}}
	d := &Dump{shapes: map[string][]int{}}
	switch {
	case batch.IsComposer(func(name string) bool { _, ok := file.Lookup(name); return ok }):
		return d, d.readComposer(c)
	case c.has("seq_lengths"):
		return nil, errors.New("cannot compute the objective of a packed batch: only sft batches are packed, and " +
			"the objective lacks an sft part")
	case c.has("pair_target_id"):
		d.readSDPO(c)
	case c.has("chosen_input_ids"):
		d.readDPO(c)
	case c.has("response_mask"):
		d.readGRPO(c)
	default:
		return nil, errors.New("invalid batch: expected an rl, dpo or sdpo batch with " +
			"response_mask, chosen_input_ids or pair_target_id")
	}
	if c.err != nil {
		return nil, c.err
	}
	return d, nil
}

// side reads a side's ids and logits.
func (d *Dump) side(c *columns, prefix string) (t Tokens) {
	ids, shape := c.ints(prefix+"input_ids", 2)
	if c.err != nil {
		return t
	}
	t = Tokens{R: shape[0], T: shape[1], IDs: ids, Logits: c.logits(prefix+"logits", 3)}
	d.remember(c, prefix+"logits", 3)
	if got := d.shapes[prefix+"logits"]; c.err == nil && (got[0] != t.R || got[1] != t.T) {
		c.err = fmt.Errorf("invalid tensor %slogits: got shape %v, expected [%d, %d, V], as "+
			"%sinput_ids", prefix, got, t.R, t.T, prefix)
	}
	return t
}

// remember records a tensor's shape for use as the shape of its gradient.
func (d *Dump) remember(c *columns, name string, dims int) {
	if f, own, ok := c.find(name); ok {
		if info, _ := f.Lookup(own); len(info.Shape) == dims {
			d.shapes[name] = info.Shape
		}
	}
}

func (d *Dump) readGRPO(c *columns) {
	g := &GRPO{Tokens: d.side(c, "")}
	g.ResponseMask, _ = c.ints("response_mask", 2)
	g.OldLogprobs = c.floats("old_logprobs", 2)
	g.RefLogprobs = c.floats("ref_logprobs", 2)
	g.Advantage = c.floats("advantage", 1)
	g.RowWeight = c.floats("row_weight", 1)
	if c.has("reward_null") { // an unscored rollout has no advantage, so its row gets weight 0
		null, _ := c.ints("reward_null", 1)
		if g.RowWeight == nil {
			g.RowWeight = slices.Repeat([]float32{1}, g.R)
		}
		for i, n := range null {
			if n != 0 && i < len(g.RowWeight) {
				g.RowWeight[i] = 0
			}
		}
	}
	d.GRPO = g
}

func (d *Dump) readDPO(c *columns) {
	p := &DPO{Chosen: d.side(c, "chosen_"), Rejected: d.side(c, "rejected_")}
	p.ChosenLabels, _ = c.ints("chosen_labels", 2)
	p.RejectedLabels, _ = c.ints("rejected_labels", 2)
	for _, labels := range [][]int64{p.ChosenLabels, p.RejectedLabels} {
		for i, l := range labels {
			if l < 0 { // IgnoreIndex replaces collator.ignore_index, which may be any negative number
				labels[i] = kernels.IgnoreIndex
			}
		}
	}
	p.RefChosen, p.RefRejected = c.floats("ref_chosen_logps", 1), c.floats("ref_rejected_logps", 1)
	p.RowWeight = c.floats("row_weight", 1)
	d.DPO = p
}

func (d *Dump) readSDPO(c *columns) {
	targets, _ := c.ints("pair_target_id", 1)
	s := &SDPO{PairWeight: c.floats("pair_weight", 1)}
	s.Student, d.places = d.pairLogits(c, "student_", targets)
	switch {
	case c.has("teacher_logits") || !c.has("pair_teacher_topk_ids"):
		s.Teacher, _ = d.pairLogits(c, "teacher_", targets)
		toCommonType(&s.Student, &s.Teacher)
	default:
		if s.PairWeight == nil {
			s.PairWeight = slices.Repeat([]float32{1}, len(targets))
		}
		ids, shape := c.ints("pair_teacher_topk_ids", 2)
		logps := c.floats("pair_teacher_topk_logprobs", 2)
		if c.err == nil {
			s.TopK, d.Unscored, c.err = sparse(ids, logps, shape, s.PairWeight, s.Student.Cols)
		}
		s.TopKTemperature = 1
		if t := c.floats("pair_teacher_temperature", 1); len(t) == 1 {
			s.TopKTemperature = float64(t[0])
		}
	}
	d.SDPO = s
}

// pairLogits reads a side's logits at the pair positions, and the positions they were gathered from.
func (d *Dump) pairLogits(c *columns, prefix string, targets []int64) (m kernels.Matrix, at []int) {
	name := prefix + "logits"
	d.remember(c, name, 2)
	d.remember(c, name, 3)
	shape := d.shapes[name]
	if len(shape) != 3 {
		m = c.logits(name, 2)
		if c.err == nil && m.Rows != len(targets) {
			c.err = fmt.Errorf("invalid tensor %s: got %d rows, expected one per pair, %d, or [R, T, "+
				"V]", name, m.Rows, len(targets))
		}
		return m, nil
	}
	m = c.logits(name, 3)
	ids, grid := c.ints(prefix+"input_ids", 2)
	rows, _ := c.ints("pair_"+prefix+"row", 1)
	poss, _ := c.ints("pair_"+prefix+"pos", 1)
	var mask []int64
	if c.has(prefix + "attention_mask") {
		mask, _ = c.ints(prefix+"attention_mask", 2)
	}
	if c.err == nil &&
		(grid[0] != shape[0] || grid[1] != shape[1] || len(rows) != len(targets) || len(poss) != len(targets)) {
		c.err = fmt.Errorf("invalid tensor %s: got shape %v for %sinput_ids of shape %v and %d pairs with %d rows "+
			"and %d positions", name, shape, prefix, grid, len(targets), len(rows), len(poss))
	}
	for i := range targets {
		if c.err != nil {
			return m, nil
		}
		r, p := rows[i], poss[i]
		next := p + 1 // skip padding before the target, which a student may have if it is as wide as its teacher
		for mask != nil && r >= 0 && r < int64(grid[0]) && next > 0 && next < int64(grid[1]) &&
			mask[r*int64(grid[1])+next] == 0 {
			next++
		}
		if r < 0 || r >= int64(grid[0]) || p < 0 || next >= int64(grid[1]) || ids[r*int64(grid[1])+next] != targets[i] {
			c.err = fmt.Errorf("pair %d: %sinput_ids at row %d, position %d + 1 is not the target id %d", i, prefix, r, p, targets[i])
		}
		at = append(at, int(r)*grid[1]+int(p))
	}
	if c.err != nil {
		return m, nil
	}
	return gather(m, at), at
}

// sparse builds a teacher from its [P,K] columns, where missing entries are -1. It sets the weight of a pair without
// entries to 0.
func sparse(
	ids []int64, logps []float32, shape []int, weight []float32, vocab int,
) (t *kernels.SparseTeacher, unscored int, err error) {
	if len(logps) != len(ids) || shape[0] != len(weight) {
		return nil, 0, fmt.Errorf("invalid pair_teacher_topk_ids: got shape %v for %d log-probs and %d "+
			"pairs", shape, len(logps), len(weight))
	}
	t = &kernels.SparseTeacher{Offsets: []int{0}}
	for p := range shape[0] {
		for i := p * shape[1]; i < (p+1)*shape[1]; i++ {
			if ids[i] == -1 {
				continue
			}
			if ids[i] < 0 || ids[i] >= int64(vocab) {
				return nil, 0, fmt.Errorf("invalid pair_teacher_topk_ids: pair %d has id %d, but the vocabulary size "+
					"is %d", p, ids[i], vocab)
			}
			t.IDs, t.LogProbs = append(t.IDs, int32(ids[i])), append(t.LogProbs, logps[i])
		}
		t.Offsets = append(t.Offsets, len(t.IDs))
		if t.Offsets[p] == t.Offsets[p+1] {
			weight[p] = 0
			unscored++
		}
	}
	return t, unscored, nil
}

// Evaluate computes the objective of a step split into micro-batches, using the whole step's denominators. If gradients
// is set, it returns one Gradients per dump, otherwise nil.
func Evaluate(dumps []*Dump, o Options, gradients bool) (Metrics, []*Gradients, error) {
	var step Step
	for _, d := range dumps {
		step = step.Add(stepOf(d.Batch, o))
	}
	var total Metrics
	var all []*Gradients
	for i, d := range dumps {
		var g *Gradients
		if gradients {
			g = d.gradients()
			all = append(all, g)
		}
		m, err := composite(d.Batch, o, step, g)
		if err != nil {
			return Metrics{}, nil, fmt.Errorf("batch %d: %w", i+1, err)
		}
		total.add(m)
	}
	total.weigh(o)
	return total, all, nil
}

// add merges the metrics of a micro-batch into m. It sums losses and counts, and averages the rest over the counted
// tokens or pairs.
func (m *Metrics) add(x Metrics) {
	mean := func(a *float64, b float64, n, k int) {
		if n+k > 0 {
			*a = (*a*float64(n) + b*float64(k)) / float64(n+k)
		}
	}
	mean(&m.Ratio, x.Ratio, m.Tokens, x.Tokens)
	mean(&m.ClipShare, x.ClipShare, m.Tokens, x.Tokens)
	mean(&m.KL, x.KL, m.Tokens, x.Tokens)
	mean(&m.TokenLogprob, x.TokenLogprob, m.Tokens, x.Tokens)
	mean(&m.Margin, x.Margin, m.Pairs, x.Pairs)
	mean(&m.Accuracy, x.Accuracy, m.Pairs, x.Pairs)
	m.GRPO, m.SDPO, m.DPO = m.GRPO+x.GRPO, m.SDPO+x.SDPO, m.DPO+x.DPO
	m.Tokens, m.Pairs, m.Positions = m.Tokens+x.Tokens, m.Pairs+x.Pairs, m.Positions+x.Positions
	m.NonFinite, m.SDPOClipped = m.NonFinite+x.NonFinite, m.SDPOClipped+x.SDPOClipped
	m.Rows, m.Exact = m.Rows+x.Rows, m.Exact+x.Exact
}

// Finite reports whether the loss is finite.
func (m *Metrics) Finite() bool { return !math.IsNaN(m.Loss) && !math.IsInf(m.Loss, 0) }

func (d *Dump) gradients() *Gradients {
	room := func(m kernels.Matrix) []float32 { return make([]float32, m.Rows*m.Cols) }
	g := &Gradients{}
	if d.GRPO != nil {
		g.GRPO = room(d.GRPO.Logits)
	}
	if d.DPO != nil {
		g.Chosen, g.Rejected = room(d.DPO.Chosen.Logits), room(d.DPO.Rejected.Logits)
	}
	if d.SDPO != nil {
		g.Student = room(d.SDPO.Student)
	}
	return g
}

// Tensors returns the gradients as float32 tensors with the shapes of their logits. The gradient of chosen_logits is
// named chosen_logits_grad, with prefix in front, and so on.
func (d *Dump) Tensors(g *Gradients, prefix string) (out []tensors.Tensor) {
	add := func(name string, x []float32) {
		out = append(out, tensors.Of(prefix+name+"_grad", x, d.shapes[name]...))
	}
	if d.DPO != nil {
		add("chosen_logits", g.Chosen)
		add("rejected_logits", g.Rejected)
	}
	policy, student := g.GRPO, g.Student
	if d.SDPO != nil && d.places != nil {
		student = d.spread(g.Student, policy)
	}
	if d.SDPO != nil {
		add(d.studentLogits(), student)
	}
	if d.GRPO != nil && !d.shared {
		add("logits", policy)
	}
	return out
}

// spread adds each pair's gradient to whole, at the pair's position. whole holds the gradients at all positions. If it
// is nil or the student's logits aren't shared with rl, spread starts from zeros.
func (d *Dump) spread(student, whole []float32) []float32 {
	v := d.SDPO.Student.Cols
	if !d.shared || whole == nil {
		shape := d.shapes[d.studentLogits()]
		whole = make([]float32, shape[0]*shape[1]*v)
	}
	for i, at := range d.places {
		for k, x := range student[i*v : (i+1)*v] { // pairs of different sites may share a position
			whole[at*v+k] += x
		}
	}
	return whole
}

// studentLogits returns the name of the tensor with the student's logits.
func (d *Dump) studentLogits() string {
	if d.shared {
		return "logits"
	}
	return "student_logits"
}
