//go:build tokenizers

package rows

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/teacher"
	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/kernels"
)

// TestDemoEffects runs the last step of `make demo`. The divergences in the batch, which the assembly kernel computed,
// are the ones that float64 gives for the same program's logits: a broken kernel fails here.
func TestDemoEffects(t *testing.T) {
	work := t.TempDir()
	if err := os.CopyFS(work, os.DirFS(filepath.Join("..", "..", "..", "..", "..", "examples"))); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(work, "hints-logits")
	toy := filepath.Join(dir, "out", "logits-scorer")
	if out, err := exec.Command("go", "build", "-o", toy,
		"../../../../../examples/logits-scorer").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	natgo := func(args ...string) string {
		cmd := exec.Command(e2e.Program(t), args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "NO_COLOR=1")
		r := e2e.Finish(t, cmd)
		if r.Code != 0 {
			t.Fatalf("%v: exit %d: %s\n%s", args, r.Code, r.Stdout, r.Stderr)
		}
		return r.Stdout
	}
	natgo("finetune", "run", "--config_file", "finetune.yml", "--run-id", "r")
	run := filepath.Join(dir, "out", "r")
	lines, err := batch.ReadIndex(filepath.Join(run, "batches", batch.IndexName))
	if err != nil || len(lines) != 1 || len(lines[0].Sites) != 4 {
		t.Fatalf("%d batches, %v", len(lines), err)
	}
	file, err := tensors.OpenFile(filepath.Join(run, "batches", filepath.FromSlash(lines[0].File)))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all, err := file.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	checkEffects(t, []string{toy, "-vocab", "704"}, all, lines[0].Sites)

	var m struct {
		Batches struct{ Teacher teacher.Report }
	}
	text, err := os.ReadFile(filepath.Join(run, "manifest.json"))
	if err != nil || json.Unmarshal(text, &m) != nil {
		t.Fatal(err)
	}
	if w := m.Batches.Teacher.Weighed; w == nil || w.Kernel.Calls < 1 || w.Kernel.Rows < 50 || w.Kernel.Seconds <= 0 ||
		w.Sites != 4 ||
		w.Scorer.Starts != 1 {
		t.Errorf("the manifest says %+v", w)
	}
	for want, args := range map[string][]string{
		"hints' effect on the predictions (JSD)": {"dataset", "stats", "out/r"},
		"the hint moves the predictions by":      {"dataset", "show", "out/r", "--site", "1"},
		`"jsd_lower"`:                            {"dataset", "show", "out/r", "--site", "1", "--json"},
		"sound":                                  {"dataset", "verify", "out/r"},
	} {
		t.Run(want, func(t *testing.T) {
			if out := natgo(args...); !strings.Contains(out, want) {
				t.Errorf("%v has no %q:\n%s", args, want, out)
			}
		})
	}
}

// checkEffects has the program compute the logits of a batch again and compares their divergences, in float64, with
// those in the batch.
func checkEffects(t *testing.T, command []string, all []tensors.Tensor, sites []batch.Site) {
	t.Helper()
	p, err := teacher.ReadPairs(all)
	if err != nil {
		t.Fatal(err)
	}
	var got []float32
	for _, x := range all {
		if x.Name == batch.PairJSD {
			got, err = tensors.Items[float32](x)
		}
	}
	if err != nil || len(got) != p.Len() {
		t.Fatalf("%d divergences for %d pairs, %v", len(got), p.Len(), err)
	}
	s, err := teacher.NewScorer(teacher.ScorerOptions{Command: command, Assume: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sums, n := make([]float64, len(sites)), make([]float64, len(sites))
	for i := range got {
		data, err := s.Score(t.Context(), []teacher.ScorerSequence{
			{IDs: p.Student[p.StudentRow[i]], Positions: []int32{int32(p.StudentPos[i])}},
			{IDs: p.Teacher[p.TeacherRow[i]], Positions: []int32{int32(p.TeacherPos[i])}},
		})
		if err != nil {
			t.Fatal(err)
		}
		logits := make([]float64, len(data)/4)
		for k := range logits {
			logits[k] = float64(math.Float32frombits(binary.NativeEndian.Uint32(data[4*k:])))
		}
		half := len(logits) / 2
		want := kernels.ReferenceJSD(logits[:half], logits[half:], kernels.Options{Beta: 0.5, Temperature: 1}, nil)
		if math.Abs(float64(got[i])-want) > 1e-6*(1+want) {
			t.Errorf("pair %d: divergence %g, in float64 %g", i, got[i], want)
		}
		sums[p.Site[i]] += want
		n[p.Site[i]]++
	}
	for i, s := range sites {
		if e := s.Effect; e == nil || math.Abs(e.Lower-sums[i]/n[i]) > 1e-6 {
			t.Errorf("site %d: %+v, in float64 %g", i, e, sums[i]/n[i])
		}
	}
}
