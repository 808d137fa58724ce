package curate

import (
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

func TestGates(t *testing.T) {
	empty := builders.Resolved{Record: &builders.Demonstration{}, Origin: &builders.Origin{Fidelity: ttc.Partial}}
	for name, c := range map[string]struct {
		gates  Gates
		reason ledger.Reason
		stage  ledger.Stage
	}{
		"nothing is asked":      {Gates{}, "", ""},
		"unfit":                 {Gates{Unfit: true}, "", ledger.Gate},
		"partial":               {Gates{MinFidelity: ttc.Partial + 1}, lowFidelity, ledger.Gate},
		"unfit before fidelity": {Gates{Unfit: true, MinFidelity: ttc.Partial + 1}, "", ledger.Gate},
	} {
		t.Run(name, func(t *testing.T) {
			reason, detail := c.gates.Refuse(&empty)
			switch {
			case c.stage == "" && reason != "":
				t.Errorf("refused for %s: %s", reason, detail)
			case c.stage != "" && (reason == "" || detail == "" || StageOf(reason) != c.stage):
				t.Errorf("reason %q, detail %q, stage %q", reason, detail, StageOf(reason))
			case c.reason != "" && reason != c.reason, c.gates.Unfit && reason == lowFidelity:
				t.Errorf("reason %q", reason)
			}
		})
	}
	if stage := StageOf(duplicate); stage != ledger.Curate {
		t.Errorf("duplicates are dropped by %s", stage)
	}
}
