package collator

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// The values of args_roundtrip describe how faithfully tool-call arguments are rendered. Arguments printed from their
// parsed value may have different text.
const (
	argsNone  = "none"  // no calls
	argsExact = "exact" // printed as the sampled text, except for white space between tokens
	argsValue = "value" // printed with the same value but different text
	argsRaw   = "raw"   // printed from the unparsed string
)

// conversation converts messages to template input.
func conversation(messages []chat.Message) (*turns.Conversation, error) {
	values, err := template.Conversation(messages)
	return &turns.Conversation{Messages: values}, err
}

// material is a conversation to be made into rows.
type material struct {
	nodes   []ttc.Node
	trained []bool // whether each message is trained on; only assistant messages can be
	part    part   // the part of trained messages that is in the loss
	tools   []chat.Tool
	// elsewhere marks the trained messages of the record if each has its own row; nil if one row trains on all of them.
	elsewhere []bool
	// index of each node in the record's messages; nil if nothing was cut out
	index []int

	conv *turns.Conversation
	args string
	ids  bool // call ids were replaced; see shortID
	// apart means that a trained turn is encoded separately from the model input that precedes it, as in sampling,
	// because joint encoding would yield a token that spans the boundary.
	apart bool
}

// prepare checks a conversation and converts it to template input.
func (w *worker) prepare(m *material) *cause {
	messages := make([]chat.Message, len(m.nodes))
	m.args = argsNone
	for i := range m.nodes {
		messages[i] = m.nodes[i].Message
		msg := &messages[i]
		if msg.Role == "" { // there is no default role (DEFECTS.md, D27)
			return refuse(ledger.BadRoles, "message %d has no role", i)
		}
		for _, p := range msg.Parts {
			if p.Type != "text" {
				return refuse(ContentNotText, "message %d has a part of type %q", i, p.Type)
			}
		}
		msg.ToolCalls = slices.Clone(msg.ToolCalls)
		for k := range msg.ToolCalls {
			if r := w.arguments(m, &msg.ToolCalls[k], i); r != nil {
				return r
			}
		}
		if w.render.ShortIDs() {
			m.ids = shortenIDs(msg) || m.ids
		}
	}
	var err error
	if m.conv, err = conversation(messages); err == nil {
		m.conv.Tools, err = w.toolList(m.tools)
	}
	if err != nil {
		return refuse(TemplateRefused, "%v", err)
	}
	return nil
}

// toolList converts tools to template input. Most conversations have the same tools as the previous one.
func (w *worker) toolList(tools []chat.Tool) (pyvalue.Value, error) {
	if slices.EqualFunc(tools, w.tools, func(a, b chat.Tool) bool { return bytes.Equal(a.Raw, b.Raw) }) {
		return w.toolValue, nil
	}
	v, err := template.ToolList(tools)
	if err == nil {
		w.tools, w.toolValue = tools, v
	}
	return v, err
}

// shortIDLength is the exact number of letters and digits in the call ids that some templates require.
const shortIDLength = 9

// shortID returns an id of shortIDLength characters, taken from the beginning of the original's SHA-256, so that a call
// and its result still match. An id that already has that length is returned unchanged.
func shortID(id string) string {
	if len(id) == shortIDLength {
		return id
	}
	return hexSum(id)[:shortIDLength]
}

// shortenIDs shortens the ids in a message and reports whether any changed. The message must own its calls.
func shortenIDs(m *chat.Message) (mapped bool) {
	shorten := func(id *string) {
		long := *id
		*id = shortID(long)
		mapped = mapped || *id != long
	}
	for k := range m.ToolCalls {
		shorten(&m.ToolCalls[k].ID)
	}
	if m.ToolCallID != "" {
		shorten(&m.ToolCallID)
	}
	return mapped
}

// hasLongID reports whether shortenIDs would change a message.
func hasLongID(n ttc.Node) bool {
	m := n.Message
	m.ToolCalls = slices.Clone(m.ToolCalls)
	return shortenIDs(&m)
}

