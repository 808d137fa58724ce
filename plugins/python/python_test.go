// Package python_test runs the Python package's own tests on batches that package batch writes.
package python_test

import (
	"context"
	"encoding/json"
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
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/pythontest"
	"github.com/nat-go/nat-go/ttc/chat"
)

// needs is what the tests import; torch is used if it is installed.
const needs = "import numpy, pytest, safetensors"

func TestPackage(t *testing.T) {
	pythontest.Long(t, "the Python package was not tested")
	python, err := exec.LookPath("python3")
	if err == nil {
		err = exec.Command(python, "-c", needs).Run()
	}
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("NATGO_REQUIRE"), ","), "python") {
			t.Fatalf("NATGO_REQUIRE names python, and python3 -c %q fails: %v", needs, err)
		}
		t.Skipf("SKIPPED: python3 -c %q fails (%v), so the Python package was not tested; "+
			"NATGO_REQUIRE=python makes that a failure", needs, err)
	}
	// The tests in tests/trl belong to TestTRL.
	cmd := exec.Command(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", "--ignore=tests/trl")
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=.", "HF_HOME="+t.TempDir(),
		"NATGO_TEST_BATCHES="+writeBatches(t), "NATGO_TEST_PROGRAM="+program(t))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}

// program builds nat-go if this is a build with the tokenizer; otherwise it is empty, and whatever needs it is skipped.
func program(t *testing.T) string {
	t.Helper()
	if _, err := tokenizer.Load("../../examples/hints/tokenizer"); errors.Is(err, tokenizer.ErrUnavailable) {
		return ""
	}
	path := filepath.Join(t.TempDir(), "nat-go")
	build := exec.Command("go", "build", "-tags", "tokenizers,grpcnotrace,validator_novalidatefn", "-o", path,
		"../../cmd/nat-go")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// writeBatches writes some batches of two channels and returns their folder.
func writeBatches(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	spool, err := batch.NewSpool(t.TempDir(), batch.Order{})
	if err != nil {
		t.Fatal(err)
	}
	defer spool.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 90 {
		channel := []*batch.Channel{batch.SFT, batch.DPO}[i%2]
		e, err := batch.Encode(channel, row(rng, channel, i))
		if err != nil {
			t.Fatal(err)
		}
		if err := spool.Add(channel, batch.Split(0), e); err != nil {
			t.Fatal(err)
		}
	}
	spec := batch.Spec{Dir: dir, Budget: 64, VocabSize: 50, Tokenizer: "t", Template: "t"}
	if _, err := spool.Write(context.Background(), spec); err != nil {
		t.Fatal(err)
	}
	return dir
}

// BenchmarkLoad compares natgo.load with datasets in torch format. NATGO_PYTHON names a Python with torch and datasets.
func BenchmarkLoad(b *testing.B) {
	python := os.Getenv("NATGO_PYTHON")
	if python == "" || exec.Command(python, "-c", "import torch, datasets").Run() != nil {
		b.Skip("NATGO_PYTHON names no python with torch and datasets")
	}
	dir := b.TempDir()
	spool, err := batch.NewSpool(b.TempDir(), batch.Order{})
	if err != nil {
		b.Fatal(err)
	}
	defer spool.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 4000 {
		r := row(rng, batch.SFT, i)
		for len(r.Sides[0].IDs) < 500+rng.IntN(1000) {
			r.Sides[0].IDs = append(r.Sides[0].IDs, rng.Int32N(50))
		}
		e, err := batch.Encode(batch.SFT, r)
		if err != nil {
			b.Fatal(err)
		}
		if err := spool.Add(batch.SFT, batch.Train, e); err != nil {
			b.Fatal(err)
		}
	}
	spec := batch.Spec{Dir: dir, Budget: 16384, VocabSize: 50, Tokenizer: "t", Template: "t"}
	if _, err := spool.Write(b.Context(), spec); err != nil {
		b.Fatal(err)
	}
	var got struct{ Ours, Theirs float64 }
	for b.Loop() {
		cmd := exec.Command(python, "-B", "tests/bench_load.py", dir)
		cmd.Env = append(os.Environ(), "PYTHONPATH=.", "OMP_NUM_THREADS=1", "HF_HOME="+b.TempDir())
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err == nil {
			err = json.Unmarshal(out, &got)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(0, "ns/op") // says nothing
	b.ReportMetric(got.Ours, "rows/s")
	b.ReportMetric(got.Theirs, "rows/s-datasets")
	b.ReportMetric(got.Ours/got.Theirs, "x-datasets")
}

func row(rng *rand.Rand, c *batch.Channel, n int) *batch.Row {
	r := &batch.Row{Weight: 1, Meta: batch.Meta{
		Record:   fmt.Sprintf("%04x", n),
		Ordinal:  int64(n),
		Example:  fmt.Sprint("e", n),
		Messages: []int{1},
		IDs:      "sampled",
	}}
	for range c.Sides {
		side := batch.Side{IDs: make([]int32, 8+rng.IntN(12)), Trained: []chat.Span{{Start: 1, End: 3}}}
		for i := range side.IDs {
			side.IDs[i] = rng.Int32N(50)
		}
		r.Sides = append(r.Sides, side)
		r.Meta.Proof = append(r.Meta.Proof, batch.Proof{Text: "t", Target: "x"})
	}
	return r
}
