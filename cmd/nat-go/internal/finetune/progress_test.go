package finetune

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/bench"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/read"
)

// smallRun runs over generated input in its own folder.
func smallRun(t *testing.T, change func(*Request, *stage.Env)) (string, *Summary) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	var text bytes.Buffer
	if err := bench.Generate(&text, bench.Shape{Examples: 30, Turns: 2, Candidates: 4, Seed: 3}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("in.json", text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	req, env := Request{
		Choice: read.Choice{From: []string{"in.json"}}, Builders: []string{"dpo"}, RunID: "r", DryRun: true,
	}, testEnv(t)
	change(&req, &env)
	sum, err := Run(context.Background(), req, env)
	if err != nil {
		t.Fatal(err)
	}
	return dir, sum
}

func TestProgressIsReported(t *testing.T) {
	var got []stage.Progress
	smallRun(t, func(_ *Request, env *stage.Env) { env.Progress = func(p stage.Progress) { got = append(got, p) } })
	last := map[string]stage.Progress{}
	for _, p := range got {
		if p.Done < last[p.Step].Done || p.Done > p.Total {
			t.Errorf("%s went from %d to %d of %d", p.Step, last[p.Step].Done, p.Done, p.Total)
		}
		last[p.Step] = p
	}
	for _, step := range []string{"build", "write"} {
		if p := last[step]; p.Total == 0 || p.Done != p.Total {
			t.Errorf("%s ended at %d of %d", step, p.Done, p.Total)
		}
	}
}

// TestClockGoesBack sets the clock back whenever it is read, and checks that commits aren't delayed and that no data
// depends on the clock.
func TestClockGoesBack(t *testing.T) {
	dir, _ := smallRun(t, func(*Request, *stage.Env) {})
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	other, _ := smallRun(t, func(_ *Request, env *stage.Env) {
		env.Now = func() time.Time { now = now.Add(-time.Hour); return now }
	})
	for _, name := range []string{
		"records/records.log", "dataset/trl/train.jsonl", "dataset/trl/rows.jsonl", "dropped.jsonl",
	} {
		t.Run(name, func(t *testing.T) {
			a, err := os.ReadFile(filepath.Join(dir, "out", "r", filepath.FromSlash(name)))
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(filepath.Join(other, "out", "r", filepath.FromSlash(name)))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a, b) {
				t.Errorf("%s depends on the clock", name)
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	run := func() string {
		dir, _ := smallRun(t, func(req *Request, _ *stage.Env) { req.Metrics = "metrics.prom" })
		text, err := os.ReadFile(filepath.Join(dir, "metrics.prom"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	text := run()
	for _, want := range []string{
		"# TYPE natgo_in_total counter\n", `natgo_run_info{run="r",status="completed"} 1` + "\n",
		`natgo_in_total{run="r",stage="source",unit="example"} 30` + "\n",
		`natgo_builder_total{run="r",builder="dpo",counter="total_candidates"} 240` + "\n",
		`natgo_rows_total{run="r",format="trl",file="trl/train.jsonl"} `,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the metrics:\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "# ") && !strings.HasPrefix(line, "natgo_") {
			t.Errorf("the line %q is not a metric", line)
		}
	}
	if again := run(); again != text {
		t.Error("the same run gives other metrics")
	}
}
