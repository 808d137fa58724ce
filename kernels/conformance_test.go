package kernels

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/oracletest"
)

func loadSuite(t testing.TB, name string) *Suite {
	dir := oracletest.Path(t, "kernels")
	s, err := Load(dir, name)
	if os.IsNotExist(err) {
		t.Skipf("suite %s is not in %s", name, dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// gate is a path's allowed error: |err| <= rel*ref + abs for losses, gradRel*max|g| + 1e-12 for gradients.
type gate struct{ rel, abs, gradRel float64 }

func gateOf(string) gate {
	return gate{3e-6, 1e-11, 5e-6} // the table form needs no wider gate on any path
}

// far reports whether got is outside the gate of want. Values beyond float32 count as infinite, to within the gate.
func (g gate) far(got, want float64) bool {
	if math.IsNaN(want) {
		return !math.IsNaN(got)
	}
	if got == want {
		return false
	}
	if want > math.MaxFloat32 {
		return !(got > math.MaxFloat32*(1-g.rel))
	}
	return !(math.Abs(got-want) <= g.rel*math.Abs(want)+g.abs)
}

// tally groups failures by category, so that a broken path reports kinds of failures, not thousands of rows.
type tally struct {
	n    map[string]int
	rows int
}

func (c *tally) fail(t testing.TB, kind, format string, args ...any) {
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[kind]++
	if c.n[kind] == 1 {
		t.Errorf(kind+": "+format, args...)
	}
}

func (c *tally) report(t testing.TB) {
	for k, n := range c.n {
		t.Errorf("%s: %d failures", k, n)
	}
}

func optionsOf(t testing.TB, c *Case, path string) Options {
	clip, err := ParseClip(c.Clip)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Beta: c.Beta, Temperature: c.Tau, Clip: clip, ClipValue: c.C, Normalize: c.Norm == "beta", Path: path}
	if c.Red != "" {
		if o.Reduction, err = reductionOf(c.Red); err != nil {
			t.Fatal(err)
		}
		if o.Reduction == ReduceDenom {
			o.Denominator = c.Denom
		}
	}
	return o
}

// reductionOf converts the oracle's name for a reduction.
func reductionOf(name string) (Reduction, error) {
	r := slices.Index([]string{"sum", "batchmean", "mean", "denom"}, name)
	if r < 0 {
		return 0, fail(CodeDenominator, "unknown reduction %q", name)
	}
	return Reduction(r), nil
}

func restOf(renormalised bool) Rest {
	if renormalised {
		return RestRenormalise
	}
	return RestBucket
}

// inputOf returns both sides of an input as matrices.
func inputOf(t testing.TB, s *Suite, in *Input) (z, w Matrix) {
	half := func(x []uint16) Matrix {
		if in.Dtype == "bf16" {
			return BF16Matrix(x, in.Rows, in.V)
		}
		return F16Matrix(x, in.Rows, in.V)
	}
	if in.Gen != nil {
		a, b := in.Gen.Make(in.Rows, in.V)
		switch in.Dtype {
		case "bf16":
			z, w = half(BF16(a)), half(BF16(b))
		case "f16":
			z, w = half(F16(a)), half(F16(b))
		default:
			z, w = F32Matrix(a, in.Rows, in.V), F32Matrix(b, in.Rows, in.V)
		}
		if got := crc(z); got != in.CrcZ {
			t.Fatalf("%s: generated student has crc %08x, want %08x", in.Name, got, in.CrcZ)
		}
		if got := crc(w); got != in.CrcT {
			t.Fatalf("%s: generated teacher has crc %08x, want %08x", in.Name, got, in.CrcT)
		}
		return z, w
	}
	if in.Dtype == "f32" {
		z = F32Matrix(s.F32(in.Z), in.Rows, in.V)
		if in.T != nil {
			w = F32Matrix(s.F32(in.T), in.Rows, in.V)
		}
		return z, w
	}
	return half(s.U16(in.Z)), half(s.U16(in.T))
}

func crc(m Matrix) uint32 {
	h := crc32.NewIEEE()
	if m.DType == Float32 {
		_ = binary.Write(h, binary.LittleEndian, m.F32)
	} else {
		_ = binary.Write(h, binary.LittleEndian, m.U16)
	}
	return h.Sum32()
}

// exactZero lists the kinds of rows whose loss is exactly 0.
var exactZero = map[string]bool{"identical": true, "shift_exact": true, "const": true}

func checkGrad(t testing.TB, tl *tally, g gate, where, kind string, got []float32, want []float64) {
	top := 0.0
	for _, v := range want {
		top = max(top, math.Abs(v))
	}
	for i, v := range want {
		x := float64(got[i])
		if math.IsNaN(v) {
			continue
		}
		if !(math.Abs(x-v) <= g.gradRel*top+1e-12) {
			tl.fail(t, kind+" grad", "%s entry %d: got %g want %g (max %g)", where, i, x, v, top)
			return
		}
	}
}

// gradSums returns the six checksums of a gradient that the recorded answers have.
func gradSums(g []float32) (s [6]float64) {
	for j, v := range g {
		x := float64(v)
		s[0] += x
		s[1] += math.Abs(x)
		s[2] += x * x
		s[4] += x * float64(j%97+1)
		if a := math.Abs(x); a > s[3] {
			s[3], s[5] = a, float64(j)
		}
	}
	return s
}

func forPaths(t *testing.T, f func(t *testing.T, path string)) {
	for _, p := range Paths() {
		t.Run(p, func(t *testing.T) { f(t, p) })
	}
}

func TestGoldenDense(t *testing.T) {
	forPaths(t, func(t *testing.T, path string) {
		for _, name := range []string{"dense_f32", "clip_f32", "dense_bf16", "dense_f16", "large"} {
			t.Run(name, func(t *testing.T) { goldenDense(t, loadSuite(t, name), path) })
		}
	})
}

func goldenDense(t *testing.T, s *Suite, path string) {
	g := gateOf(path)
	var tl tally
	var in *Input
	var z, w Matrix
	skip := func(in *Input) bool { return testing.Short() && in.V > 10000 }
	for i := range s.Cases {
		c := &s.Cases[i]
		if in == nil || in.Name != c.In {
			in = s.Input(c.In)
			if !skip(in) {
				z, w = inputOf(t, s, in)
			}
		}
		if skip(in) {
			continue
		}
		o := optionsOf(t, c, path)
		o.Reduction = ReduceSum
		j, err := cachedJSD(o)
		if err != nil {
			t.Fatal(err)
		}
		if in.V > 10000 && j.exact && path != Paths()[0] {
			continue // the float64 path's code doesn't depend on the chosen path
		}
		out := Output{
			RowLoss:    make([]float64, in.Rows),
			StudentLSE: make([]float64, in.Rows),
			TeacherLSE: make([]float64, in.Rows),
			Clipped:    make([]int32, in.Rows),
			Grad:       make([]float32, in.Rows*in.V),
		}
		if _, err := j.Run(&Batch{Student: z, Teacher: w}, &out); err != nil {
			t.Fatal(err)
		}
		fwd := Output{RowLoss: out.RowLoss}
		if !j.exact { // for exact ones the gradient doesn't change the loss
			fwd.RowLoss = make([]float64, in.Rows)
			if _, err := j.Run(&Batch{Student: z, Teacher: w}, &fwd); err != nil {
				t.Fatal(err)
			}
		}
		want, lz, lt := s.F64(c.RowLoss), s.F64(c.LseZ), s.F64(c.LseT)
		for r := range in.Rows {
			kind := in.RowKind[r]
			where := c.ID + " " + c.In
			for _, got := range []float64{out.RowLoss[r], fwd.RowLoss[r]} {
				if g.far(got, want[r]) {
					tl.fail(t, kind, "%s beta %g tau %g clip %s: loss %g want %g (rel %g)", where, c.Beta, c.Tau,
						c.Clip, got, want[r], got/want[r]-1)
				}
				if got < 0 && want[r] >= 0 {
					tl.fail(t, kind+" negative", "%s: %g", where, got)
				}
				if (exactZero[kind] || in.V == 1) && want[r] == 0 && got != 0 {
					tl.fail(t, kind+" nonzero", "%s beta %g tau %g: %g", where, c.Beta, c.Tau, got)
				}
			}
			if g.far(out.StudentLSE[r], lz[r]) && math.Abs(out.StudentLSE[r]-lz[r]) > 1e-5 {
				tl.fail(t, kind+" lse", "%s: student %g want %g", where, out.StudentLSE[r], lz[r])
			}
			if g.far(out.TeacherLSE[r], lt[r]) && math.Abs(out.TeacherLSE[r]-lt[r]) > 1e-5 {
				tl.fail(t, kind+" lse", "%s: teacher %g want %g", where, out.TeacherLSE[r], lt[r])
			}
			grad := out.Grad[r*in.V : (r+1)*in.V]
			if math.IsInf(want[r], 1) {
				continue
			}
			if c.Grad != nil {
				checkGrad(t, &tl, g, where+" clip "+c.Clip, kind, grad, s.F64(c.Grad)[r*in.V:(r+1)*in.V])
			} else {
				ws, got := s.F64(c.Gsum)[6*r:6*r+6], gradSums(grad)
				for q, tol := range []float64{1e-5, 1e-5, 1e-5, 1e-5, 97e-5} {
					scale := ws[1]
					if q == 2 {
						scale = ws[2]
					}
					if q == 3 {
						scale = ws[3]
					}
					floor := 1e-11
					if q == 4 {
						floor = 97e-11
					}
					if !(math.Abs(got[q]-ws[q]) <= tol*scale+floor) {
						tl.fail(t, kind+" gsum", "%s beta %g: sum %d is %g want %g (sum|g| %g)", where, c.Beta, q,
							got[q], ws[q], ws[1])
					}
				}
				idx, samp := s.I32(in.SampleIdx), s.F64(c.Gsamp)
				for q, ix := range idx {
					if v := samp[r*len(idx)+q]; !(math.Abs(float64(grad[ix])-v) <= g.gradRel*ws[3]+1e-12) {
						tl.fail(t, kind+" gsamp", "%s beta %g clip %s: entry %d is %g want %g (max %g)", where, c.Beta,
							c.Clip, ix, grad[ix], v, ws[3])
					}
				}
			}
			for jx := range in.V { // the gradient of masked entries is exactly 0
				if math.IsInf(z.At(r, jx), -1) && grad[jx] != 0 {
					tl.fail(t, kind+" masked", "%s: entry %d has gradient %g", where, jx, grad[jx])
					break
				}
			}
		}
		tl.rows += in.Rows
	}
	tl.report(t)
}

// jsdCache keeps one JSD for each set of options: fitting tables would dominate these tests.
var jsdCache = map[Options]*JSD{}

func cachedJSD(o Options) (*JSD, error) {
	if j := jsdCache[o]; j != nil {
		return j, nil
	}
	j, err := NewJSD(o)
	if err == nil {
		jsdCache[o] = j
	}
	return j, err
}

func TestGoldenReduce(t *testing.T) {
	forPaths(t, func(t *testing.T, path string) {
		s, g := loadSuite(t, "reduce"), gateOf(path)
		var tl tally
		for i := range s.Cases {
			c := &s.Cases[i]
			in := s.Input(c.In)
			z, w := inputOf(t, s, in)
			b := Batch{Student: z, Teacher: w}
			if in.Labels != nil {
				b.Labels = s.I32(in.Labels)
			}
			if in.Weights != nil {
				b.Weights = s.F32(in.Weights)
			}
			j, err := cachedJSD(optionsOf(t, c, path))
			if err != nil {
				t.Fatal(err)
			}
			out := Output{RowLoss: make([]float64, in.Rows), Grad: make([]float32, in.Rows*in.V)}
			st, err := j.Run(&b, &out)
			if err != nil {
				t.Fatal(err)
			}
			var loss F
			if err := loss.UnmarshalJSON(c.Loss); err != nil {
				t.Fatal(err)
			}
			if g.far(st.Loss, float64(loss)) {
				tl.fail(t, "loss", "%s: %g want %g", c.ID, st.Loss, float64(loss))
			}
			if st.Active != c.NActive {
				tl.fail(t, "active", "%s: %d want %d", c.ID, st.Active, c.NActive)
			}
			for r, want := range s.F64(c.RowLoss) {
				if g.far(out.RowLoss[r], want) {
					tl.fail(t, "row", "%s row %d: %g want %g", c.ID, r, out.RowLoss[r], want)
				}
			}
			want := s.F64(c.Grad)
			for r := range in.Rows {
				row := want[r*in.V : (r+1)*in.V]
				checkGrad(t, &tl, g, c.ID, "row", out.Grad[r*in.V:(r+1)*in.V], row)
				if b.Labels != nil && b.Labels[r] == IgnoreIndex {
					for _, x := range out.Grad[r*in.V : (r+1)*in.V] {
						if x != 0 {
							tl.fail(t, "ignored", "%s row %d has gradient %g", c.ID, r, x)
							break
						}
					}
				}
			}
		}
		tl.report(t)
	})
}

func TestGoldenSparse(t *testing.T) {
	forPaths(t, func(t *testing.T, path string) { goldenSparse(t, loadSuite(t, "sparse"), path) })
}

func goldenSparse(t *testing.T, s *Suite, path string) {
	var tl tally
	for i := range s.Cases {
		c := &s.Cases[i]
		in := s.Input(c.In)
		z, w := inputOf(t, s, in)
		o := optionsOf(t, c, path)
		g := gateOf(path)
		g.rel = 1.5e-6
		if in.V <= maxExactEntries {
			g.rel, g.abs = 1e-11, 1e-14 // both sides are summed in float64
		}
		o.Reduction = ReduceSum
		out := Output{
			RowLoss:    make([]float64, in.Rows),
			StudentLSE: make([]float64, in.Rows),
			Grad:       make([]float32, in.Rows*in.V),
		}
		rest := restOf(strings.HasSuffix(c.Mode, "_renorm"))
		var err error
		if strings.HasPrefix(c.Mode, "teacher") {
			off := []int{}
			for _, v := range s.I32(in.Off) {
				off = append(off, int(v))
			}
			j, e := NewSparseJSD(o, rest)
			if e != nil {
				t.Fatal(e)
			}
			_, err = j.Run(&SparseBatch{Student: z, Teacher: SparseTeacher{off, s.I32(in.Ids), s.F32(in.Logp)}}, &out)
		} else {
			j, e := NewTopKJSD(o, c.K, rest)
			if e != nil {
				t.Fatal(e)
			}
			_, err = j.Run(&Batch{Student: z, Teacher: w}, &out)
		}
		want := s.F64(c.RowLoss)
		if err != nil {
			bad := false
			for _, v := range want {
				bad = bad || math.IsNaN(v)
			}
			if !bad {
				tl.fail(t, c.Mode+" error", "%s: %v", c.ID, err)
			}
			continue
		}
		for r, v := range want {
			if g.far(out.RowLoss[r], v) {
				tl.fail(t, c.Mode, "%s %s row %d beta %g clip %s: %g want %g", c.ID, c.In, r, c.Beta, c.Clip,
					out.RowLoss[r], v)
			}
			if c.Grad != nil && !math.IsInf(v, 1) {
				checkGrad(t, &tl, g, c.ID, c.Mode, out.Grad[r*in.V:(r+1)*in.V], s.F64(c.Grad)[r*in.V:(r+1)*in.V])
			}
			if c.Gsum != nil && !math.IsInf(v, 1) && !math.IsNaN(v) {
				ws, got := s.F64(c.Gsum)[6*r:6*r+6], gradSums(out.Grad[r*in.V:(r+1)*in.V])
				if math.Abs(got[1]-ws[1]) > 1e-5*ws[1]+1e-12 || math.Abs(got[4]-ws[4]) > 1e-3*ws[1]+1e-12 {
					tl.fail(t, c.Mode+" gsum", "%s row %d: %v want %v", c.ID, r, got, ws)
				}
			}
		}
	}
	tl.report(t)
}

func TestGoldenLogProb(t *testing.T) {
	forPaths(t, func(t *testing.T, path string) {
		s, g := loadSuite(t, "seqlp"), gateOf(path)
		var tl tally
		for i := range s.Cases {
			c := &s.Cases[i]
			in := s.Input(c.In)
			z, _ := inputOf(t, s, in)
			off := []int{}
			for _, v := range s.I32(in.Off) {
				off = append(off, int(v))
			}
			l, err := NewLogProb(LogProbOptions{Temperature: c.Tau, Mean: string(c.Mean) == "true", Path: path})
			if err != nil {
				t.Fatal(err)
			}
			seqs := len(off) - 1
			out := LogProbOutput{
				Token:    make([]float64, in.Rows),
				Sequence: make([]float64, seqs),
				Count:    make([]int32, seqs),
				Grad:     make([]float32, in.Rows*in.V),
			}
			if _, err := l.Run(&LogProbBatch{
				Logits:   z,
				Targets:  s.I32(in.Targets),
				Offsets:  off,
				Upstream: s.F64(in.Up),
			}, &out); err != nil {
				t.Fatal(err)
			}
			kind := func(r int) string {
				if r < len(in.RowKind) {
					return in.RowKind[r]
				}
				return "row"
			}
			for r, v := range s.F64(c.Tok) {
				if g.far(out.Token[r], v) {
					tl.fail(t, "tok "+kind(r), "%s %s row %d: %g want %g", c.ID, c.In, r, out.Token[r], v)
				}
				if c.Grad != nil {
					checkGrad(t, &tl, g, c.ID, kind(r), out.Grad[r*in.V:(r+1)*in.V], s.F64(c.Grad)[r*in.V:(r+1)*in.V])
				}
			}
			for q, v := range s.F64(c.Seq) {
				if g.far(out.Sequence[q], v) {
					tl.fail(t, "seq", "%s: %g want %g", c.ID, out.Sequence[q], v)
				}
				if out.Count[q] != s.I32(c.Count)[q] {
					tl.fail(t, "count", "%s: %d want %d", c.ID, out.Count[q], s.I32(c.Count)[q])
				}
			}
		}
		tl.report(t)
	})
}

func TestGoldenDPO(t *testing.T) {
	s := loadSuite(t, "dpo")
	g := gate{1e-12, 1e-14, 0}
	var tl tally
	for i := range s.Cases {
		c := &s.Cases[i]
		in := s.Input(c.In)
		kind, err := ParsePreference(c.Kind)
		if err != nil {
			t.Fatal(err)
		}
		p := Pairs{
			PolicyChosen:      s.F64(in.PC),
			PolicyRejected:    s.F64(in.PR),
			ReferenceChosen:   s.F64(in.RC),
			ReferenceRejected: s.F64(in.RR),
		}
		if c.Weighted {
			p.Weights = s.F64(in.Weights)
		}
		out := make([]PairResult, in.N)
		mean, err := DPO(p, PreferenceOptions{Kind: kind, Beta: c.Beta, LabelSmoothing: c.LabelSmoothing}, out)
		if err != nil {
			t.Fatal(err)
		}
		var want F
		if err := want.UnmarshalJSON(c.Mean); err != nil {
			t.Fatal(err)
		}
		if g.far(mean, float64(want)) {
			tl.fail(t, "mean", "%s: %g want %g", c.ID, mean, want)
		}
		for q := range out {
			for _, f := range []struct {
				name      string
				got, want float64
			}{
				{"loss", out[q].Loss, pairLoss(t, s, c)[q]},
				{"grad", out[q].Grad, s.F64(c.GPc)[q]},
				{"margin", out[q].Margin, s.F64(c.Margin)[q]},
				{"chosen", out[q].RewardChosen, s.F64(c.RewardC)[q]},
				{"rejected", out[q].RewardRejected, s.F64(c.RewardR)[q]},
			} {
				if g.far(f.got, f.want) {
					tl.fail(t, f.name, "%s pair %d: %g want %g", c.ID, q, f.got, f.want)
				}
			}
		}
	}
	tl.report(t)
}

// pairLoss reads "loss", which is an array in this suite and a number in others.
func pairLoss(t testing.TB, s *Suite, c *Case) []float64 {
	var a Arr
	if err := json.Unmarshal(c.Loss, &a); err != nil {
		t.Fatal(err)
	}
	return s.F64(&a)
}
