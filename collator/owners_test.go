//go:build tokenizers

package collator

import (
	"slices"
	"testing"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/internal/oracletest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	njson "github.com/nat-go/nat-go/ttc/json"
)

// eachTurn calls f for odd and for real conversations, as some templates show them.
func eachTurn(t *testing.T, f func(w *worker, m *material, v *view)) {
	t.Helper()
	var all [][]ttc.Node
	for _, text := range oddConversations {
		ms, err := chat.ParseMessages(njson.Raw(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, ttc.Chain(ms, ttc.Yes).Nodes)
	}
	for _, ex := range airline(t)[:10] {
		all = append(all, ex.Graph.Nodes)
	}
	for _, name := range []string{"qwen2_5.jinja", "qwen3.jinja", "llama3_1.jinja", "gptoss.jinja", "deepseekv3.jinja"} {
		source := oracletest.Template(t, name)
		c, err := New(Config{
			Tokenizer: familyTokenizer(t, source), Template: source, TemplateVars: airlineVars(), MaxLength: 1 << 20,
			BatchTokens: 1 << 20,
		})
		if err != nil {
			t.Fatal(err)
		}
		w := &worker{Collator: c}
		for _, nodes := range all {
			for _, part := range []part{wholeTurn, answer} {
				m := &material{nodes: nodes, trained: make([]bool, len(nodes)), part: part}
				for i := range nodes {
					m.trained[i] = nodes[i].Message.Role == "assistant" && i%3 > 0
				}
				if w.prepare(m) != nil {
					continue
				}
				if v, r := w.look(c.render, m.conv); r == nil {
					f(w, m, v)
				}
			}
		}
	}
}

// TestOwnersOfEachToken checks that a run of tokens has the owners of each of its tokens.
func TestOwnersOfEachToken(t *testing.T) {
	rows := 0
	eachTurn(t, func(w *worker, m *material, v *view) {
		b := &sideBuilder{w: w, m: m, v: v, own: turns.Template(&v.res)}
		var ranges []chat.Span
		for i := range v.turns {
			if u := v.turns[i]; m.trained[u.Message] {
				b.without = append(b.without, m.contextOf(&u, &v.res)...)
				ranges = append(ranges, turns.Trained(u)...)
			}
		}
		if r := b.text(0, len(v.res.Text), 0); r != nil {
			return
		}
		trained, _ := turns.Tokens(nil, b.offsets, ranges)
		c := ownerCursor{sideBuilder: b, runs: trained, spans: slices.Collect(turns.Fields(&v.res))}
		var want batch.Owners
		for i := range b.ids {
			o := c.owner(i)
			if k := len(want) - 1; k < 0 || want[k].Message != o.Message || want[k].Why != o.Why {
				want = append(want, o)
			}
			want[len(want)-1].End = i + 1
		}
		if got := b.owners(trained); !slices.Equal(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
		rows++
	})
	if rows < 50 {
		t.Errorf("only %d rows", rows)
	}
}

// TestTooLongSides: a side that is only measured is refused for the same reason, or has as many tokens.
func TestTooLongSides(t *testing.T) {
	made, refused := 0, 0
	eachTurn(t, func(w *worker, m *material, v *view) {
		whole, want := w.side(m, v)
		only, got := w.sideUpTo(m, v, 1)
		switch {
		case (want == nil) != (got == nil) || want != nil && *want != *got:
			t.Errorf("measured: %v; made: %v", got, want)
		case want != nil:
			refused++
		case !slices.Equal(only.IDs, whole.IDs):
			t.Errorf("measured %d tokens; made %d", len(only.IDs), len(whole.IDs))
		default:
			made++
		}
	})
	if made < 50 || refused < 5 {
		t.Errorf("%d made, %d refused", made, refused)
	}
}
