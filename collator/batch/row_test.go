package batch

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// TestReusedCells checks that a grid in the memory of an earlier batch holds nothing of that batch.
func TestReusedCells(t *testing.T) {
	const tokens = 100_000
	rows := []*Row{{Sides: []Side{{IDs: make([]int32, tokens), Trained: []chat.Span{{Start: 5, End: 9}}}}}}
	more := []*Row{rows[0], {Sides: []Side{{IDs: make([]int32, tokens/2)}}}}
	for _, layout := range []Layout{Padded, Packed} {
		form := Form{}.forChannel(SFT, layout)
		want := assemble(SFT, rows, layout, form, 7)
		dirty := assemble(SFT, more, layout, form, 7)
		for _, d := range dirty {
			for i := range d.Data {
				d.Data[i] = 0x55
			}
		}
		reuse(dirty)
		for i, got := range assemble(SFT, rows, layout, form, 7) {
			if !bytes.Equal(got.Data, want[i].Data) {
				t.Errorf("%v: %s differs in reused memory", layout, got.Name)
			}
		}
	}
}
