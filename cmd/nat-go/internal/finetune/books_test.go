package finetune

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/plugins/host"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// A plugin that makes up a reason for each drop fills neither memory nor the summary, and nothing goes uncounted.
func TestReasonsAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dropped.jsonl")
	b := newBooks()
	if err := b.open(path); err != nil {
		t.Fatal(err)
	}
	const n = 3 * maxDropKinds
	for i := range n {
		b.drop(ledger.Drop{Stage: ledger.Build, Unit: "candidate", Reason: ledger.Reason(fmt.Sprintf("acme/reason_%d", i))})
	}
	b.drop(ledger.Drop{Stage: ledger.Build, Unit: "candidate", Reason: ledger.SameText}) // ours are always told apart
	if err := b.close(); err != nil {
		t.Fatal(err)
	}
	byReason := b.DroppedByReason()
	var sum int64
	for _, k := range byReason {
		sum += k
	}
	if len(byReason) != maxDropKinds+2 || sum != n+1 || byReason["acme/other"] != n-maxDropKinds || byReason[ledger.SameText] != 1 {
		t.Errorf("%d reasons, %d drops, %d of them other", len(byReason), sum, byReason["acme/other"])
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), fmt.Sprintf(`"acme/other","unit":"candidate"`)) || !strings.Contains(string(text), fmt.Sprintf("acme/reason_%d", n-1)) {
		t.Errorf("the list does not tell the reason: %v", err)
	}
}

// A record that was refused names an example; that is no reason to take the example out of the account.
func TestRefusedRecordsShrinkNoAccount(t *testing.T) {
	g := &ttc.Group{Key: "g", Examples: []*ttc.Example{{ID: "a"}, {ID: "b"}}}
	a := inExamples(g)
	a.take(&host.Result{Group: g})
	for unit, want := range map[string]int64{"record": 0, "example": 0, unitSite: 1, unitRollout: 1} {
		if n := a.elsewhere([]ledger.Drop{{Unit: unit, Example: "a"}}); n != want {
			t.Errorf("a dropped %s takes %d examples out of the account, want %d", unit, n, want)
		}
	}
}
