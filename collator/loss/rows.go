package loss

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/kernels"
)

// RowsRequest is a request for the JSD between dumped logits. These are the tensors student_logits and teacher_logits
// [rows, V]. The tensors weights and labels [rows] are optional.
type RowsRequest struct {
	Student, Teacher kernels.Matrix
	Weights          []float32
	Labels           []int32
	Beta             float64
	Temperature      float64
	Clip             string // none, token, element or element_bregman
	ClipValue        float64
	Normalize        string // none or beta
	TopK             int    // if above 0, only the student's k most probable entries in a row are compared individually
	Rest             string // with TopK, how the other entries are treated: bucket or renormalise
	// if above 0, the number of leading columns that belong to the vocabulary; required if the sides differ in width
	Vocab   int
	Sum     bool // differentiate sum(w*loss) instead of sum(w*loss)/sum(w)
	Workers int
}

// ReadRows reads the tensors of a request from a file; the caller sets the options.
func ReadRows(f *tensors.File) (RowsRequest, error) {
	c := &columns{files: []*tensors.File{f}}
	q := RowsRequest{
		Student: c.logits("student_logits", 2),
		Teacher: c.logits("teacher_logits", 2),
		Weights: c.floats("weights", 1),
	}
	if c.has("labels") {
		labels, _ := c.ints("labels", 1)
		q.Labels = make([]int32, len(labels))
		for i, l := range labels {
			if l == kernels.IgnoreIndex {
				q.Labels[i] = kernels.IgnoreIndex
			}
		}
	}
	toCommonType(&q.Student, &q.Teacher)
	return q, c.err
}

// RowsResult holds the result tensors row_loss, float64 [rows], and grad, float32 [rows, V], and the totals. grad is
// the gradient of sum(w*loss)/sum(w) over active rows (or of the sum) with respect to student_logits.
type RowsResult struct {
	RowLoss []float64
	Grad    []float32
	Totals  RowsTotals
}

// Tensors returns the tensors for the result file.
func (r *RowsResult) Tensors() []tensors.Tensor {
	v := 0
	if rows := len(r.RowLoss); rows > 0 {
		v = len(r.Grad) / rows
	}
	return []tensors.Tensor{
		tensors.Of("row_loss", r.RowLoss, len(r.RowLoss)), tensors.Of("grad", r.Grad, len(r.RowLoss), v),
	}
}

// Number is a float64 that is null in JSON if it isn't finite, because JSON can't express NaN or infinity.
type Number float64

