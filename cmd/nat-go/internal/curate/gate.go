package curate

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Gate checks whether a record from any builder is fit for training. It returns "" if so, otherwise the reason and a
// one-line explanation.
func Gate(r *builders.Resolved) (reason ledger.Reason, detail string) {
	var f fault
	switch record := r.Record.(type) {
	case *builders.Preference:
		f = gatePreference(record, r)
	case *builders.Demonstration:
		f = gateDemonstration(record, r.Messages)
	case *builders.Rollout:
		f = gateRollout(record, r.Messages)
	case *builders.Distillation:
		f = gateDistillation(record, r.Messages)
	case *builders.State:
		f = promptFault(&r.Messages)
	default:
		f = faultf(ledger.BadRecord, "unknown kind of record")
	}
	return f.reason, f.detail
}

// fault is the reason why a record is unfit. The zero value means that it is fit.
type fault struct {
	reason ledger.Reason
	detail string
}

func faultf(r ledger.Reason, format string, a ...any) fault {
	return fault{r, fmt.Sprintf(format, a...)}
}

func (f fault) found() bool { return f.reason != "" }

func gatePreference(p *builders.Preference, r *builders.Resolved) fault {
	switch {
	case !finite(p.ChosenScore) || !finite(p.RejectedScore):
		return faultf(ledger.NonFiniteScore, "scores %v and %v", p.ChosenScore, p.RejectedScore)
	case !finite(p.Reward):
		return faultf(ledger.BadRecord, "invalid reward %v", p.Reward)
	case p.ChosenScore == p.RejectedScore:
		return faultf(pairs.Tie, "both sides score %v", p.ChosenScore)
	}
	f := cmp.Or(promptFault(&r.Prompt),
		answerFault("chosen side", &r.Chosen), answerFault("rejected side", &r.Rejected))
	if !f.found() && sameAnswer(&r.Chosen, &r.Rejected) {
		return faultf(ledger.SameText, "chosen and rejected are equal")
	}
	return f
}

func gateDemonstration(d *builders.Demonstration, p builders.Passage) fault {
	switch {
	case !finite(d.Weight) || d.Weight < 0:
		return faultf(ledger.BadRecord, "invalid weight %v", d.Weight)
	case d.Score != nil && !finite(*d.Score):
		return faultf(ledger.NonFiniteScore, "invalid score %v", *d.Score)
	case d.Train > builders.TrainFlagged:
		return faultf(ledger.BadRecord, "unknown loss policy %d", d.Train)
	}
	if f := conversationFault(p); f.found() || d.Train != builders.TrainFlagged {
		return f
	}
	if len(d.Trained) != len(p.Nodes) {
		return faultf(ledger.BadRecord, "%d flags for %d messages", len(d.Trained), len(p.Nodes))
	}
	for i, trained := range d.Trained {
		if role := p.Nodes[i].Message.Role; trained && role != "assistant" {
			return faultf(ledger.BadRoles, "message %d is flagged for training, but its role is %s", i, role)
		}
	}
	if !slices.Contains(d.Trained, true) {
		return faultf(ledger.BadRecord, "no message is flagged for training")
	}
	return fault{}
}

func gateRollout(r *builders.Rollout, p builders.Passage) fault {
	if r.Reward != nil && !finite(*r.Reward) {
		return faultf(ledger.BadRecord, "invalid reward %v", *r.Reward)
	}
	return conversationFault(p)
}

func gateDistillation(d *builders.Distillation, p builders.Passage) fault {
	if f := conversationFault(p); f.found() {
		return f
	}
	if len(d.Sites) == 0 {
		return faultf(ledger.BadRecord, "no error site")
	}
	for i, s := range d.Sites {
		if f := siteFault(p.Nodes, s); f.found() {
			return fault{f.reason, fmt.Sprintf("site %d: %s", i, f.detail)}
		}
	}
	return fault{}
}

