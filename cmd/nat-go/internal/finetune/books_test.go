package finetune

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/plugins/host"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// TestRefusedRecordsShrinkNoAccount checks that a refused record, although it names an example, doesn't take the
// example out of the account.
func TestRefusedRecordsShrinkNoAccount(t *testing.T) {
	g := &ttc.Group{Key: "g", Examples: []*ttc.Example{{ID: "a"}, {ID: "b"}}}
	a := newAccount(g, unitExample)
	a.take(&host.Result{Group: g})
	for unit, want := range map[string]int64{"record": 0, "example": 0, unitSite: 1, unitRollout: 1} {
		t.Run(unit, func(t *testing.T) {
			if n := a.countElsewhere([]ledger.Drop{{Unit: unit, Example: "a"}}); n != want {
				t.Errorf("a dropped %s takes %d examples out of the account, want %d", unit, n, want)
			}
		})
	}
}

// TestReplayedDrops checks that drops listed in parts and replayed make the list and the accounts of one listing, with
// more of a kind than are listed in one part, in both together, and in none.
func TestReplayedDrops(t *testing.T) {
	drop := func(i int) ledger.Drop {
		d := ledger.Drop{Stage: ledger.Write, Reason: "often", Unit: "row", Example: fmt.Sprint(i), Index: -1}
		switch {
		case i%3 == 0:
			d.Stage, d.Reason, d.Unit = ledger.Curate, "now and then", unitRecord
		case i%9 == 1:
			d.Reason, d.Format, d.Count = "seldom", "trl", 2
		}
		return d
	}
	const all, half = 3*listedDrops + 5, listedDrops * 9 / 5
	dir, whole, joined := t.TempDir(), newBooks(secret.Shape), newBooks(secret.Shape)
	for name, b := range map[string]*books{"whole": whole, "joined": joined} {
		if err := b.open(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	r := &run{}
	for part, n := 0, 0; n < all; part++ {
		path := filepath.Join(dir, fmt.Sprint(part))
		listed, err := newListing(path, r.env.hide)
		if err != nil {
			t.Fatal(err)
		}
		for end := min(n+half, all); n < end; n++ {
			d := drop(n)
			if listed.list(d); d.Stage == ledger.Write {
				whole.drop(d)
			} else {
				whole.list(d)
			}
		}
		if err := listed.close(); err != nil {
			t.Fatal(err)
		}
		if err := joined.replay(path); err != nil {
			t.Fatal(err)
		}
	}
	var texts [2]string
	for i, b := range []*books{whole, joined} {
		if err := b.close(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, []string{"whole", "joined"}[i]))
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	if texts[0] != texts[1] {
		t.Errorf("the lists have %d and %d bytes", len(texts[0]), len(texts[1]))
	}
	if d := cmp.Diff(whole.Accounts(), joined.Accounts()); d != "" {
		t.Error(d)
	}
}
