package python_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/pythontest"
	"github.com/nat-go/nat-go/ttc/chat"
)

// TestSkyRL: SkyRL's own loader takes the pre-tokenised rows as they are, and its loss is over exactly the tokens that
// the batches train.
func TestSkyRL(t *testing.T) {
	python := os.Getenv("NATGO_SKYRL_PYTHON")
	if python == "" {
		if pythontest.Required("skyrl") {
			t.Fatal("NATGO_REQUIRE names skyrl, and NATGO_SKYRL_PYTHON names no Python")
		}
		t.Skip("SKIPPED: NATGO_SKYRL_PYTHON names no Python with SkyRL 0.4, so its loader was not tried; " +
			".ci/verify-full sets one up")
	}
	dir, want := skyrlRows(t)
	path := filepath.Join(t.TempDir(), "train.parquet")
	var file bytes.Buffer
	if _, err := batch.WriteLossMasks(&file, dir, batch.Train); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "tests/load_skyrl.py", path)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "HF_HOME="+t.TempDir(), "HF_HUB_OFFLINE=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got []skyrlRow
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("SkyRL has other rows than the batches:\n%s", d)
	}
}

// skyrlRow is a row's ids, and the positions of the tokens in the loss.
type skyrlRow struct {
	IDs     []int32 `json:"ids"`
	Trained []int   `json:"trained"`
}

// skyrlRows writes batches of demonstrations, with holes in what is trained and one of 20,000 tokens, and returns their
// folder and their rows in its order.
func skyrlRows(t *testing.T) (dir string, rows []skyrlRow) {
	t.Helper()
	dir = t.TempDir()
	spool, err := batch.NewSpool(t.TempDir(), batch.Order{})
	if err != nil {
		t.Fatal(err)
	}
	defer spool.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 50 {
		r := row(rng, batch.SFT, i)
		s := &r.Sides[0]
		size := 20 + rng.IntN(300)
		if i == 49 {
			size = 20_000
		}
		for len(s.IDs) < size {
			s.IDs = append(s.IDs, rng.Int32N(50))
		}
		s.Trained = append(s.Trained, chat.Span{Start: 5, End: 6}, chat.Span{Start: 9, End: len(s.IDs) - i%2})
		e, err := batch.Encode(batch.SFT, r)
		if err != nil {
			t.Fatal(err)
		}
		if err := spool.Add(batch.SFT, batch.Train, e); err != nil {
			t.Fatal(err)
		}
	}
	spec := batch.Spec{Dir: dir, Budget: 32768, VocabSize: 50, Tokenizer: "t", Template: "t"}
	if _, err := spool.Write(context.Background(), spec); err != nil {
		t.Fatal(err)
	}
	err = batch.EachLine(filepath.Join(dir, batch.IndexName), func(l *batch.Line) error {
		all, err := batch.Read(dir, l)
		for _, r := range all {
			one := skyrlRow{IDs: r.Sides[0].IDs}
			for _, run := range r.Sides[0].Trained {
				for at := run.Start; at < run.End; at++ {
					one.Trained = append(one.Trained, at)
				}
			}
			rows = append(rows, one)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir, rows
}
