package natcompat

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders/dpo"
	"github.com/nat-go/nat-go/builders/schema"
)

func count(r ranking) (n int) {
	for range r.pairs {
		n++
	}
	return n
}

func candidates(scores []float64) (cs []candidate) {
	for i, score := range scores {
		cs = append(cs, candidate{score: score, response: fmt.Sprint(i), example: &item{}})
	}
	return cs
}

// TestManyCandidates checks that a turn whose pairs are too many is refused, and that NaN scores make pairs.
func TestManyCandidates(t *testing.T) {
	turn := candidates(slices.Repeat([]float64{math.NaN()}, 2049))
	cfg := schema.New[dpo.Config]()
	if _, err := (&Builder{cfg: cfg}).rank(turn); err == nil ||
		!strings.Contains(err.Error(), "remove some of them") {
		t.Errorf("error %v", err)
	}
	if r, err := (&Builder{cfg: cfg}).rank(turn[:300]); err != nil || count(r) != 300*299/2 {
		t.Errorf("%d pairs, %v", count(r), err)
	}
}
