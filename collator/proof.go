package collator

import (
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// What is known of a template was learned from small conversations. Before a turn is trained it is proved on the
// conversation at hand, from the tokens: its ids are cut out of the row's, decoded, and compared with what the template
// shows of the turn, rendered as the last one behind what the model was given. A turn for which that fails is not
// trained.

// edge is how many tokens before a turn are decoded with it: more than a generation prompt has.
const edge = 24

// proveTurns proves the trained turns that have no ids of the source's.
func (b *sideBuilder) proveTurns() *cause {
	for i := range b.v.turns {
		t := &b.v.turns[i]
		n := &b.m.nodes[t.Message]
		if !b.m.trained[t.Message] || len(n.TokenIDs) > 0 && n.Sampled != ttc.No {
			continue
		}
		if !b.v.sampled[t.Message] {
			if ok, err := b.v.r.Stable(b.m.conv, &b.v.res, t); err != nil || !ok {
				return b.unproven(t, "rendered up to there, the conversation has it otherwise than the whole")
			}
		}
		if why := b.cutOut(t); why != "" {
			return b.unproven(t, why)
		}
	}
	return nil
}

func (b *sideBuilder) unproven(t *turns.Turn, why string) *cause {
	return refuse(DialectUnproven, "the turn of message %d: %s", b.m.place(t.Message), why)
}

// cutOut compares the tokens of a turn, and those just before it, with the text that they were made of. It says what
// differs.
func (b *sideBuilder) cutOut(t *turns.Turn) string {
	text, spans := b.v.res.Text, b.v.res.Spans
	i := sort.Search(len(spans), func(i int) bool { return spans[i].End > t.Start })
	for ; i < len(spans) && spans[i].Start < t.End; i++ {
		s := &spans[i]
		said := strings.HasPrefix(s.Field, "content") || strings.Contains(s.Field, "arguments")
		if s.Message >= 0 && s.Message != t.Message && said {
			return "text of another message stands in it"
		}
	}
	if !b.w.restores {
		return "" // what such a tokenizer decodes is another text, always
	}
	from := sort.Search(len(b.offsets), func(i int) bool { return b.offsets[i].Start >= t.Start })
	to := from + sort.Search(len(b.offsets)-from, func(i int) bool { return b.offsets[from+i].Start >= t.End })
	if from == to {
		return "" // there is nothing to train, which is refused elsewhere
	}
	start := b.offsets[from].Start // behind filler that shares a token with the prompt's end
	if !b.standsFor(from, to, text[start:t.End]) {
		return "its tokens stand for another text"
	}
	k := max(0, from-edge)
	for k < from && (b.offsets[k].Start == b.offsets[k].End || k > 0 && b.offsets[k-1].End > b.offsets[k].Start ||
		!utf8.RuneStart(text[b.offsets[k].Start])) {
		k++ // an id of the source's, or within a character
	}
	given := func(o chat.Span) bool { return o.Start == o.End }
	if k == from || slices.ContainsFunc(b.offsets[k:from], given) {
		return ""
	}
	if !b.standsFor(k, from, text[b.offsets[k].Start:start]) {
		return "the tokens before it stand for another text than the model was given"
	}
	return ""
}

// standsFor reports whether tokens from to to decode to a text.
func (b *sideBuilder) standsFor(from, to int, text string) bool {
	return b.w.decodesTo(b.ids[from:to], text)
}
