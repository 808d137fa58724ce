package collator

import (
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// Because a template's dialect is learned from small conversations, every turn is verified in its own conversation
// before it is trained on. The turn must render the same when the conversation ends there, and must not contain
// another message's text. If the tokenizer restores text, the turn's ids, and separately the ids just before them,
// must decode to the text that they were made from. A turn that fails this check isn't trained on.

// edgeTokens is the number of tokens before a turn that are decoded along with it. It exceeds the length of any
// generation prompt.
const edgeTokens = 24

// proveTurns verifies the trained turns whose ids do not come from the source.
func (b *sideBuilder) proveTurns() *cause {
	for i := range b.v.turns {
		t := &b.v.turns[i]
		n := &b.m.nodes[t.Message]
		if !b.m.trained[t.Message] || len(n.TokenIDs) > 0 && n.Sampled != ttc.No {
			continue
		}
		if !b.v.sampled[t.Message] && !b.v.stable(b.m.conv, t) {
			return b.unproven(t, "the turn renders differently when the conversation ends there")
		}
		if why := b.cutOut(t); why != "" {
			return b.unproven(t, why)
		}
	}
	return nil
}

func (b *sideBuilder) unproven(t *turns.Turn, why string) *cause {
	return refuse(DialectUnproven, "message %d: %s", b.m.place(t.Message), why)
}

// cutOut compares a turn's tokens, and the ones just before it, with the text they were made from. It returns a
// description of the difference, or "" if they match.
func (b *sideBuilder) cutOut(t *turns.Turn) string {
	text, spans := b.v.res.Text, b.v.res.Spans
	i := sort.Search(len(spans), func(i int) bool { return spans[i].End > t.Start })
	for ; i < len(spans) && spans[i].Start < t.End; i++ {
		s := &spans[i]
		said := strings.HasPrefix(s.Field, "content") || strings.Contains(s.Field, "arguments")
		if s.Message >= 0 && s.Message != t.Message && said {
			return "the turn contains text from another message"
		}
	}
	if !b.w.restores {
		return "" // the tokenizer does not decode to the original text
	}
	from := sort.Search(len(b.offsets), func(i int) bool { return b.offsets[i].Start >= t.Start })
	to := from + sort.Search(len(b.offsets)-from, func(i int) bool { return b.offsets[from+i].Start >= t.End })
	if from == to {
		return "" // another check rejects a turn without tokens
	}
	start := b.offsets[from].Start // skip filler that shares a token with the end of the prompt
	if !b.decodesTo(from, to, text[start:t.End]) {
		return "the turn's tokens decode to different text"
	}
	k := max(0, from-edgeTokens)
	for k < from && (b.offsets[k].Start == b.offsets[k].End || k > 0 && b.offsets[k-1].End > b.offsets[k].Start ||
		!utf8.RuneStart(text[b.offsets[k].Start])) {
		k++ // skip ids from the source and positions inside a character
	}
	given := func(o chat.Span) bool { return o.Start == o.End }
	if k == from || slices.ContainsFunc(b.offsets[k:from], given) {
		return ""
	}
	if !b.decodesTo(k, from, text[b.offsets[k].Start:start]) {
		return "the tokens before the turn decode to text other than the model's input"
	}
	return ""
}

// decodesTo reports whether tokens [from, to) decode to text. Canonically equivalent Unicode strings count as equal,
// because many tokenizers normalise accented letters.
func (b *sideBuilder) decodesTo(from, to int, text string) bool {
	if b.w.decodesTo(b.ids[from:to], text) {
		return true
	}
	got, err := b.w.cfg.Tokenizer.Decode(b.ids[from:to], false)
	return err == nil && !ascii(text) && norm.NFC.String(got) == norm.NFC.String(text)
}
