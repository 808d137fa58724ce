package build

import (
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/plugins/host"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// TestRefusedRecordsShrinkNoAccount checks that a rejected record that names an example doesn't remove the example from
// the account.
func TestRefusedRecordsShrinkNoAccount(t *testing.T) {
	g := &ttc.Group{Key: "g", Examples: []*ttc.Example{{ID: "a"}, {ID: "b"}}}
	a := newAccount(g, stage.UnitExample)
	a.take(&host.Result{Group: g})
	for unit, want := range map[string]int64{"record": 0, "example": 0, stage.UnitSite: 1, stage.UnitRollout: 1} {
		t.Run(unit, func(t *testing.T) {
			if n := a.countElsewhere([]ledger.Drop{{Unit: unit, Example: "a"}}); n != want {
				t.Errorf("a dropped %s takes %d examples out of the account, want %d", unit, n, want)
			}
		})
	}
}
