package finetune

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/builders/dpo"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/read"
	"github.com/nat-go/nat-go/plugins/host"
	"github.com/nat-go/nat-go/ttc"
)

// BenchmarkFirstRecord measures the time until a built-in builder returns its first record, which is how long a run
// would wait if it did nothing else in the meantime.
func BenchmarkFirstRecord(b *testing.B) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	g := &ttc.Group{Key: "a", Examples: []*ttc.Example{{ID: "a", Candidates: []ttc.Candidate{
		{Step: "move", Turn: "t", Prompt: ttc.Prompt{Text: "p"}, Output: "good", Score: 1},
		{Step: "move", Turn: "t", Index: 1, Prompt: ttc.Prompt{Text: "p"}, Output: "bad"},
	}}}}
	for b.Loop() {
		p, err := host.Start(b.Context(), host.Spec{
			Name: builtin.PluginName,
			Path: self,
			Args: []string{builtin.ServeCommand},
		}, zerolog.Nop())
		if err != nil {
			b.Fatal(err)
		}
		s, err := p.Open(b.Context(), dpo.Info().Name, "moves", []byte(`{"ttc_step_name":"move"}`))
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Send(b.Context(), g); err != nil {
			b.Fatal(err)
		}
		if r, err := s.Recv(b.Context()); err != nil || len(r.Records) != 1 {
			b.Fatalf("%d records, %v, %v", len(r.Records), r.Drops, err)
		}
		b.StopTimer()
		s.Close()
		p.Close()
		b.StartTimer()
	}
}

// TestStartBeforeInputs checks that a plugin that fails to start ends a run with inputs, and that a run without inputs
// fails because of them and stops the processes that are starting.
func TestStartBeforeInputs(t *testing.T) {
	t.Chdir(t.TempDir())
	config := "plugins: {acme: {path: ./nothing}}\ntrajectory_builders: {m: {_type: acme/x}}\nfinetuning: {enabled: true, trajectory_builder: m, output_dir: out}\n"
	for name, text := range map[string]string{"config.yml": config, "in.json": "[]"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for from, want := range map[string]string{
		"in.json":   "plugin acme did not start: cannot find file",
		"gone.json": "gone.json",
	} {
		t.Run(from, func(t *testing.T) {
			sum, err := Run(context.Background(), Request{
				ConfigFile: "config.yml",
				Choice:     read.Choice{From: []string{from}, Source: "workflow_output"},
			}, testEnv(t))
			if err == nil || !strings.Contains(err.Error(), want) || sum == nil || sum.Status != runfolder.Failed {
				t.Errorf("%s: %+v, %v", from, sum, err)
			}
		})
	}
}

// TestNoRunIDBeforeStart checks that the summary of a run whose scores can't be read doesn't have a run id, because no
// run has that id.
func TestNoRunIDBeforeStart(t *testing.T) {
	t.Chdir(t.TempDir())
	config := "dataset: {scores: {path: gone.jsonl}}\ntrajectory_builders: {m: {_type: dpo_traj_builder}}\n" +
		"finetuning: {enabled: true, trajectory_builder: m, output_dir: out}\n"
	if err := os.WriteFile("config.yml", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	sum, err := Run(t.Context(), Request{
		ConfigFile: "config.yml", Choice: read.Choice{From: []string{"in.json"}},
	}, testEnv(t))
	if err == nil || !strings.Contains(err.Error(), "dataset.scores") || sum.RunID != "" {
		t.Errorf("run %q, %v", sum.RunID, err)
	}
}
