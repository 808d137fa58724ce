package curate

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/property"
)

// TestHold checks that, for a validation side that is kept, all records present on it validate, whatever else is
// dropped; that nothing else does; and that nothing in training shares an example, a prompt or, if requested, a task
// with any of them, or with one that isn't present. Without it, nothing changes.
func TestHold(t *testing.T) {
	dir := t.TempDir()
	property.Check(t, func(rt *rapid.T) {
		record := rapid.Custom(func(rt *rapid.T) rec {
			small := func(name string, n int) int { return rapid.IntRange(0, n).Draw(rt, name) }
			return rec{
				Kind:     builders.KindPreference,
				Prompt:   small("prompt", 30),
				Chosen:   small("chosen", 3),
				Rejected: small("rejected", 3),
				Score:    small("score", 1),
				Task:     small("task", 12),
				Example:  small("example", 40),
			}
		})
		recs := rapid.SliceOfN(record, 1, 60).Draw(rt, "records")
		held := rapid.SliceOfN(record, 1, 5).Draw(rt, "held elsewhere")
		for _, r := range recs {
			if rapid.IntRange(0, 7).Draw(rt, "held") == 0 {
				held = append(held, r)
			}
		}
		by := rapid.SampledFrom([]By{ByExample, ByTask}).Draw(rt, "by")
		rules := Rules{
			Dedupe:         rapid.Bool().Draw(rt, "dedupe"),
			Contradictions: rapid.Bool().Draw(rt, "contradictions"),
			MaxPairs:       int64(rapid.SampledFrom([]int{0, 0, 20}).Draw(rt, "max")),
			Split: Split{
				By:         by,
				Validation: 0.2,
			},
			Hold: true,
		}
		x := NewIndex(rules, dir)
		defer x.Close()
		for i, r := range recs {
			if err := x.Add(r.entry(i)); err != nil {
				rt.Fatal(err)
			}
		}
		isHeld, prompts, examples, tasks := map[[16]byte]bool{}, map[int]bool{}, map[int]bool{}, map[int]bool{}
		for _, r := range held {
			isHeld[r.content()], prompts[r.Prompt], examples[r.Example], tasks[r.Task] = true, true, true, true
			if err := x.Hold(r.entry(0)); err != nil {
				rt.Fatal(err)
			}
		}
		d, err := x.Decide()
		if err != nil {
			rt.Fatal(err)
		}
		kept := map[[16]byte]bool{}
		for i, r := range recs {
			at := d.At(uint64(i))
			kept[r.content()] = kept[r.content()] || at.Validates()
			switch {
			case at.Validates() != (at.Kept() && isHeld[r.content()]):
				rt.Fatalf("record %d: %v, held %v", i, at, isHeld[r.content()])
			case at.Trains() && (prompts[r.Prompt] || examples[r.Example] || by == ByTask && tasks[r.Task]):
				rt.Fatalf("record %d trains and shares something with what is held", i)
			}
		}
		if rules.MaxPairs > 0 && len(held) > int(rules.MaxPairs) {
			return
		}
		for i, r := range recs {
			if isHeld[r.content()] && !kept[r.content()] {
				rt.Fatalf("record %d is of the validation side that is kept, and was dropped", i)
			}
		}
	})
}
