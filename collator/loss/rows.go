package loss

import (
	"fmt"
	"math"

	"github.com/nat-go/nat-go/kernels"
)

// RowsRequest is a JSD over dumped logits, as a trainer's author would ask for it: tensors student_logits and
// teacher_logits [rows, V], optional weights and labels [rows].
type RowsRequest struct {
	Student, Teacher kernels.Matrix
	Weights          []float32
	Labels           []int32
	Beta             float64
	Temperature      float64
	Clip             string // none, token, element or element_bregman
	ClipValue        float64
	Normalize        string // none or beta
	Workers          int
}

// RowsResult is the answer: tensors row_loss float64 [rows] and grad float32 [rows, V], the gradient of
// sum(w*loss)/sum(w) over active rows, and totals.
type RowsResult struct {
	RowLoss []float64
	Grad    []float32
	Totals  RowsTotals
}

// RowsTotals is printed as JSON.
type RowsTotals struct {
	Loss      float64  `json:"loss"` // sum(w*row_loss)/sum(w)
	Sum       float64  `json:"sum"`  // sum(w*row_loss)
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

// Rows computes the request. Totals that are not finite are 0 in Loss and Sum with the counts saying why, since JSON
// has no word for them; RowLoss holds them.
func Rows(q RowsRequest) (*RowsResult, error) {
	clip, err := kernels.ParseClip(q.Clip)
	if err != nil {
		return nil, err
	}
	if q.Normalize != "" && q.Normalize != "none" && q.Normalize != "beta" {
		return nil, fmt.Errorf("normalize is %q: want none or beta", q.Normalize)
	}
	rows := q.Student.Rows
	weight := 0.0
	for r := range rows {
		if q.Labels != nil && r < len(q.Labels) && q.Labels[r] == kernels.IgnoreIndex {
			continue
		}
		if q.Weights == nil {
			weight++
		} else if r < len(q.Weights) {
			weight += float64(q.Weights[r])
		}
	}
	o := kernels.Options{Beta: q.Beta, Temperature: q.Temperature, Clip: clip, ClipValue: q.ClipValue, Normalize: q.Normalize == "beta", Workers: q.Workers}
	o.Reduction, o.Denominator = kernels.ReduceDenom, weight
	if !(weight > 0) || math.IsInf(weight, 1) { // bad weights are refused below
		o.Reduction, o.Denominator = kernels.ReduceSum, 0
	}
	j, err := kernels.NewJSD(o)
	if err != nil {
		return nil, err
	}
	n := 0
	if rows > 0 && q.Student.Cols > 0 && rows <= math.MaxInt/4/q.Student.Cols {
		n = rows * q.Student.Cols
	}
	res := &RowsResult{RowLoss: make([]float64, max(rows, 0)), Grad: make([]float32, n)}
	st, err := j.Run(&kernels.Batch{Student: q.Student, Teacher: q.Teacher, Labels: q.Labels, Weights: q.Weights},
		&kernels.Output{RowLoss: res.RowLoss, Grad: res.Grad})
	if err != nil {
		return nil, err
	}
	res.Totals = RowsTotals{Weight: weight, Rows: rows, Active: st.Active, NonFinite: st.NonFinite, Infinite: st.Infinite,
		Clipped: st.Clipped, Exact: st.Exact, Path: j.Path()}
	if !math.IsNaN(st.Loss) && !math.IsInf(st.Loss, 0) {
		res.Totals.Loss, res.Totals.Sum = st.Loss, st.Loss*weight
	}
	res.Totals.Findings = findings(&o)
	return res, nil
}

// findings says what about the options is legal but rarely meant.
func findings(o *kernels.Options) (out []string) {
	if end := min(o.Beta, 1-o.Beta); end > 0 && end < 0.01 && !o.Normalize {
		out = append(out, fmt.Sprintf("beta %g is near an end, where loss and gradient vanish in proportion to beta(1-beta): normalize beta divides by it; beta 0 and 1 are the KL divergences", o.Beta))
	}
	if (o.Beta == 0 || o.Beta == 1) && o.Clip == kernels.ClipElement {
		out = append(out, "clip element at beta 0 or 1 limits summands that may be negative: the loss may be negative and the gradient may point the wrong way; element_bregman has neither fault")
	}
	return out
}
