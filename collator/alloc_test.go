//go:build tokenizers

package collator

import (
	"strings"
	"testing"
)

// TestNoAllocationPerToken: sixteen times the tokens take a few more steps of growing slices, not more objects.
func TestNoAllocationPerToken(t *testing.T) {
	c, err := New(toyConfig(t, "chatml.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	allocs := func(words int) (n float64, tokens int) {
		w := &Worker{Collator: c}
		m := &material{nodes: nodes(says("user: "+strings.Repeat("word ", words), "assistant: "+strings.Repeat("more ", words))), trained: []bool{false, true}}
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
