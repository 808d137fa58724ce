package source

import (
	"strings"
	"testing"
)

// TestKeeperNames: names that may recur are remembered, long ones and those beyond a number of them aren't.
func TestKeeperNames(t *testing.T) {
	var k Keeper
	long := strings.Repeat("n", maxNameBytes+1)
	for _, name := range []string{"short", "short", long} {
		if got := k.Name([]byte(name)); got != name {
			t.Errorf("%q, want %q", got, name)
		}
	}
	if _, ok := k.names["short"]; !ok || len(k.names) != 1 {
		t.Errorf("%d names are remembered, want the short one", len(k.names))
	}
}
