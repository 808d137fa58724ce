package finetune

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/read"
)

// TestInterruptedWhileWaitingForAPipe interrupts runs that wait for a pipe without a writer or with a stalled one, as
// the input, the configuration or the tokenizer. It checks that the run ends, and that a run whose folder was created
// can be resumed.
func TestInterruptedWhileWaitingForAPipe(t *testing.T) {
	const config = "trajectory_builders: {m: {_type: dpo_traj_builder, ttc_step_name: s}}\n" +
		"finetuning: {enabled: true, trajectory_builder: m, output_dir: out}\n"
	for name, c := range map[string]struct {
		req    Request
		config string
		stalls string // written to the pipe, which stays open; empty means that the pipe lacks a writer
	}{
		"input": {
			req: Request{
				ConfigFile: "config.yml", Choice: read.Choice{From: []string{"pipe"}, Source: "candidates"},
			},
			config: config,
		},
		"input to be recognised": {req: Request{
			ConfigFile: "config.yml", Choice: read.Choice{From: []string{"pipe"}},
		}, config: config},
		"input that stalls": {
			req: Request{
				ConfigFile: "config.yml", Choice: read.Choice{From: []string{"pipe"}, Source: "candidates"},
			},
			config: config,
			stalls: candidatesOf("1", "0"),
		},
		"input to be recognised that stalls": {
			req:    Request{ConfigFile: "config.yml", Choice: read.Choice{From: []string{"pipe"}}},
			config: config,
			stalls: "{\"turn_id\":",
		},
		"configuration": {req: Request{ConfigFile: "pipe", Choice: read.Choice{From: []string{"in.jsonl"}}}},
		"configuration stops": {req: Request{
			ConfigFile: "pipe", Choice: read.Choice{From: []string{"in.jsonl"}},
		}, stalls: "finetuning:\n"},
		"tokenizer": {
			req:    Request{ConfigFile: "config.yml", Choice: read.Choice{From: []string{"in.jsonl"}}},
			config: config + "collator: {tokenizer: pipe, policy: p, max_length: 100}\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			if err := syscall.Mkfifo("pipe", 0o600); err != nil {
				t.Skipf("no named pipes here: %v", err)
			}
			for file, text := range map[string]string{"config.yml": c.config, "in.jsonl": candidatesOf("1", "0")} {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.stalls != "" {
				go func() {
					w, err := os.OpenFile(filepath.Join(dir, "pipe"), os.O_WRONLY, 0)
					if err != nil {
						return
					}
					defer w.Close()
					_, _ = w.WriteString(c.stalls)
					cancel()
					<-t.Context().Done()
				}()
			} else {
				time.AfterFunc(300*time.Millisecond, cancel)
			}
			c.req.RunID, c.req.DryRun = "r", true
			env := testEnv(t)
			env.Findings = func([]finding.Finding) {}
			_, err := Run(ctx, c.req, env)
			if exit.Code(err) != exit.Interrupted && exit.Code(err) != exit.Environment {
				t.Errorf("exit code %d, %v", exit.Code(err), err)
			}
			// Release any goroutine that still waits for the pipe.
			if w, err := os.OpenFile(filepath.Join(dir, "pipe"), os.O_RDWR|syscall.O_NONBLOCK, 0); err == nil {
				w.Close()
			}
		})
	}
}
