package dpo

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/oracletest"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// strict reads a file as a strict run does and builds its pairs. It fails if the books don't balance.
func strict(t *testing.T, path string) (pairs int, reasons map[ledger.Reason]int64, stats *source.Stats) {
	t.Helper()
	ctx := context.Background()
	reasons = map[ledger.Reason]int64{}
	cfg := schema.New[readers.NATConfig]()
	src, err := readers.NAT().Open(ctx, &cfg, path, source.Options{
		Drop: func(d ledger.Drop) { reasons[d.Reason] += d.N() },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	b, err := New(schema.New[Config]())
	if err != nil {
		t.Fatal(err)
	}
	candidates, used, dropped := 0, 0, 0
	for {
		ex, _, err := src.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		candidates += len(ex.Candidates)
		out := &recorder{}
		if err := b.Build(ctx, &ttc.Group{Examples: []*ttc.Example{ex}}, out); err != nil {
			t.Fatal(err)
		}
		seen := map[int]bool{}
		for _, r := range out.records {
			w, l := ex.Candidates[r.Chosen.Ref.Candidate], ex.Candidates[r.Rejected.Ref.Candidate]
			if !(w.Score > l.Score) || w.Output == l.Output {
				t.Errorf("%s: %+v > %+v", path, w, l)
			}
			seen[r.Chosen.Ref.Candidate], seen[r.Rejected.Ref.Candidate] = true, true
		}
		pairs += len(out.records)
		used += len(seen)
		for _, d := range out.drops {
			if d.Unit == "candidate" {
				dropped += int(d.N())
				reasons[d.Reason] += d.N()
			}
		}
	}
	if candidates != used+dropped {
		t.Errorf("%s: %d candidates, %d used, %d dropped", path, candidates, used, dropped)
	}
	for _, a := range src.Stats().Accounts() {
		if a.In != a.Out+a.DroppedTotal() {
			t.Errorf("%s: %+v", path, a)
		}
	}
	return pairs, reasons, src.Stats()
}

func show(reasons map[ledger.Reason]int64) string {
	var out []string
	for r, n := range reasons {
		out = append(out, fmt.Sprintf("%s=%d", r, n))
	}
	sort.Strings(out)
	return strings.Join(out, " ")
}

// TestNATsDefectsAreDrops checks that whatever NAT silently trains on is dropped with a reason here.
func TestNATsDefectsAreDrops(t *testing.T) {
	root := oracletest.Path(t, "nat")
	for name, want := range map[string]string{
		"min_diff_zero_ties":            "2 pairs: tie=3",
		"nan_scores":                    "3 pairs: non_finite_score=3",
		"inf_scores":                    "0 pairs: non_finite_score=3 single_candidate=1",
		"colon_collision":               "2 pairs: ",
		"message_prompt_extra_keys":     "0 pairs: different_prompt=2",
		"duplicated_ids_last_wins":      "3 pairs: ",
		"falsy_outputs":                 "0 pairs: bad_output=5 empty_response=3 single_candidate=1",
		"python_repr_of_messages_nasty": "0 pairs: bad_output=2",
		"other_steps_and_events":        "2 pairs: bad_turn_id=1 no_data=1 no_score=2 no_turn_id=3 other_step=4 other_step_name=3",
	} {
		t.Run(name, func(t *testing.T) {
			pairs, reasons, _ := strict(t, filepath.Join(root, "cases", name, "input", "workflow_output.json"))
			if got := fmt.Sprintf("%d pairs: %s", pairs, show(reasons)); got != want {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
		})
	}
}

func TestBooksBalanceOnEveryRecordedInput(t *testing.T) {
	root := oracletest.Path(t, "nat")
	files, _ := filepath.Glob(filepath.Join(root, "cases", "*", "input", "*.json"))
	runs, _ := filepath.Glob(filepath.Join(root, "runs", "*", "out", "workflow_output.json"))
	for _, f := range append(files, runs...) {
		_, _, stats := strict(t, f)
		if stats.Entries == 0 && !strings.Contains(f, "no_items") {
			t.Errorf("%s: nothing was read", f)
		}
		// One workflow of run b raised; with the wrong endpoint, all of them did.
		if raised := strings.Contains(f, "runs/b"); raised != (stats.Interrupted > 0) {
			t.Errorf("%s: %d interrupted", f, stats.Interrupted)
		}
	}
}
