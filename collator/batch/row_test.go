package batch

import (
	"testing"

	"github.com/nat-go/nat-go/ttc/chat"
)

// TestRowsGrowOnce checks that a row is encoded into memory of its own size. Encoded rows wait in a queue, so growing
// step by step would add half of their size to a run's peak.
func TestRowsGrowOnce(t *testing.T) {
	const tokens = 10_000
	side := Side{IDs: make([]int32, tokens), LogProbs: make([]float32, tokens)}
	for i := range tokens / 2 {
		side.Trained = append(side.Trained, chat.Span{Start: 2 * i, End: 2*i + 1})
	}
	got, err := appendRow(nil, &Row{Sides: []Side{side, side}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) < 2*3*4*tokens || cap(got) > len(got)*17/16 {
		t.Errorf("a row of %d bytes is in memory for %d", len(got), cap(got))
	}
}
