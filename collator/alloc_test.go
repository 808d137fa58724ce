//go:build tokenizers

package collator

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// TestNoAllocationPerToken: with sixteen times the tokens, slices grow in a few more steps, but no more objects are
// allocated.
func TestNoAllocationPerToken(t *testing.T) {
	c, err := New(toyConfig(t, "chatml.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	allocs := func(words int) (n float64, tokens int) {
		w := &worker{Collator: c}
		m := &material{
			nodes:   nodes(says("user: "+strings.Repeat("word ", words), "assistant: "+strings.Repeat("more ", words))),
			trained: []bool{false, true},
		}
		if r := w.prepare(m); r != nil {
			t.Fatal(r)
		}
		v, r := w.look(c.render, m.conv)
		if r != nil {
			t.Fatal(r)
		}
		n = testing.AllocsPerRun(20, func() {
			s, r := w.side(m, v)
			if r != nil {
				t.Fatal(r)
			}
			tokens = len(s.IDs)
		})
		return n, tokens
	}
	few, short := allocs(10)
	many, long := allocs(160)
	if long < 10*short || many > few+30 {
		t.Errorf("%v allocations for %d tokens, %v for %d", few, short, many, long)
	}
}

// TestSitesMemoryIsFlat: six times as many traces need no more memory at any moment.
func TestSitesMemoryIsFlat(t *testing.T) {
	peak := func(traces int) (most uint64) {
		cfg := toyConfig(t, "chatml.jinja")
		c, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Repeat("what the user wants, at length ", 60)
		items := func(yield func([]Item, error) bool) {
			for i := range traces {
				if i%20 == 0 {
					var m runtime.MemStats
					runtime.GC()
					runtime.ReadMemStats(&m)
					most = max(most, m.HeapAlloc)
				}
				ms := append(says("user: "+text), bugHunt[1:]...)
				if !yield([]Item{
					distillation(fmt.Sprint(i), nodes(ms), failedSite(1, 2, "Tools: edit."),
						failedSite(3, 4, "Edit takes a line.")),
				}, nil) {
					return
				}
			}
		}
		if _, err := c.Collate(context.Background(), items, t.TempDir(), t.TempDir(), nil); err != nil {
			t.Fatal(err)
		}
		return most
	}
	few := peak(40)
	runtime.GC() // twice, which empties the pool that the first call's batches have filled
	runtime.GC()
	many := peak(240)
	if many > few+few/4 {
		t.Errorf("%d bytes for 40 traces, %d for 240", few, many)
	}
	t.Logf("%d KiB for 40 traces, %d KiB for 240", few>>10, many>>10)
}
