package build

import (
	"testing"

	"github.com/nat-go/nat-go/builders"
)

// TestGatheredRecordsAreCopies checks that a builder may reuse a record's memory for the next one, whatever its kind.
func TestGatheredRecordsAreCopies(t *testing.T) {
	for _, r := range []builders.Record{
		&builders.Preference{}, &builders.Demonstration{}, &builders.Rollout{}, &builders.Distillation{},
		&builders.State{},
	} {
		g := &gathered{}
		for _, turn := range []string{"1", "2"} {
			r.Header().Turn = turn
			if err := g.Record(r); err != nil {
				t.Fatal(err)
			}
		}
		if first := g.Records[0]; first.Header().Turn != "1" || first.Kind() != r.Kind() {
			t.Errorf("%s: the first record is now %+v", r.Kind(), first)
		}
	}
}
