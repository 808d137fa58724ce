package batch

import (
	"bytes"
	"errors"
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

// TestRowsComeBack checks that an encoded row is decoded unchanged, with the ordinal and the task that it got later, and
// that one that ends early, or doesn't end where it should, is an error.
func TestRowsComeBack(t *testing.T) {
	for _, c := range channels {
		for _, want := range sample(2, c) {
			e, err := Encode(c, want)
			if err != nil {
				t.Fatal(err)
			}
			e.Ordinal = 7
			if want.Meta.Ordinal = 7; want.Meta.RL != nil {
				e.Group, want.Meta.RL.Group = 9, 9
			}
			got, err := e.row(e.data)
			if d := cmp.Diff(want, got); err != nil || d != "" {
				t.Fatalf("%s: %v\n%s", c.Name, err, d)
			}
			for n := range e.data {
				if _, err := e.row(e.data[:n]); !errors.Is(err, errSpool) {
					t.Fatalf("%s: the first %d of %d bytes: %v", c.Name, n, len(e.data), err)
				}
			}
			if _, err := e.row(append(e.data, 0)); !errors.Is(err, errSpool) {
				t.Errorf("%s: with another byte: %v", c.Name, err)
			}
		}
	}
}

// FuzzRow checks that a forged encoding, such as one in a shard's folder, doesn't take more memory than a multiple of
// its size, and doesn't make the program panic.
func FuzzRow(f *testing.F) {
	for _, c := range channels {
		b, err := appendRow(nil, sample(1, c)[0])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := (&entry{Group: -1}).row(b)
		if err != nil {
			return
		}
		if _, err := appendRow(nil, r); err != nil {
			t.Fatal(err)
		}
	})
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
