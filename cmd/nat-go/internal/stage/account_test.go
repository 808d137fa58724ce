package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/ttc/ledger"
)

// TestReplayedDrops checks that drops listed in parts and then replayed give the same list and accounts as drops listed
// at once, even if some kinds exceed the limit in one part or only in all parts together.
func TestReplayedDrops(t *testing.T) {
	drop := func(i int) ledger.Drop {
		d := ledger.Drop{Stage: ledger.Write, Reason: "often", Unit: "row", Example: fmt.Sprint(i), Index: -1}
		switch {
		case i%3 == 0:
			d.Stage, d.Reason, d.Unit = ledger.Curate, "now and then", UnitRecord
		case i%9 == 1:
			d.Reason, d.Format, d.Count = "seldom", "trl", 2
		}
		return d
	}
	const all, half = 3*MaxListed + 5, MaxListed * 9 / 5
	dir, whole, joined := t.TempDir(), NewAccount(Env{}, "r"), NewAccount(Env{}, "r")
	for name, b := range map[string]*Account{"whole": whole, "joined": joined} {
		if err := b.Open(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for part, n := 0, 0; n < all; part++ {
		path := filepath.Join(dir, fmt.Sprint(part))
		listed, err := whole.NewList(path)
		if err != nil {
			t.Fatal(err)
		}
		for end := min(n+half, all); n < end; n++ {
			d := drop(n)
			if listed.List(d); d.Stage == ledger.Write {
				whole.Drop(d)
			} else {
				whole.List(d)
			}
		}
		if err := listed.Close(); err != nil {
			t.Fatal(err)
		}
		if err := joined.Replay(path); err != nil {
			t.Fatal(err)
		}
	}
	var texts [2]string
	for i, b := range []*Account{whole, joined} {
		if err := b.Close(); err != nil {
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
