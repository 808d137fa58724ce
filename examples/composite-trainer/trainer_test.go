// Package trainer_test runs the Python trainer's own tests and has the trainer read what package batch writes.
package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/pythontest"
	"github.com/nat-go/nat-go/ttc/chat"
)

// withTorch returns a Python with torch, safetensors and numpy. If NATGO_REQUIRE names torch and only safetensors is
// missing, as with Debian's python3-torch, it sets up a virtual environment for it in the user's cache. torch itself is
// not downloaded, because the package index's wheel for Linux pulls in gigabytes of CUDA.
func withTorch(t *testing.T) string {
	t.Helper()
	const without = "no python3 with torch, safetensors and numpy; NATGO_REQUIRE=torch makes that a failure"
	return pythontest.Found(t, torch, without)
}

var torches = []string{"python3", "/usr/bin/python3"}

var torch = pythontest.Prepared("torch", "import torch, numpy, safetensors.torch", torches,
	func(env, need string) error {
		base := pythontest.First("import torch, numpy", torches...)
		if base == "" {
			return errors.New("NATGO_REQUIRE names torch, but no python3 has torch and numpy: " +
				"install python3-torch or a CPU build of torch")
		}
		return pythontest.Create(env, need, base, []string{"--system-site-packages"}, "safetensors")
	})

func run(t *testing.T, args ...string) string {
	t.Helper()
	return runWith(t, nil, args...)
}

func runWith(t *testing.T, env []string, args ...string) string {
	t.Helper()
	py := withTorch(t)
	cmd := exec.Command(py, args...)
	cmd.Env = append(append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1",
		pythontest.Package(t, "../..")), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestTrainer runs test_trainer.py, which trains: half a minute, alongside TestOnRuns, as each uses a single core.
func TestTrainer(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("SKIPPED: training takes a minute; run without -short")
	}
	t.Log(run(t, "-m", "unittest", "test_trainer"))
}

// TestReadsBatches checks that the Python reader can verify what package batch writes, and that the losses accept it.
func TestReadsBatches(t *testing.T) {
	for _, layout := range []batch.Layout{batch.Padded, batch.Packed} {
		channels := []*batch.Channel{batch.SFT, batch.DPO, batch.RL, batch.SDPO}
		if layout == batch.Packed {
			channels = channels[:1]
		}
		dir := t.TempDir()
		spool, err := batch.NewSpool(t.TempDir(), batch.Order{})
		if err != nil {
			t.Fatal(err)
		}
		defer spool.Close()
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range 60 {
			c := channels[i%len(channels)]
			r := row(rng, c, i)
			e, err := batch.Encode(c, r)
			if err != nil {
				t.Fatal(err)
			}
			if err := spool.Add(c, batch.Split(0), e); err != nil {
				t.Fatal(err)
			}
		}
		want, err := spool.Write(context.Background(), batch.Spec{
			Dir:       dir,
			Budget:    256,
			Layout:    layout,
			PadID:     0,
			VocabSize: 50,
			Tokenizer: "t",
			Template:  "t",
			Reference: "policy",
		})
		if err != nil {
			t.Fatal(err)
		}
		index, err := batch.ReadIndex(filepath.Join(dir, batch.IndexName))
		if err != nil || len(index) == 0 {
			t.Fatalf("%d batches: %v", len(index), err)
		}
		if testing.Short() { // without Python
			continue
		}
		got := run(t, "-m", "natgo.trl.microbatch", dir)
		for key, n := range want {
			line := fmt.Sprintf(`{"channel": "%s", "batches": %d, "rows": %d, "tokens": %d, "n_active": %d}`, key, n.Batches, n.Rows, n.Tokens, n.Active)
			if !strings.Contains(got, line) {
				t.Errorf("%v: no line %s in\n%s", layout, line, got)
			}
		}
		if out := run(t, "train.py", "--batches", dir, "--steps", "1", "--alpha-sdpo", "1", "--beta-replay", "1"); !strings.Contains(out, `"step": 1`) {
			t.Errorf("%v: %s", layout, out)
		}
		if layout == batch.Padded { // the columns come from another model: only their own fingerprint makes them count
			if out := run(t, "train.py", "--batches", dir, "--steps", "0", "--beta-replay", "1"); !strings.Contains(out, `"loss/trace_replay_dpo": 0.693147`) {
				t.Errorf("reference columns without a fingerprint were used: %s", out)
			}
			if out := run(t, "train.py", "--batches", dir, "--steps", "0", "--beta-replay", "1", "--reference", "policy"); strings.Contains(out, `"loss/trace_replay_dpo": 0.693147`) {
				t.Errorf("reference columns were not used: %s", out)
			}
		}
	}
}

func row(rng *rand.Rand, c *batch.Channel, n int) *batch.Row {
	r := &batch.Row{
		Weight: 1,
		Meta: batch.Meta{
			Record:   fmt.Sprintf("%04x", n),
			Ordinal:  int64(n),
			Example:  fmt.Sprint("e", n),
			Messages: []int{1},
			IDs:      "sampled",
		},
	}
	for range c.Sides {
		s := batch.Side{IDs: make([]int32, 8+rng.IntN(12))}
		for i := range s.IDs {
			s.IDs[i] = rng.Int32N(50)
		}
		s.Trained = []chat.Span{{Start: 1, End: 3}, {Start: 5, End: len(s.IDs)}}
		if c == batch.RL {
			s.LogProbs = make([]float32, s.Active())
			for i := range s.LogProbs {
				s.LogProbs[i] = -rng.Float32() * 8
			}
		}
		r.Sides = append(r.Sides, s)
		r.Meta.Proof = append(r.Meta.Proof, batch.Proof{Text: "t", Target: "x"})
	}
	if c == batch.SDPO {
		splice(r, rng)
	}
	if c == batch.RL {
		r.Meta.RL = &batch.Scored{Reward: 0.5, Group: int64(n % 4), Advantage: rng.Float64() - 0.5}
	}
	if c == batch.DPO {
		r.Meta.Ref = &batch.Ref{Chosen: -10, Rejected: -30}
	}
	return r
}

// splice makes the row's second side the first with a hint inserted, and adds a third side for a second site to every
// other row.
func splice(r *batch.Row, rng *rand.Rand) {
	student := r.Sides[0].IDs
	end := len(student)
	targets := []chat.Span{{Start: 4, End: 6}, {Start: 6, End: end}}
	r.Sides = r.Sides[:1]
	for k, target := range targets[r.Meta.Ordinal%2:] {
		hint := []int32{1, 2, 3}[:1+rng.IntN(3)]
		at := target.Start - 1
		r.Sides = append(r.Sides, batch.Side{IDs: slices.Concat(student[:at], hint, student[at:target.End])})
		r.Meta.Sites = append(r.Meta.Sites, batch.RowSite{
			Site:       k,
			HintSHA256: "h",
			Kind:       "knowable",
			Class:      "schema",
			Source:     "rules",
			Target:     "failed_turn",
			Mode:       "system",
			Teacher:    k,
			At:         int32(at),
			Hint:       int32(len(hint)),
			Pairs:      []chat.Span{target},
		})
	}
	r.TrainSites()
	r.Meta.Proof = make([]batch.Proof, len(r.Sides))
	for i := range r.Meta.Proof {
		r.Meta.Proof[i] = batch.Proof{Text: "t", Target: "x"}
	}
}