// MarshalJSON writes the number or null.
func (n Number) MarshalJSON() ([]byte, error) {
	if f := float64(n); math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// RowsTotals holds the totals, which are printed as JSON.
type RowsTotals struct {
	Loss      Number   `json:"loss"` // sum(w*row_loss)/sum(w)
	Sum       Number   `json:"sum"`  // sum(w*row_loss)
	Weight    float64  `json:"weight"`
	Rows      int      `json:"rows"`
	Active    int      `json:"active"`
	NonFinite int      `json:"nonfinite_rows"`
	Infinite  int      `json:"infinite_rows"`
	Clipped   int      `json:"clipped"`
	Exact     int      `json:"float64_rows"`
	Path      string   `json:"path"`
	Findings  []string `json:"findings,omitempty"`
}

// Rows evaluates the request. If a total is not finite, a finding explains why.
func Rows(q RowsRequest) (*RowsResult, error) {
	clip, err := kernels.ParseClip(q.Clip)
	if err != nil {
		return nil, err
	}
	if q.Normalize != "" && q.Normalize != "none" && q.Normalize != "beta" {
		return nil, fmt.Errorf("invalid normalize %q: expected none or beta", q.Normalize)
	}
	rows, weight := q.Student.Rows, q.weight()
	o := kernels.Options{
		Beta:        q.Beta,
		Temperature: q.Temperature,
		Clip:        clip,
		ClipValue:   q.ClipValue,
		Normalize:   q.Normalize == "beta",
		Workers:     q.Workers,
	}
	scale := 1.0                                        // factor that turns the sum into the kernel's reduction
	if !q.Sum && weight > 0 && !math.IsInf(weight, 1) { // Run rejects invalid weights
		o.Reduction, o.Denominator = kernels.ReduceDenom, weight
		scale = 1 / weight
	}
	jsd, err := q.divergence(o)
	if err != nil {
		return nil, err
	}
	n := 0
	if rows > 0 && q.Student.Cols > 0 && rows <= math.MaxInt/4/q.Student.Cols {
		n = rows * q.Student.Cols
	}
	res := &RowsResult{RowLoss: make([]float64, max(rows, 0)), Grad: make([]float32, n)}
	st, err := jsd.Run(
		&kernels.Batch{Student: q.Student, Teacher: q.Teacher, Vocab: q.Vocab, Labels: q.Labels, Weights: q.Weights},
		&kernels.Output{RowLoss: res.RowLoss, Grad: res.Grad},
	)
	if err != nil {
		return nil, err
	}
	res.Totals = RowsTotals{
		Sum:    Number(st.Loss / scale),
		Weight: weight, Rows: rows, Active: st.Active, NonFinite: st.NonFinite, Infinite: st.Infinite,
		Clipped: st.Clipped, Exact: st.Exact,
	}
	if weight > 0 {
		res.Totals.Loss = Number(st.Loss / scale / weight)
	}
	res.Totals.Path = jsd.Path()
	res.Totals.Findings = append(findings(&o), spoiled(st, res.RowLoss)...)
	if text := st.Slow(); text != "" {
		res.Totals.Findings = append(res.Totals.Findings, text)
	}
	return res, nil
}

// weight returns the sum of the weights of the rows that labels don't exclude.
func (q *RowsRequest) weight() float64 {
	sum := 0.0
	for r := range q.Student.Rows {
		if q.Labels != nil && r < len(q.Labels) && q.Labels[r] == kernels.IgnoreIndex {
			continue
		}
		if q.Weights == nil || r < len(q.Weights) {
			sum += weight(q.Weights, r)
		}
	}
	return sum
}

// divergence returns the kernel for whole rows, or for a top-k support if TopK is set.
func (q *RowsRequest) divergence(o kernels.Options) (interface {
	Run(*kernels.Batch, *kernels.Output) (kernels.Stats, error)
	Path() string
}, error,
) {
	rest, err := kernels.ParseRest(q.Rest)
	switch {
	case err != nil:
		return nil, err
	case q.TopK != 0:
		return kernels.NewTopKJSD(o, q.TopK, rest)
	case rest != kernels.RestBucket:
		return nil, fmt.Errorf("cannot use rest %s without a top-k: whole rows have no remaining entries", q.Rest)
	}
	return kernels.NewJSD(o)
}

// spoiled returns findings about rows whose loss isn't finite.
func spoiled(st kernels.Stats, loss []float64) (out []string) {
	first := func(is func(float64) bool) int { return slices.IndexFunc(loss, is) }
	if st.NonFinite > 0 {
		out = append(out, fmt.Sprintf("%d rows have no softmax (a NaN, +Inf, or -Inf throughout): their loss and gradient are NaN; the first is row %d", st.NonFinite, first(math.IsNaN)))
	}
	if st.Infinite > 0 {
		out = append(out, fmt.Sprintf("%d rows have an infinite loss: the student (at beta 0) or the teacher (at "+
			"beta 1) gives probability 0 to a token to which the other gives more; the first is row %d", st.Infinite,
			first(func(x float64) bool { return math.IsInf(x, 1) })))
	}
	return out
}

// findings reports options that are legal but rarely intended.
func findings(o *kernels.Options) (out []string) {
	if end := min(o.Beta, 1-o.Beta); end > 0 && end < 0.01 && !o.Normalize {
		out = append(out, fmt.Sprintf("beta %g is close to 0 or 1, so loss and gradient are nearly 0, in proportion to beta(1-beta): normalize beta divides by that factor; for a KL divergence, use beta 0 or 1 exactly", o.Beta))
	}
	if (o.Beta == 0 || o.Beta == 1) && o.Clip == kernels.ClipElement {
		out = append(out, "clip element at beta 0 or 1 limits summands that may be negative: the loss may be negative and the gradient may point the wrong way; element_bregman avoids both")
	}
	return out
}