// arguments decides how a call's arguments are rendered.
func (w *worker) arguments(m *material, call *chat.ToolCall, message int) *cause {
	how := ""
	if !w.render.RawArguments() {
		how = argumentsOf(call)
	}
	if how == "" {
		if !w.passesArgs {
			return refuse(ArgsUnrenderable, "message %d calls %s with arguments that are not JSON, or change when parsed", message, call.Name)
		}
		call.Parsed, how = nil, argsRaw // the template gets the unparsed string
	}
	if m.args == argsNone || how == argsRaw || how == argsValue && m.args == argsExact {
		m.args = how
	}
	return nil
}

// argumentsOf returns how faithfully a call's arguments are printed after parsing, or "" if they can't be parsed
// or their value changes.
func argumentsOf(call *chat.ToolCall) string {
	if call.Parsed == nil || repeatsKeys(call.Parsed) {
		return ""
	}
	v, err := pyvalue.Parse(call.Parsed)
	if err != nil {
		return ""
	}
	printed, err := pyvalue.Dumps(v)
	if err != nil {
		return ""
	}
	raw, err := json.Parse([]byte(printed), json.Limits{})
	if err != nil {
		return ""
	}
	if string(json.AppendCompact(nil, raw)) == string(json.AppendCompact(nil, call.Parsed)) {
		return argsExact
	}
	again, err := pyvalue.Parse(raw)
	if err != nil {
		return ""
	}
	if same, err := pyvalue.Equal(v, again); err != nil || !same {
		return ""
	}
	return argsValue
}

// repeatsKeys reports whether any object within v has duplicate keys. Parsing would keep only one of their values.
func repeatsKeys(v json.Raw) bool {
	switch v.Kind() {
	case json.Object:
		seen := map[string]bool{}
		for k, member := range v.Members() {
			key, _ := k.Text()
			if seen[key] || repeatsKeys(member) {
				return true
			}
			seen[key] = true
		}
	case json.Array:
		for e := range v.Elements() {
			if repeatsKeys(e) {
				return true
			}
		}
	}
	return false
}

// nodesOf returns a passage's messages. Text counts as one message with the given role.
func nodesOf(p builders.Passage, role string, sampled ttc.Sampled) []ttc.Node {
	if !p.IsText() {
		return p.Nodes
	}
	return []ttc.Node{{Parent: -1, Sampled: sampled, Message: chat.Message{Role: role, Form: chat.Text, Text: p.Text}}}
}

// policyOf returns "same", "other" or "unknown", depending on whether the model to be trained sampled a node.
func (c *Collator) policyOf(policy, fallback string) string {
	policy = cmp.Or(policy, fallback)
	switch {
	case policy == "" || c.cfg.Policy == "":
		return "unknown"
	case policy == c.cfg.Policy:
		return "same"
	}
	return "other"
}

// onPolicy returns "same", "other" or "unknown", depending on whether the model to be trained sampled all trained
// nodes.
func (c *Collator) onPolicy(nodes []ttc.Node, trained []bool, fallback string) string {
	all := ""
	for i := range nodes {
		if trained[i] {
			all = bothPolicies(all, c.policyOf(nodes[i].Policy, fallback))
		}
	}
	return all
}

// bothPolicies returns "same", "other" or "unknown", depending on whether the model to be trained sampled both of two
// passages. a may be empty.
func bothPolicies(a, b string) string {
	switch {
	case a == "" || a == b:
		return b
	case a == "other" || b == "other":
		return "other"
	}
	return "unknown"
}

// fidelity returns the fidelity that a source states, lowered if a row doesn't use sampled ids or log-probs.
func fidelity(stated ttc.Fidelity, sampled, logProbs bool) string {
	f := stated
	switch {
	case !sampled:
		f = min(f, ttc.TextOnly)
	case !logProbs:
		f = min(f, ttc.IDs)
	}
	return f.String()
}

func describe(i int, n *ttc.Node) string { return fmt.Sprintf("message %d (%s)", i, n.Message.Role) }
