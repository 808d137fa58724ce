package emit

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Output passes a builder's results on until an error occurs, which it keeps in Err. Build must return Err.
type Output struct {
	To  builders.Output
	Err error
}

// Record emits a record.
func (o *Output) Record(r builders.Record) {
	if o.Err == nil {
		o.Err = o.To.Record(r)
	}
}

// Drop emits a drop.
func (o *Output) Drop(d ledger.Drop) {
	if o.Err == nil {
		o.Err = o.To.Drop(d)
	}
}

// Count adds n to a counter. It doesn't create the counter if n is 0.
func (o *Output) Count(name string, n int64) {
	if o.Err == nil && n != 0 {
		o.Err = o.To.Count(name, n)
	}
}

// Fail ends the build with an error, which drops the group for this builder.
func (o *Output) Fail(err error) {
	if o.Err == nil {
		o.Err = err
	}
}

// Over reports whether the build must stop because of an error or because ctx is done.
func (o *Output) Over(ctx context.Context) bool {
	o.Fail(ctx.Err())
	return o.Err != nil
}

// Remark returns a remark for the user with a counted quantity, or none if the count is 0.
func Remark(n int64, unit, text string) []string {
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf(text, ledger.Quantity(n, unit))}
}

// Span returns a reference to the messages from the root of an example's graph to a node, without the first skip.
func Span(example, last, skip int) builders.Content {
	return builders.Content{Ref: builders.Ref{Part: builders.NodeSpan, Example: example, Last: last, Skip: skip}}
}

// Inline returns messages as inline content.
func Inline(messages ...chat.Message) builders.Content {
	return builders.Content{Ref: builders.Ref{Part: builders.InlineMessages}, Messages: messages}
}

// Answered returns a candidate's prompt and output as messages. They are inline, because a reference cannot cover
// both.
func Answered(c *ttc.Candidate) builders.Content {
	messages := slices.Clone(c.Prompt.Messages)
	if c.Prompt.Form == ttc.TextPrompt {
		messages = []chat.Message{{Role: "user", Form: chat.Text, Text: c.Prompt.Text}}
	}
	return Inline(append(messages, chat.Message{Role: "assistant", Form: chat.Text, Text: c.Output})...)
}

// Unusable returns, for each candidate of an example, the reason why its answer can't be trained on, or "". It checks
// the candidates of a turn together. If step isn't "", it checks only candidates from that step.
func Unusable(ex *ttc.Example, step string, answerInPrompt string) []ledger.Reason {
	turns := map[string][]int{}
	for i := range ex.Candidates {
		if c := &ex.Candidates[i]; step == "" || c.Step == step {
			turns[c.Turn] = append(turns[c.Turn], i)
		}
	}
	why := make([]ledger.Reason, len(ex.Candidates))
	cfg := pairs.FilterConfig{KeepAnswerInPrompt: answerInPrompt == "keep", KeepEndings: true}
	for _, turn := range turns {
		_, f := pairs.Usable(ex.Candidates, turn, cfg)
		for _, o := range f.Out {
			why[o.Candidate] = o.Reason
		}
	}
	return why
}

// IsTurn reports whether the model sampled a message.
func IsTurn(n *ttc.Node) bool { return n.Message.Role == "assistant" && n.Sampled != ttc.No }

// HasTurn reports whether the model sampled any message of a graph.
func HasTurn(g *ttc.Graph) bool {
	return slices.ContainsFunc(g.Nodes, func(n ttc.Node) bool { return IsTurn(&n) })
}

// Finite reports whether a score is a finite number.
func Finite(score float64) bool { return !math.IsNaN(score) && !math.IsInf(score, 0) }

// Brief returns at most the given number of bytes of s, and an ellipsis if it is longer.
func Brief(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// Object returns an object's text, or {} if it is missing.
func Object(raw json.Raw) json.Raw {
	if raw == nil {
		return json.Raw("{}")
	}
	return raw
}

// HashNumber adds a number to a hash.
func HashNumber(h *xxh3.Hasher, n int) {
	_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, uint64(n)))
}

// HashTexts adds texts to a hash, each with its length.
func HashTexts(h *xxh3.Hasher, texts ...string) {
	for _, text := range texts {
		HashNumber(h, len(text))
		_, _ = h.WriteString(text)
	}
}
