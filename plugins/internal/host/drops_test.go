package host

import (
	"math"
	"testing"

	"github.com/nat-go/nat-go/ttc/ledger"
)

// TestCountDrops checks that drops whose counts would overflow the run's books together are refused, though each one
// alone could pass for valid.
func TestCountDrops(t *testing.T) {
	many := make([]ledger.Drop, 1<<10)
	for i := range many {
		many[i].Count = math.MaxInt64 >> 9
	}
	if err := countDrops(many); err == nil {
		t.Error("drops that overflow were accepted")
	}
	for i := range many {
		many[i].Count = 1000
	}
	if err := countDrops(many); err != nil {
		t.Error(err)
	}
}
