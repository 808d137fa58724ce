package finetune

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nat-go/nat-go/builders/sdpo"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// TestHintsExample checks that the hints example finds exactly the errors in its traces, and that its counts balance.
func TestHintsExample(t *testing.T) {
	example, err := filepath.Abs(filepath.Join("..", "..", "..", "..", "examples", "hints"))
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	t.Chdir(example)
	sum, err := Run(context.Background(), Request{
		ConfigFile: "finetune.yml",
		DryRun:     true,
		RunID:      "r",
		OutputDir:  out,
	}, testEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	if sum.Counts.Records != 13 || sum.Counts.Kept != 13 {
		t.Errorf("%+v", sum.Counts)
	}
	for reason, n := range map[ledger.Reason]int64{
		sdpo.TransientError:  1,
		sdpo.RepeatedFailure: 1,
		sdpo.NoRepair:        1,
		sdpo.NoErrorSite:     1,
		sdpo.NoSiteLeft:      1,
	} {
		if sum.Counts.Dropped[reason] != n {
			t.Errorf("%d dropped for %s, want %d", sum.Counts.Dropped[reason], reason, n)
		}
	}
	var m runfolder.Manifest
	if err := json.Unmarshal(readFile(t, filepath.Join(out, "r", "manifest.json")), &m); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]int64{
		"sites/schema/schema/knowable":            1,
		"sites/unknown_tool/schema/knowable":      1,
		"sites/arguments_not_json/rules/knowable": 2,
	}, m.Counters["hints"],
		cmpopts.IgnoreMapEntries(func(name string, _ int64) bool {
			return !strings.HasPrefix(name, "sites/")
		})); d != "" {
		t.Error(d)
	}
	for _, a := range m.Books {
		if a.Unit == stage.UnitSite && a.Stage == ledger.Build && (a.Out != 4 || a.In != 7) {
			t.Errorf("%+v", a)
		}
	}
}
