package batch

import (
	"bytes"
	"errors"
	"strings"
	"sync"
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

// rowsOf returns n rows of a channel or, as only real sites splice, one row of sdpo. Each side has an owner for each
// reason.
func rowsOf(n int, c *Channel) []*Row {
	rows := []*Row{siteRow()}
	if c != SDPO {
		rows = sample(n, c)
	}
	for _, r := range rows {
		for k := range r.Meta.Proof {
			for i, why := range []string{
				Context, Markup, Tools, Filler, Reasoning, OtherPart, Hint, NotSampled, OtherRow, Policy, CutOff, InLoss,
			} {
				r.Meta.Proof[k].Owners = append(r.Meta.Proof[k].Owners, Owner{End: 100 * (i + 1), Message: i - 1, Why: why})
			}
		}
	}
	return rows
}

// TestUnknownReason checks that owners with an unknown reason are neither encoded nor decoded, and that the error says
// so.
func TestUnknownReason(t *testing.T) {
	r := rowsOf(1, SFT)[0]
	e, err := Encode(SFT, r)
	if err != nil {
		t.Fatal(err)
	}
	e.data[len(e.data)-1] = byte(len(reasons)) // the reason of the last owner
	_, err = e.row(e.data)
	if !errors.Is(err, errSpool) || !strings.Contains(err.Error(), "unknown reason") {
		t.Errorf("decoded: %v", err)
	}
	r.Meta.Proof[0].Owners[0].Why = "other"
	if _, err := Encode(SFT, r); err == nil || !strings.Contains(err.Error(), "unknown reason") {
		t.Errorf("encoded: %v", err)
	}
}

// TestSharedOwners checks, with the race detector, that rows with the same owners can be encoded in parallel.
func TestSharedOwners(t *testing.T) {
	r := rowsOf(1, SFT)[0]
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if _, err := Encode(SFT, &Row{Sides: r.Sides, Meta: r.Meta}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestRowsComeBack checks that an encoded row is decoded unchanged, with the ordinal and the task that it got later, and
// that one that ends early, or doesn't end where it should, is an error.
func TestRowsComeBack(t *testing.T) {
	for i, c := range channels {
		for _, want := range rowsOf(2, c) {
			e, err := Encode(c, want)
			if err != nil {
				t.Fatal(err)
			}
			e.Channel, e.Ordinal = uint8(i), 7
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
// its size, and that neither it nor its batch makes the program panic.
func FuzzRow(f *testing.F) {
	for i, c := range channels {
		for _, r := range rowsOf(3, c) {
			b, err := appendRow(nil, r)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(uint8(i), c.variant(r), b)
		}
	}
	f.Fuzz(func(t *testing.T, channel, variant uint8, b []byte) {
		c := channels[int(channel)%len(channels)]
		r, err := (&entry{Channel: channel % uint8(len(channels)), Variant: variant, Group: -1}).row(b)
		if err != nil {
			return
		}
		if _, err := appendRow(nil, r); err != nil {
			t.Fatal(err)
		}
		for _, layout := range []Layout{Padded, Packed} {
			assemble(c, []*Row{r}, layout, Form{}.forChannel(c, layout), 7)
		}
	})
}

// TestForgedRows checks that rows whose parts don't fit together are rejected.
func TestForgedRows(t *testing.T) {
	for name, spoil := range map[string]func(*Row){
		"no side":       func(r *Row) { r.Sides = nil },
		"span":          func(r *Row) { r.Sides[0].Trained[0].End = len(r.Sides[0].IDs) + 1 },
		"negative span": func(r *Row) { r.Sides[0].Trained[0].Start = -1 },
		"no columns":    func(r *Row) { r.Meta.RL, r.Meta.Ref, r.Sides[0].LogProbs = nil, &Ref{}, []float32{1} },
		"owners":        func(r *Row) { r.Meta.Proof = []Proof{{Owners: Owners{{End: -5, Why: Context}}}} },
		"teacher":       func(r *Row) { r.Meta.Sites = append(r.Meta.Sites, RowSite{Teacher: 9}) },
	} {
		for i, c := range channels {
			if name == "teacher" && c != SDPO || name == "no columns" && (c == SFT || c == SDPO) {
				continue // these channels don't have such parts
			}
			r := rowsOf(1, c)[0]
			e := entry{Channel: uint8(i), Variant: c.variant(r), Group: -1}
			spoil(r)
			b, err := appendRow(nil, r)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.row(b); !errors.Is(err, errSpool) {
				t.Errorf("%s %s: %v", c.Name, name, err)
			}
		}
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
