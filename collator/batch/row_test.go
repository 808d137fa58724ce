package batch

import (
	"bytes"
	"encoding/binary"
	"math"
	"reflect"
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

// TestRowsAreReadBack checks that a row, including its owners and those with a reason of another program, is read back
// unchanged, and that a damaged reason is refused.
func TestRowsAreReadBack(t *testing.T) {
	known := Owners{{3, -1, Markup}, {70_000, 2, InLoss}, {70_001, 2, CutOff}}
	row := &Row{
		Sides: []Side{{IDs: []int32{1, 2, 3}, Trained: []chat.Span{{Start: 1, End: 3}}}, {IDs: []int32{4}}, {}},
		Meta: Meta{Proof: []Proof{
			{Text: "a", Owners: known}, {Text: "b"}, {Text: "c", Owners: Owners{{1, 0, "unheard_of"}}},
		}},
	}
	data, err := appendRow(nil, row)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readRow(data)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Meta.Proof, row.Meta.Proof) || !reflect.DeepEqual(got.Sides[0].IDs, row.Sides[0].IDs) ||
		!reflect.DeepEqual(got.Sides[0].Trained, row.Sides[0].Trained) {
		t.Errorf("read back as %+v", got)
	}
	if !reflect.DeepEqual(row.Meta.Proof[0].Owners, known) {
		t.Error("encoding a row took its owners")
	}
	at := bytes.Index(data, binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 70_000), 2))
	for _, reason := range []uint32{uint32(len(reasons)), math.MaxUint32} {
		binary.LittleEndian.PutUint32(data[at+8:], reason)
		if _, err := readRow(data); err == nil {
			t.Errorf("read reason %d", reason)
		}
	}
}

// TestReusedCells checks that a grid in the memory of an earlier batch holds nothing of that batch.
func TestReusedCells(t *testing.T) {
	const tokens = 100_000
	rows := []*Row{{Sides: []Side{{IDs: make([]int32, tokens), Trained: []chat.Span{{Start: 5, End: 9}}}}}}
	short := []*Row{{Sides: []Side{{IDs: make([]int32, tokens/2)}}}}
	for _, layout := range []Layout{Padded, Packed} {
		form := Form{}.forChannel(SFT, layout)
		want := assemble(SFT, append(rows, short...), layout, form, 7)
		dirty := assemble(SFT, rows, layout, form, 7)
		for _, d := range dirty {
			for i := range d.Data {
				d.Data[i] = 0x55
			}
		}
		reuse(dirty)
		for i, got := range assemble(SFT, append(rows, short...), layout, form, 7) {
			if !bytes.Equal(got.Data, want[i].Data) {
				t.Errorf("%v: %s differs in reused memory", layout, got.Name)
			}
		}
	}
}
