package finetune

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/read"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// TestFailedRunStaysFailed ends a run whose counts don't balance, one that kept nothing, and one whose rows no format
// can represent. It checks that the manifest gives the status and the reason, and that the run can't be resumed, with
// or without a trainer.
func TestFailedRunStaysFailed(t *testing.T) {
	for name, c := range map[string]struct {
		input, builder string
		spoil          func(*run)
		want           string
	}{
		"books": {
			input:   candidatesOf("1", "0"),
			builder: "dpo",
			spoil:   func(r *run) { r.In(ledger.Build, "turn", 1) },
			want:    "don't balance",
		},
		"nothing": {input: candidatesOf("1", "1"), builder: "dpo", want: "no trajectories collected"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile("in.jsonl", []byte(c.input), 0o600); err != nil {
				t.Fatal(err)
			}
			req := Request{
				Choice: read.Choice{From: []string{"in.jsonl"}, Source: "candidates"}, RunID: "r",
				Builders: []string{c.builder},
			}
			p, err := newPlan(t.Context(), req, testEnv(t))
			if err != nil {
				t.Fatal(err)
			}
			r := newRun(p, testEnv(t))
			if c.spoil != nil {
				c.spoil(r)
			}
			sum, err := r.end(context.Background())
			if exit.Code(err) != exit.Failed || !strings.Contains(err.Error(), c.want) ||
				sum.Status != runfolder.Failed || sum.Job != nil {
				t.Fatalf("status %s, job %v, %v", sum.Status, sum.Job, err)
			}
			m, err := p.folder.ReadManifest()
			if err != nil || m.Status != runfolder.Failed || !strings.Contains(m.Error, c.want) {
				t.Errorf("the manifest says %q, %q, %v", m.Status, m.Error, err)
			}
			for range 2 {
				sum, err := Run(context.Background(), Request{Resume: p.folder}, testEnv(t))
				if exit.Code(err) != exit.Failed || sum.Status != runfolder.Failed || sum.Job != nil {
					t.Errorf("resumed: status %s, job %v, %v", sum.Status, sum.Job, err)
				}
			}
			if _, err := os.Stat(p.folder.Job()); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a job was submitted: %v", err)
			}
		})
	}
}

// TestEmptyRunFails checks that a run that kept records but wrote neither rows nor batches isn't complete.
func TestEmptyRunFails(t *testing.T) {
	r := newRun(&plan{folder: "r", config: &config.Config{}}, stage.Env{})
	r.made.Counts.Kept = 3
	if err := r.failure(context.Background(), &source.Stats{}); exit.Code(err) != exit.Failed ||
		!strings.Contains(err.Error(), "empty") {
		t.Error(err)
	}
	r.made.Dataset = []runfolder.Written{{Format: "trl", Records: 1}}
	if err := r.failure(context.Background(), &source.Stats{}); err != nil {
		t.Error(err)
	}
}

// candidatesOf returns two scored answers to one question.
func candidatesOf(scores ...string) string {
	var b strings.Builder
	for _, s := range scores {
		b.WriteString(`{"id":"a","turn_id":"t","prompt":"q","output":"scores ` + s + string(rune('a'+b.Len()%26)) + `","score":` + s + "}\n")
	}
	return b.String()
}
