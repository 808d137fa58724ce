package compat

import (
	"math"
	"testing"

	"github.com/nat-go/nat-go/builders"
)

func TestTrajectoriesOfAnExampleAreAdjacent(t *testing.T) {
	one, two, three := &builders.Origin{}, &builders.Origin{}, &builders.Origin{}
	id := func(text string) []byte { return []byte(`{"example_id":` + text + `}`) }
	var c collection
	for i, step := range []struct {
		at       *builders.Origin
		metadata []byte
		want     bool
	}{
		{one, nil, false},
		{one, nil, true},         // the same entry, whatever its metadata says
		{two, id(`"1"`), false},  // another
		{three, id(`"1"`), true}, // another entry with the same id
		{one, id(`"2"`), false},
	} {
		if got := c.continues(step.at, step.metadata); got != step.want {
			t.Errorf("trajectory %d: got %v, want %v", i, got, step.want)
		}
	}
}

// TestRewardsAreComparedAsPythonDoes checks that the first of equal numbers is kept, as by Python's min and max.
func TestRewardsAreComparedAsPythonDoes(t *testing.T) {
	zero := math.Copysign(0, -1)
	var c collectionRun
	for _, reward := range []float64{0, zero, math.NaN()} {
		c.add(reward)
	}
	if math.Signbit(c.min) || math.Signbit(c.max) || c.rewards != 3 {
		t.Errorf("%+v: want the first zero", c)
	}
	c = collectionRun{}
	for _, reward := range []float64{2, 1, 3} {
		c.add(reward)
	}
	if c.min != 1 || c.max != 3 || c.sum != 6 {
		t.Errorf("%+v", c)
	}
}
