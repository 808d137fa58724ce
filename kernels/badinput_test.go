package kernels

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/oracletest"
)

// badCase is a row of bad_inputs.json. Arguments that a case doesn't name get valid values.
type badCase struct {
	ID, Fn string
	Args   struct {
		Beta, Tau, C, Denom      *F
		Clip, Red, Dtype, Kind   string
		Z, T                     json.RawMessage
		ZBits                    []uint16 `json:"z_bits"`
		TBits                    []uint16 `json:"t_bits"`
		Labels, Targets, Ids     []int32
		Weights, Logp            []F
		Rows, V, Stride, K       *int
		RowsZ                    *int `json:"rows_z"`
		RowsT                    *int `json:"rows_t"`
		LenZ                     *int `json:"len_z"`
		LenLabels                *int `json:"len_labels"`
		LenWeights               *int `json:"len_weights"`
		LenRowLoss               *int `json:"len_row_loss"`
		LenIds                   *int `json:"len_ids"`
		NPc                      *int `json:"n_pc"`
		NRr                      *int `json:"n_rr"`
		N                        *int
		Off                      []int
		Tail, Mean               *bool
		PC, PR, RC, RR, Upstream *F
		LabelSmoothing           *F `json:"label_smoothing"`
	}
	Expect badExpect
	Also   *badExpect `json:"also_acceptable"`
}

type badExpect struct {
	Kind     string
	Code     Code
	Names    []string `json:"message_must_name"`
	RowLoss  *F       `json:"row_loss"`
	Loss     *F
	Mean     *F
	Tok, Seq *F
	Count    *int
	GPc      *F `json:"g_pc"`
	Grad     json.RawMessage
	Counter  string
	Ids      []int32
}

// outcome is the result of a call, in the terms used by expectations.
type outcome struct {
	err   error
	loss  float64   // reduced
	rows  []float64 // row losses
	grad  []float32
	stats Stats
}

func val(f *F, or float64) float64 {
	if f == nil {
		return or
	}
	return float64(*f)
}

func num(n *int, or int) int {
	if n == nil {
		return or
	}
	return *n
}

// floats reads a JSON list of numbers, or of lists of numbers; cols is the row length.
func floats(t *testing.T, raw json.RawMessage, or []float32) (x []float32, rows, cols int) {
	if raw == nil {
		return or, 1, len(or)
	}
	var nested [][]F
	if json.Unmarshal(raw, &nested) != nil {
		var flat []F
		if err := json.Unmarshal(raw, &flat); err != nil {
			t.Fatal(err)
		}
		nested = [][]F{flat}
	}
	for _, r := range nested {
		for _, v := range r {
			x = append(x, float32(v))
		}
		cols = len(r)
	}
	return x, len(nested), cols
}

// TestSparseStudentWithoutMemory checks that a student without entries is rejected before its memory is compared with
// the gradient's.
func TestSparseStudentWithoutMemory(t *testing.T) {
	j, err := NewSparseJSD(Options{Beta: 0.5, Temperature: 1}, RestBucket)
	if err != nil {
		t.Fatal(err)
	}
	b := &SparseBatch{Student: Matrix{Rows: 1, Cols: 3}, Teacher: SparseTeacher{Offsets: []int{0, 0}}}
	_, err = j.Run(b, &Output{Grad: make([]float32, 3)})
	if e := (*Error)(nil); !errors.As(err, &e) || e.Code != CodeShape {
		t.Errorf("got %v, want code %v", err, CodeShape)
	}
}

