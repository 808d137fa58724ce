package cli

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/kernels"
)

func runLoss(t *testing.T, want int, args ...string) (stdout map[string]any, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := (Program{}).Main(append([]string{"loss"}, args...), strings.NewReader(""), &out, &errs); code != want {
		t.Fatalf("%v: exit code %d, want %d\n%s%s", args, code, want, &out, &errs)
	}
	if want == 0 {
		if err := json.Unmarshal(out.Bytes(), &stdout); err != nil {
			t.Fatalf("%v: %v: %s", args, err, &out)
		}
	}
	return stdout, errs.String()
}

func save(t *testing.T, path string, all ...tensors.Tensor) {
	t.Helper()
	var b bytes.Buffer
	if err := tensors.Write(&b, all, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path, name string) (tensors.Tensor, []float64) {
	t.Helper()
	f, err := openTensors(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	x, err := f.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	v, err := tensors.Floats(x)
	if err != nil {
		t.Fatal(err)
	}
	return x, v
}

func normal(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(2 * r.NormFloat64())
	}
	return x
}

// jsd is the textbook formula, in float64.
func jsd(z, t []float32, beta float64) (loss float64) {
	soft := func(x []float32) []float64 {
		p, sum := make([]float64, len(x)), 0.0
		for i, v := range x {
			p[i] = math.Exp(float64(v))
			sum += p[i]
		}
		for i := range p {
			p[i] /= sum
		}
		return p
	}
	q, p := soft(z), soft(t)
	for i := range q {
		m := (1-beta)*q[i] + beta*p[i]
		loss += beta*p[i]*math.Log(p[i]/m) + (1-beta)*q[i]*math.Log(q[i]/m)
	}
	return loss
}

func TestLossJSD(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.safetensors"), filepath.Join(dir, "out.safetensors")
	r := rand.New(rand.NewPCG(1, 2))
	const rows, v = 4, 50
	z, p, w := normal(r, rows*v), normal(r, rows*v), []float32{1, 2, 3, 4}
	z[2*v] = float32(math.NaN()) // an ignored row is never read
	save(t, in, tensors.Of("student_logits", z, rows, v), tensors.Of("teacher_logits", p, rows, v),
		tensors.Of("weights", w, rows), tensors.Of("labels", []int64{0, 7, -100, 1}, rows))
	link := filepath.Join(dir, "link.safetensors")
	if err := os.Symlink(in, link); err != nil {
		t.Fatal(err)
	}
	for _, over := range []string{in, link} {
		if _, stderr := runLoss(t, 2, "jsd", "--input", in, "--output", over); !strings.Contains(stderr,
			"is also an input") {
			t.Errorf("the input was overwritten: %s", stderr)
		}
	}
	for _, reduction := range []string{"mean", "sum"} {
		t.Run(reduction, func(t *testing.T) {
			totals, _ := runLoss(t, 0, "jsd", "--input", in, "--output", out, "--jsd-beta", "0.3", "--reduction",
				reduction)
			x, loss := read(t, out, "row_loss")
			if x.DType != tensors.Float64 {
				t.Errorf("row_loss is %s", x.DType)
			}
			sum := 0.0
			for i := range rows {
				want := 0.0
				if i != 2 {
					want = jsd(z[i*v:(i+1)*v], p[i*v:(i+1)*v], 0.3)
				}
				if math.Abs(loss[i]-want) > 3e-6*want {
					t.Errorf("row %d: got %g, want %g", i, loss[i], want)
				}
				sum += float64(w[i]) * loss[i]
			}
			if got := totals["loss"].(float64); math.Abs(got-sum/7) > 1e-9 || totals["active"].(float64) != 3 {
				t.Errorf("totals %v, want loss %g", totals, sum/7)
			}
			x, grad := read(t, out, "grad")
			if x.DType != tensors.Float32 || x.Shape[0] != rows || x.Shape[1] != v {
				t.Errorf("grad is %s %v", x.DType, x.Shape)
			}
			const at, h = v + 3, 1e-2
			bump := func(d float32) float64 {
				y := append([]float32{}, z[v:2*v]...)
				y[at-v] += d
				return jsd(y, p[v:2*v], 0.3)
			}
			want := 2 * (bump(h) - bump(-h)) / (2 * h)
			if reduction == "mean" {
				want /= 7
			}
			if math.Abs(grad[at]-want) > 1e-4*math.Abs(want)+1e-6 {
				t.Errorf("%s: gradient %g, finite difference %g", reduction, grad[at], want)
			}
		})
	}
}

// TestLossJSDTopK compares the student's two most probable of four entries, with the rest as one bucket or ignored.
func TestLossJSDTopK(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.safetensors"), filepath.Join(dir, "out.safetensors")
	student, teacher := []float32{2, -1, 0.5, 0}, []float32{1, 1, -0.5, 2} // the student's top two are 0 and 2
	rest := func(x []float32) float32 { return float32(math.Log(math.Exp(float64(x[1])) + math.Exp(float64(x[3])))) }
	buckets := func(x []float32) []float32 { return []float32{x[0], x[2], rest(x)} }
	for _, c := range []struct {
		rest    string
		support func(x []float32) []float32
	}{
		{"bucket", buckets},
		{"renormalise", func(x []float32) []float32 { return buckets(x)[:2] }},
	} {
		t.Run(c.rest, func(t *testing.T) {
			save(t, in, tensors.Of("student_logits", student, 1, 4), tensors.Of("teacher_logits", teacher, 1, 4))
			totals, _ := runLoss(t, 0, "jsd", "--input", in, "--output", out, "--jsd-beta", "0.3", "--top-k", "2",
				"--top-k-rest", c.rest)
			want := jsd(c.support(student), c.support(teacher), 0.3)
			if got := totals["loss"].(float64); math.Abs(got-want) > 1e-6 || totals["path"] != kernels.Paths()[0] {
				t.Errorf("loss %g on path %v, want %g", got, totals["path"], want)
			}
			_, grad := read(t, out, "grad")
			for i := range student {
				const h = 1.0 / 256
				moved := func(by float32) float64 {
					x := slices.Clone(student)
					x[i] += by
					return jsd(c.support(x), c.support(teacher), 0.3)
				}
				if want := (moved(h) - moved(-h)) / (2 * h); math.Abs(grad[i]-want) > 1e-5 {
					t.Errorf("gradient %d is %g, finite difference %g", i, grad[i], want)
				}
			}
		})
	}
}

func TestLossJSDOfBadRows(t *testing.T) {
	in := filepath.Join(t.TempDir(), "in.safetensors")
	nan := float32(math.NaN())
	save(t, in, tensors.Of("student_logits", []float32{0, 1, nan, 0}, 2, 2),
		tensors.Of("teacher_logits", []float32{0, 1, 0, 0}, 2, 2))
	totals, stderr := runLoss(t, 0, "jsd", "--input", in)
	if totals["loss"] != nil || totals["nonfinite_rows"].(float64) != 1 || !strings.Contains(stderr, "row 1") {
		t.Errorf("%v %s", totals, stderr)
	}
	for want, args := range map[string][]string{
		"invalid beta 2":        {"--jsd-beta", "2"},
		"clip mode":             {"--clip", "some"},
		"expected mean or sum":  {"--reduction", "max"},
		"expected none or beta": {"--normalize", "x"},
		"k is -1":               {"--top-k", "-1"},
		"cannot use rest renormalise without a top-k": {"--top-k-rest", "renormalise"},
		"unknown rest":       {"--top-k", "1", "--top-k-rest", "x"},
		"no such file":       {"--input", in + "x"},
		"not a regular file": {"--input", filepath.Dir(in)},
	} {
		t.Run(want, func(t *testing.T) {
			if _, stderr := runLoss(t, 2, append([]string{"jsd", "--input", in}, args...)...); !strings.Contains(stderr,
				want) {
				t.Errorf("%v: %s", args, stderr)
			}
		})
	}
	for want, all := range map[string][]tensors.Tensor{
		"missing tensor teacher_logits": {tensors.Of("student_logits", []float32{1}, 1, 1)},
		"F32, BF16 or F16": {
			tensors.Of("student_logits", []float64{1}, 1, 1),
			tensors.Of("teacher_logits", []float64{1}, 1, 1),
		},
		"got shape [1], expected 2 dimensions": {
			tensors.Of("student_logits", []float32{1}, 1),
			tensors.Of("teacher_logits", []float32{1}, 1, 1),
		},
		"rows": {tensors.Of("student_logits", []float32{1}, 1, 1), tensors.Of("teacher_logits", []float32{1, 2}, 2, 1)},
	} {
		t.Run(want, func(t *testing.T) {
			save(t, in, all...)
			if _, stderr := runLoss(t, 2, "jsd", "--input", in); !strings.Contains(stderr, want) {
				t.Errorf("%s: %s", want, stderr)
			}
		})
	}
}

// TestLossComposite compares the gradient of a step of three batches with finite differences of the command's own loss.
func TestLossComposite(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	r := rand.New(rand.NewPCG(3, 4))
	const v = 7
	ids := func(n int) []int64 {
		x := make([]int64, n)
		for i := range x {
			x[i] = int64(r.IntN(v))
		}
		return x
	}
	grid := ids(6)
	save(t, at("rl"), tensors.Of("input_ids", grid, 2, 3), tensors.Of("response_mask", []int64{0, 1, 1, 0, 1, 0}, 2, 3),
		tensors.Of("old_logprobs", []float32{0, -1, -2, 0, -3, 0}, 2, 3),
		tensors.Of("advantage", []float32{1, -1}, 2), tensors.Of("row_weight", []float32{1, 0.5}, 2),
		tensors.Of("reward_null", []int64{0, 0}, 2))
	save(t, at("rl.logits"), tensors.Of("logits", normal(r, 6*v), 2, 3, v))
	c, j := ids(4), ids(4)
	// Of another ignore_index.
	save(t, at("dpo"), tensors.Of("chosen_input_ids", c, 1, 4), tensors.Of("rejected_input_ids", j, 1, 4),
		tensors.Of("chosen_labels", append([]int64{-1, -100}, c[2:]...), 1, 4),
		tensors.Of("rejected_labels", append([]int64{-100, -100}, j[2:]...), 1, 4),
		tensors.Of("row_weight", []float32{1}, 1))
	save(t, at("dpo.logits"), tensors.Of("chosen_logits", normal(r, 4*v), 1, 4, v),
		tensors.Of("rejected_logits", normal(r, 4*v), 1, 4, v),
		tensors.Of("ref_chosen_logps", []float32{-3}, 1), tensors.Of("ref_rejected_logps", []float32{-4}, 1))
	student, teacher := []int64{0, 1, 2, 3}, []int64{0, 5, 1, 2, 3}
	pairs := []tensors.Tensor{
		tensors.Of("student_input_ids", student, 1, 4), tensors.Of("teacher_input_ids", teacher, 1, 5),
		tensors.Of("pair_student_row", []int64{0, 0}, 2), tensors.Of("pair_student_pos", []int64{1, 2}, 2),
		tensors.Of("pair_teacher_row", []int64{0, 0}, 2),
		tensors.Of("pair_teacher_pos", []int64{2, 3}, 2), tensors.Of("pair_target_id", []int64{2, 3}, 2),
		tensors.Of("pair_weight", []float32{1, 0.5}, 2),
	}
	save(t, at("sdpo"), pairs...)
	z := normal(r, 4*v)
	p := normal(r, 5*v)
	save(t, at("sdpo.logits"), tensors.Of("student_logits", z, 1, 4, v), tensors.Of("teacher_logits", p, 1, 5, v))

	args := []string{
		"composite", "--output", at("grads"), "--alpha-sdpo", "0.7", "--beta-replay", "0.3", "--clip-epsilon", "0",
	}
	for _, name := range []string{"rl", "dpo", "sdpo"} {
		args = append(args, "--batch", at(name), "--logits", at(name+".logits"))
	}
	m, _ := runLoss(t, 0, args...)
	num := func(name string) float64 { return m[name].(float64) }
	total := num("loss/grpo") + 0.7*num("loss/sdpo_kl") + 0.3*num("loss/trace_replay_dpo")
	if math.Abs(num("loss/total")-total) > 1e-12 {
		t.Errorf("loss %v", m)
	}
	want := (jsd(z[v:2*v], p[2*v:3*v], 0.5) + 0.5*jsd(z[2*v:3*v], p[3*v:4*v], 0.5)) / 1.5
	if math.Abs(num("loss/sdpo_kl")-want) > 1e-6*want {
		t.Errorf("jsd %g, want %g", num("loss/sdpo_kl"), want)
	}
	x, g := read(t, at("grads"), "3.student_logits_grad")
	if len(x.Shape) != 3 || g[0] != 0 || g[v] == 0 || g[3*v] != 0 {
		t.Errorf("gradient of shape %v: %v", x.Shape, g)
	}
	read(t, at("grads"), "1.logits_grad")
	read(t, at("grads"), "2.rejected_logits_grad")

	// Logits at the pair positions give the same result as whole rows, and so does a teacher's whole vocabulary as
	// top-k.
	save(t, at("pairs.logits"), tensors.Of("student_logits", z[v:3*v], 2, v),
		tensors.Of("teacher_logits", p[2*v:4*v], 2, v))
	one, stderr := runLoss(t, 0, "composite", "--batch", at("sdpo"), "--logits", at("pairs.logits"))
	if one["loss/total"] != 0.0 || !strings.Contains(stderr, "loss/sdpo_kl has weight 0") {
		t.Errorf("without weights: %v, %s", one, stderr)
	}
	if math.Abs(one["loss/sdpo_kl"].(float64)-num("loss/sdpo_kl")) > 1e-6*want {
		t.Errorf("at the pair positions %v, of whole rows %v", one["loss/sdpo_kl"], m["loss/sdpo_kl"])
	}
	var topIDs []int64
	var topLogps []float32
	for _, row := range [][]float32{p[2*v : 3*v], p[3*v : 4*v]} {
		sum := 0.0
		for _, x := range row {
			sum += math.Exp(float64(x))
		}
		for i, x := range row {
			topIDs, topLogps = append(topIDs, int64(i)), append(topLogps, x-float32(math.Log(sum)))
		}
	}
	topIDs, topLogps = append(topIDs, -1, -1), append(topLogps, float32(math.Inf(-1)), float32(math.Inf(-1)))
	save(t, at("topk.logits"), tensors.Of("student_logits", z, 1, 4, v),
		tensors.Of("pair_teacher_topk_ids", topIDs[:2*v], 2, v),
		tensors.Of("pair_teacher_topk_logprobs", topLogps[:2*v], 2, v))
	save(t, at("topk2.logits"), tensors.Of("student_logits", z, 1, 4, v),
		tensors.Of("pair_teacher_topk_ids", topIDs[:2*v], 2, v),
		tensors.Of("pair_teacher_topk_logprobs", topLogps[:2*v], 2, v),
		tensors.Of("pair_teacher_temperature", []float32{2}, 1))
	runLoss(t, 0, "composite", "--batch", at("sdpo"), "--logits", at("topk2.logits"), "--temperature", "2")
	one, _ = runLoss(t, 0, "composite", "--batch", at("sdpo"), "--logits", at("topk.logits"))
	if got := one["loss/sdpo_kl"].(float64); math.Abs(got-want) > 1e-5*want {
		t.Errorf("of top log-probs %g, want %g", got, want)
	}

	save(t, at("noref"), tensors.Of("chosen_logits", normal(r, 4*v), 1, 4, v),
		tensors.Of("rejected_logits", normal(r, 4*v), 1, 4, v))
	pairs[3] = tensors.Of("pair_student_pos", []int64{0, 2}, 2)
	save(t, at("wrong"), pairs...)
	for want, args := range map[string][]string{
		"each batch needs its own logits":             {"--batch", at("rl"), "--batch", at("dpo"), "--logits", at("rl.logits")},
		"missing tensor logits":                       {"--batch", at("rl"), "--logits", at("dpo.logits")},
		"zeros are not":                               {"--batch", at("dpo"), "--logits", at("noref")},
		"not the target id":                           {"--batch", at("wrong"), "--logits", at("sdpo.logits")},
		"expected an rl, dpo or sdpo batch":           {"--batch", at("rl.logits"), "--logits", at("rl.logits")},
		"taken at temperature 1, with a student at 2": {"--batch", at("sdpo"), "--logits", at("topk.logits"), "--temperature", "2"},
		"taken at temperature 2, with a student at 1": {"--batch", at("sdpo"), "--logits", at("topk2.logits")},
		"max-tokens":                                  {"--batch", at("rl"), "--logits", at("rl.logits"), "--reduction", "constant"},
	} {
		t.Run(want, func(t *testing.T) {
			if _, stderr := runLoss(t, 2, append([]string{"composite"}, args...)...); !strings.Contains(stderr, want) {
				t.Errorf("%v: %s", args, stderr)
			}
		})
	}
}