func siteFault(nodes []ttc.Node, s builders.Site) fault {
	within := func(i int) bool { return i >= 0 && i < len(nodes) }
	alone := s.Result == -1 && s.Target == builders.FailedTurn // the error is in the call itself
	if !within(s.Call) || !alone && (!within(s.Result) || s.Call >= s.Result) {
		return faultf(ledger.BadRecord, "invalid call %d or result %d among %d messages", s.Call, s.Result, len(nodes))
	}
	call := &nodes[s.Call].Message
	switch {
	case call.Role != "assistant" || s.CallSeq >= len(call.ToolCalls) ||
		s.CallSeq < 0 && (s.CallSeq != -1 || len(call.ToolCalls) > 0):
		return faultf(ledger.BadRoles, "message %d has no tool call %d", s.Call, s.CallSeq)
	case !alone && nodes[s.Result].Message.Role == "assistant":
		return faultf(ledger.BadRoles, "expected a tool's result or a user's report in message %d, got an "+
			"assistant message", s.Result)
	case s.Target > builders.NextTurn || s.HintKind > builders.Hindsight:
		return faultf(ledger.BadRecord, "unknown target %d or kind of hint %d", s.Target, s.HintKind)
	case blank(s.Hint):
		return faultf(ledger.BadRecord, "empty hint")
	}
	return fault{}
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// promptFault checks that a prompt can be answered. It must be text that isn't blank, or messages that include one
// from the user and don't end with one from the assistant. An empty list of messages is also valid, because the model
// may speak first.
func promptFault(p *builders.Passage) fault {
	if p.IsText() {
		if blank(p.Text) {
			return faultf(ledger.BadRecord, "empty prompt")
		}
		return fault{}
	}
	if len(p.Nodes) == 0 {
		return fault{}
	}
	if f := rolesFault(p.Nodes); f.found() {
		return f
	}
	if last := len(p.Nodes) - 1; p.Nodes[last].Message.Role == "assistant" {
		return faultf(ledger.BadRoles,
			"prompt ends with the assistant's message %d, so there is nothing left to answer", last)
	}
	return fault{}
}

// answerFault checks one side of a preference. It must be text that isn't blank, or messages that begin and end with
// one from the assistant. At least one message from the assistant must have content.
func answerFault(what string, p *builders.Passage) fault {
	if p.IsText() {
		if blank(p.Text) {
			return faultf(ledger.EmptyResponse, "empty %s", what)
		}
		return fault{}
	}
	content := false
	for i := range p.Nodes {
		m := &p.Nodes[i].Message
		if !isKnownRole(m.Role) {
			return faultf(ledger.BadRoles, "unknown role %[2]q in the %[1]s at message %[3]d", what, m.Role, i)
		}
		if edge := i == 0 || i == len(p.Nodes)-1; edge && m.Role != "assistant" {
			return faultf(ledger.BadRoles, "expected an assistant message at both ends of the %s, got role %s in "+
				"message %d", what, m.Role, i)
		}
		content = content || m.Role == "assistant" && hasContent(m)
	}
	if !content {
		return faultf(ledger.EmptyResponse, "empty %s", what)
	}
	return fault{}
}

// conversationFault checks a whole conversation. It must contain a message from the user, and a message with content
// from the assistant.
func conversationFault(p builders.Passage) fault {
	if p.IsText() {
		return faultf(ledger.BadRecord, "expected a conversation of messages, got text")
	}
	if f := rolesFault(p.Nodes); f.found() {
		return f
	}
	answers := 0
	for i := range p.Nodes {
		m := &p.Nodes[i].Message
		if m.Role != "assistant" {
			continue
		}
		answers++
		if hasContent(m) {
			return fault{}
		}
	}
	if answers == 0 {
		return faultf(ledger.BadRoles, "no message is from the assistant")
	}
	return faultf(ledger.EmptyResponse, "all messages from the assistant are empty (%d)", answers)
}

// rolesFault checks that all roles are known, that at least one message is from the user, and that no tool result
// precedes the assistant's first message.
func rolesFault(nodes []ttc.Node) fault {
	if len(nodes) == 0 {
		return faultf(ledger.BadRecord, "no messages")
	}
	user, assistant := false, false
	for i := range nodes {
		switch role := nodes[i].Message.Role; role {
		case "user":
			user = true
		case "assistant":
			assistant = true
		case "tool", "function":
			if !assistant {
				return faultf(ledger.BadRoles, "message %d is a tool's result, but no message before it is from the assistant", i)
			}
		default:
			if !isKnownRole(role) {
				return faultf(ledger.BadRoles, "unknown role %[2]q of message %[1]d", i, role)
			}
		}
	}
	if !user {
		return faultf(ledger.BadRoles, "no message is from the user")
	}
	return fault{}
}

func isKnownRole(role string) bool {
	switch role {
	case "system", "developer", "user", "assistant", "tool", "function":
		return true
	}
	return false
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// hasContent reports whether a message carries any text, part, reasoning or call.
func hasContent(m *chat.Message) bool {
	if len(m.ToolCalls) > 0 || !blank(m.Reasoning) {
		return true
	}
	switch m.Form {
	case chat.Text:
		return !blank(m.Text)
	case chat.Parts:
		return slices.ContainsFunc(m.Parts, func(p chat.Part) bool { return p.Type != "text" || !blank(p.Text) })
	}
	return false
}

// sameAnswer reports whether two sides would train a model on the same text. Call ids are ignored, because they are
// random and differ between otherwise identical answers.
func sameAnswer(a, b *builders.Passage) bool {
	if a.IsText() != b.IsText() {
		if b.IsText() {
			a, b = b, a
		}
		return len(b.Nodes) == 1 &&
			SameMessage(&chat.Message{Role: "assistant", Form: chat.Text, Text: a.Text}, &b.Nodes[0].Message)
	}
	if a.IsText() {
		return a.Text == b.Text
	}
	return slices.EqualFunc(a.Nodes, b.Nodes, func(x, y ttc.Node) bool { return SameMessage(&x.Message, &y.Message) })
}

// SameMessage reports whether two messages would train a model on the same text, regardless of their call ids.
func SameMessage(a, b *chat.Message) bool {
	// The JSON form of content isn't compared, because absent content, null and "" are the same text.
	return a.Role == b.Role && a.Text == b.Text && a.Reasoning == b.Reasoning &&
		slices.EqualFunc(a.Parts, b.Parts,
			func(x, y chat.Part) bool { return x.Type == y.Type && x.Text == y.Text && bytes.Equal(x.Raw, y.Raw) }) &&
		slices.EqualFunc(a.ToolCalls, b.ToolCalls,
			func(x, y chat.ToolCall) bool { return x.Name == y.Name && x.Arguments == y.Arguments })
}

// Gates configures the checks on individual records, before records are compared.
type Gates struct {
	Unfit       bool         // refuse records that Gate finds unfit; NAT doesn't
	MinFidelity ttc.Fidelity // minimum fidelity of a record's trace
	// Overlaps describes, by ordinal, the benchmark overlaps of the first records that were dropped as contaminated.
	Overlaps map[uint64]string
}

// Refuse returns "" for a record that passes, otherwise the reason and a one-line explanation.
func (x Gates) Refuse(r *builders.Resolved) (reason ledger.Reason, detail string) {
	if x.Unfit {
		if reason, detail = Gate(r); reason != "" {
			return reason, detail
		}
	}
	has := r.Fidelity()
	if has >= x.MinFidelity {
		return "", ""
	}
	detail = has.String() + ", not " + x.MinFidelity.String()
	if names := r.Gaps(); names != nil {
		detail += ": " + strings.Join(names, ", ")
	}
	return lowFidelity, detail
}

// StageOf returns the stage that drops records for a reason, which is ledger.Gate or ledger.Curate.
func StageOf(r ledger.Reason) ledger.Stage {
	switch r {
	case duplicate, Contradiction, notSampled, rejected, Held, Contaminated:
		return ledger.Curate
	}
	return ledger.Gate
}

// EachDrop calls report for each dropped record in a group. gates must be the ones used for the decisions.
func (d *Decisions) EachDrop(g *recordlog.Group, gates Gates, report func(ledger.Drop)) {
	for i := range g.Records {
		reason, dropped := d.At(g.First + uint64(i)).Reason()
		if !dropped {
			continue
		}
		rec := &g.Records[i]
		o := rec.Origin
		drop := ledger.Drop{
			Stage: StageOf(reason), Reason: reason, Unit: "record", Run: o.Run, Example: o.Example,
			Turn: rec.Record.Header().Turn, Index: -1, Builder: o.Builder, File: o.File, Offset: o.Offset,
		}
		if drop.Stage == ledger.Gate {
			_, drop.Detail = gates.Refuse(rec)
		}
		if reason == Contaminated {
			drop.Detail = gates.Overlaps[g.First+uint64(i)]
		}
		report(drop)
	}
}