func TestBadInputs(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(oracletest.Path(t, "kernels"), "bad_inputs.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []badCase
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	forPaths(t, func(t *testing.T, path string) {
		for _, c := range cases {
			t.Run(c.ID, func(t *testing.T) {
				var why []string
				for _, e := range []*badExpect{&c.Expect, c.Also} {
					if e == nil {
						continue
					}
					msg := c.judge(t, path, e)
					if msg == "" {
						return
					}
					why = append(why, msg)
				}
				t.Errorf("%s", strings.Join(why, "\n or: "))
			})
		}
	})
}

func (c *badCase) judge(t *testing.T, path string, e *badExpect) string {
	switch c.Fn {
	case "jsd", "jsd_batch", "any":
		return c.judgeJSD(t, path, e)
	case "sparse":
		return e.judge(t, c.sparse(t, path))
	case "student_topk":
		return e.judge(t, c.topK(t))
	case "seqlp":
		return e.judge(t, c.logProb(t, path))
	case "dpo":
		return e.judge(t, c.dpo())
	}
	t.Fatalf("unknown function %q", c.Fn)
	return ""
}

// judge compares an outcome with an expectation and reports the differences.
func (e *badExpect) judge(t *testing.T, o outcome) string {
	switch e.Kind {
	case "error":
		var ke *Error
		if !errors.As(o.err, &ke) {
			return "want an error with code " + string(e.Code) + ", got " + errText(o.err)
		}
		if e.Code != "" && ke.Code != e.Code {
			return "want code " + string(e.Code) + ", got: " + ke.Error()
		}
		for _, n := range e.Names {
			if !strings.Contains(ke.Error(), n) {
				return "message does not name " + n + ": " + ke.Error()
			}
		}
		return ""
	case "poison":
		if o.err != nil || !math.IsNaN(o.loss) && !anyNaN(o.rows) && !anyNaN32(o.grad) {
			return "want a poisoned row, got " + errText(o.err)
		}
		return ""
	}
	if o.err != nil {
		return "want a value, got " + o.err.Error()
	}
	want := e.RowLoss
	for _, w := range []*F{e.Loss, e.Mean, e.Seq} {
		if want == nil {
			want = w
		}
	}
	if want != nil && (gate{3e-6, 1e-11, 0}).far(o.loss, float64(*want)) {
		return "loss is not the expected one"
	}
	var grads []F
	if e.Grad != nil && json.Unmarshal(e.Grad, &grads) == nil {
		top := 0.0
		for _, g := range grads {
			top = max(top, math.Abs(float64(g)))
		}
		for i, g := range grads {
			if !(math.Abs(float64(o.grad[i])-float64(g)) <= 5e-6*top+1e-12) {
				return "gradient is not the expected one"
			}
		}
	}
	if strings.Contains(string(e.Grad), "NaN") && !anyNaN32(o.grad) {
		return "want a NaN gradient"
	}
	if strings.HasPrefix(e.Counter, "infinite_rows") && o.stats.Infinite != 1 {
		return "infinite rows are not counted"
	}
	return ""
}

func errText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

func anyNaN(x []float64) bool {
	for _, v := range x {
		if v != v {
			return true
		}
	}
	return false
}

func anyNaN32(x []float32) bool {
	for _, v := range x {
		if v != v {
			return true
		}
	}
	return false
}

func (c *badCase) options(path string) (Options, error) {
	a := &c.Args
	o := Options{
		Beta:        val(a.Beta, 0.5),
		Temperature: val(a.Tau, 1),
		ClipValue:   val(a.C, 0),
		Denominator: val(a.Denom, 0),
		Path:        path,
	}
	var err error
	if o.Clip, err = ParseClip(a.Clip); err != nil {
		return o, err
	}
	if o.Clip != ClipNone && a.C == nil {
		o.ClipValue = 0.05
	}
	o.Reduction = ReduceSum
	if a.Red != "" {
		o.Reduction, err = reductionOf(a.Red)
	}
	return o, err
}

func (c *badCase) judgeJSD(t *testing.T, path string, e *badExpect) string {
	a := &c.Args
	switch c.ID {
	case "concurrent", "worker_count", "alias_grad_student", "misaligned_ok":
		return "" // covered by TestDeterminism, TestInPlace and TestAlignment
	}
	o, err := c.options(path)
	if err != nil {
		return e.judge(t, outcome{err: err})
	}
	j, err := NewJSD(o)
	if err != nil {
		return e.judge(t, outcome{err: err})
	}
	z, rows, v := floats(t, a.Z, []float32{1, 2, 3, 0.5})
	w, rowsT, vt := floats(t, a.T, []float32{1.5, 1, 3, 0})
	if a.Z == nil &&
		(a.Rows != nil || a.V != nil || a.RowsZ != nil || a.LenRowLoss != nil || a.Weights != nil ||
			a.LenLabels != nil || a.LenWeights != nil) {
		rows, v = num(a.Rows, len(a.Weights)), num(a.V, 4)
		if a.Rows == nil && a.Weights == nil {
			rows = max(1, len(a.Labels))
		}
		rowsT, vt = num(a.RowsT, rows), v
		rows = num(a.RowsZ, rows)
		if n := float64(rows) * float64(v); n < 1e6 {
			z, w = make([]float32, rows*v), make([]float32, rowsT*vt)
			for i := range z {
				z[i] = float32(i % 3)
			}
		}
		if a.LenZ != nil {
			z = z[:*a.LenZ]
		}
	}
	b := Batch{Student: F32Matrix(z, rows, v), Teacher: F32Matrix(w, rowsT, vt), Labels: a.Labels}
	if a.ZBits != nil {
		v = len(a.ZBits)
		b.Student, b.Teacher = BF16Matrix(a.ZBits, 1, v), BF16Matrix(a.TBits, 1, v)
	}
	b.Student.Stride, b.Teacher.Stride = num(a.Stride, 0), num(a.Stride, 0)
	for _, f := range a.Weights {
		b.Weights = append(b.Weights, float32(f))
	}
	if a.LenLabels != nil {
		b.Labels = make([]int32, *a.LenLabels)
	}
	if a.LenWeights != nil {
		b.Weights = make([]float32, *a.LenWeights)
	}
	if a.Upstream != nil {
		b.Upstream = new(float64(*a.Upstream))
	}
	n := 0
	if float64(rows)*float64(v) < 1e6 {
		n = rows * v
	}
	out := Output{RowLoss: make([]float64, num(a.LenRowLoss, min(rows, 1<<20))), Grad: make([]float32, n)}
	if c.ID == "alias_overlap" {
		b.Student.F32 = append(b.Student.F32, 0)[:rows*v+1]
		out.Grad = b.Student.F32[1:]
		b.Student.F32 = b.Student.F32[:rows*v]
	}
	st, err := j.Run(&b, &out)
	if err == nil && e.Kind == "poison" && strings.HasPrefix(e.Counter, "nonfinite") {
		if st.NonFinite != 1 {
			return "the row is not counted"
		}
		o.Strict = true
		js, _ := NewJSD(o)
		if _, err := js.Run(&b, &out); err == nil || !strings.Contains(err.Error(), "row 0") {
			return "strict mode does not name the row: " + errText(err)
		}
	}
	return e.judge(t, outcome{err: err, loss: st.Loss, rows: out.RowLoss, grad: out.Grad, stats: st})
}

func (c *badCase) sparse(t *testing.T, path string) outcome {
	a := &c.Args
	o, err := c.options(path)
	if err != nil {
		return outcome{err: err}
	}
	j, err := NewSparseJSD(o, restOf(a.Tail != nil && !*a.Tail))
	if err != nil {
		return outcome{err: err}
	}
	z, rows, v := floats(t, a.Z, []float32{1, 2, 3, 0.5, -1, 1, 2, 3, 0.5, -1})
	if a.Z == nil {
		rows, v = 2, 5
	}
	ids, off := a.Ids, []int{0, len(a.Ids)}
	var lp []float32
	for _, f := range a.Logp {
		lp = append(lp, float32(f))
	}
	if a.Off != nil {
		off = a.Off
		ids, lp = make([]int32, num(a.LenIds, off[len(off)-1])), make([]float32, num(a.LenIds, off[len(off)-1]))
	}
	out := Output{RowLoss: make([]float64, rows), Grad: make([]float32, rows*v)}
	st, err := j.Run(&SparseBatch{Student: F32Matrix(z, rows, v), Teacher: SparseTeacher{off, ids, lp}}, &out)
	return outcome{err, st.Loss, out.RowLoss, out.Grad, st}
}

func (c *badCase) topK(t *testing.T) outcome {
	o, err := c.options("")
	if err != nil {
		return outcome{err: err}
	}
	z, rows, v := floats(t, c.Args.Z, []float32{1, 2, 3, 0.5})
	if len(c.Expect.Ids) > 0 {
		m := F32Matrix(z, rows, v)
		got := newWorker(paths()[0]).topK(&m, 0, min(*c.Args.K, m.Cols))
		for i, id := range c.Expect.Ids {
			if got[i] != id {
				t.Errorf("top-k ids %v, want %v", got, c.Expect.Ids)
			}
		}
	}
	j, err := NewTopKJSD(o, num(c.Args.K, 2), RestBucket)
	if err != nil {
		return outcome{err: err}
	}
	out := Output{RowLoss: make([]float64, rows), Grad: make([]float32, rows*v)}
	st, err := j.Run(&Batch{Student: F32Matrix(z, rows, v), Teacher: F32Matrix(make([]float32, len(z)), rows, v)}, &out)
	return outcome{err, st.Loss, out.RowLoss, out.Grad, st}
}

func (c *badCase) logProb(t *testing.T, path string) outcome {
	a := &c.Args
	l, err := NewLogProb(LogProbOptions{Temperature: 1, Mean: a.Mean != nil && *a.Mean, Path: path})
	if err != nil {
		return outcome{err: err}
	}
	v := 4
	rows := len(a.Targets)
	z := make([]float32, rows*v)
	if a.Z != nil {
		z, rows, v = floats(t, a.Z, nil)
	}
	off := a.Off
	if off == nil {
		off = []int{0, rows}
	}
	out := LogProbOutput{
		Token:    make([]float64, rows),
		Sequence: make([]float64, len(off)-1),
		Count:    make([]int32, len(off)-1),
		Grad:     make([]float32, rows*v),
	}
	st, err := l.Run(&LogProbBatch{Logits: F32Matrix(z, rows, v), Targets: a.Targets, Offsets: off}, &out)
	if err == nil && c.Expect.Count != nil && out.Count[0] != int32(*c.Expect.Count) {
		t.Errorf("count %d, want %d", out.Count[0], *c.Expect.Count)
	}
	return outcome{err, out.Sequence[0], out.Token, out.Grad, st}
}

func (c *badCase) dpo() outcome {
	a := &c.Args
	kind, err := ParsePreference(a.Kind)
	if err != nil {
		return outcome{err: err}
	}
	n := num(a.N, num(a.NPc, 1))
	column := func(f *F, n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = val(f, -1)
		}
		return x
	}
	p := Pairs{column(a.PC, n), column(a.PR, n), column(a.RC, n), column(a.RR, num(a.NRr, n)), nil}
	res := make([]PairResult, n)
	mean, err := DPO(p, PreferenceOptions{
		Kind:           kind,
		Beta:           val(a.Beta, 0.1),
		LabelSmoothing: val(a.LabelSmoothing, 0),
	}, res)
	if err == nil && c.Expect.GPc != nil && math.Abs(res[0].Grad-float64(*c.Expect.GPc)) > 1e-15 {
		return outcome{err: errors.New("wrong gradient")}
	}
	return outcome{err: err, loss: mean}
}
