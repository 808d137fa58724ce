package finetune

import (
	"testing"

	"github.com/nat-go/nat-go/plugins/host"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// TestRefusedRecordsShrinkNoAccount checks that a refused record, although it names an example, doesn't take the
// example out of the account.
func TestRefusedRecordsShrinkNoAccount(t *testing.T) {
	g := &ttc.Group{Key: "g", Examples: []*ttc.Example{{ID: "a"}, {ID: "b"}}}
	a := inExamples(g)
	a.take(&host.Result{Group: g})
	for unit, want := range map[string]int64{"record": 0, "example": 0, unitSite: 1, unitRollout: 1} {
		t.Run(unit, func(t *testing.T) {
			if n := a.elsewhere([]ledger.Drop{{Unit: unit, Example: "a"}}); n != want {
				t.Errorf("a dropped %s takes %d examples out of the account, want %d", unit, n, want)
			}
		})
	}
}
