package otlp

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
)

// traces holds the spans of one session.
type traces struct {
	r        *reader
	out      *calls.Session
	spans    map[string]*span // spans, by trace and id
	order    []*span          // sorted by time
	agents   map[*span]string // names of sub-agents, unique in the session
	inner    map[*span]bool   // calls that merely wrap another call
	failed   map[string]bool  // whether each tool call failed, by call id
	failures map[string]bool  // text of each failed result whose call id isn't recorded
	calls    []recorded
	wrote    map[string]*chat.Message // answers with calls, by the id of the first call
}

// repeated is the factor by which the limits on objects are raised for JSON in the spans' strings, in which each
// call repeats its history.
const repeated = 5

// session builds the session from stored items.
func (r *reader) session(g session.Group) []*calls.Session {
	t := &traces{
		r: r, spans: map[string]*span{}, agents: map[*span]string{}, inner: map[*span]bool{},
		failed: map[string]bool{}, failures: map[string]bool{}, wrote: map[string]*chat.Message{},
	}
	for _, part := range g.Parts {
		switch part.JSON[0] {
		case spanItem:
			t.add(spanOf(part))
		case largeItem:
			const detail = "a single span or log record of the session is too large"
			r.tally.DropSession(session.SessionTooLong, detail, "", part.Path, part.Offset)
			return nil
		}
	}
	for _, part := range g.Parts {
		if part.JSON[0] == logItem {
			t.addEvent(part)
		}
	}
	if len(t.spans) == 0 {
		return nil
	}
	t.order = slices.SortedFunc(maps.Values(t.spans), func(a, b *span) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.trace, b.trace), cmp.Compare(a.id, b.id))
	})
	t.out = r.limits.New(r.sessions.NameOf(t.order[0].trace))
	t.examine()
	most, inTexts := repeated*r.limits.MaxObjects, int64(0)
	for _, s := range t.order {
		if inTexts += s.objectsInTexts(most); inTexts > most {
			detail := fmt.Sprintf("the JSON strings in the session's spans contain more than %d objects and lists: "+
				"raise sources.*.max_session_objects", most)
			r.tally.DropSession(session.SessionTooLong, detail, t.out.ID, s.path, s.offset)
			return nil
		}
	}
	for _, s := range t.order {
		if s.kind() == callSpan {
			t.read(s)
		}
	}
	for i := range t.calls {
		t.recall(t.calls[i].input)
	}
	for i := range t.calls {
		if t.out.TooLarge() {
			break
		}
		t.call(t.calls[i].span, &t.calls[i].modelCall)
	}
	return []*calls.Session{t.out}
}

// add adds a span. Of two spans with the same id, the one with more attributes is kept, and the duplicate is counted.
func (t *traces) add(s *span) {
	key := s.trace + s.id
	if old := t.spans[key]; old != nil {
		t.r.tally.CountUnread("spans that are recorded twice", 1)
		if len(old.attributes) >= len(s.attributes) {
			return
		}
	}
	t.spans[key] = s
}

// addEvent adds a log record. Its span may be missing, or have been exported elsewhere.
func (t *traces) addEvent(part session.Kept) {
	ev, trace, id := eventOf(part)
	s := t.spans[trace+id]
	if s == nil {
		s = &span{id: id, trace: trace, start: ev.at, path: part.Path, offset: part.Offset}
		t.spans[trace+id] = s
	}
	s.events, s.cutEvents = append(s.events, ev), s.cutEvents || ev.cut
}

// spanKind is the kind of operation that a span represents.
type spanKind byte

const (
	otherSpan spanKind = iota
	callSpan           // a call to a model that writes messages
	agentSpan
	toolSpan
)

// kinds lists the attributes that name a span's kind, and the meanings of their values.
var kinds = []struct {
	key    string
	values map[string]spanKind
}{
	{"ai.operationId", map[string]spanKind{
		"ai.generateText.doGenerate": callSpan, "ai.streamText.doStream": callSpan,
		"ai.generateObject.doGenerate": callSpan, "ai.streamObject.doStream": callSpan,
		"ai.generateText": agentSpan, "ai.streamText": agentSpan, "ai.toolCall": toolSpan,
	}},
	{"gen_ai.operation.name", map[string]spanKind{
		"chat": callSpan, "text_completion": callSpan, "generate_content": callSpan, "completion": callSpan,
		"invoke_agent": agentSpan, "execute_tool": toolSpan,
	}},
	{"openinference.span.kind", map[string]spanKind{"LLM": callSpan, "AGENT": agentSpan, "TOOL": toolSpan}},
	{"llm.request.type", map[string]spanKind{"chat": callSpan, "completion": callSpan}},
	{"traceloop.span.kind", map[string]spanKind{"agent": agentSpan, "tool": toolSpan}},
}

// kind returns the kind of a span. A span that doesn't name one is a call if it contains a model's output.
func (s *span) kind() spanKind {
	named := false
	for _, of := range kinds {
		name := s.attributes.text(of.key)
		if kind := of.values[name]; kind != otherSpan {
			return kind
		}
		named = named || name != ""
	}
	if named {
		return otherSpan
	}
	wrote := func(e event) bool { return e.name == "gen_ai.choice" || e.name == details }
	if s.attributes["gen_ai.output.messages"] != nil || s.attributes["gen_ai.completion.0.role"] != nil ||
		slices.ContainsFunc(s.events, wrote) {
		return callSpan
	}
	return otherSpan
}

// maxAncestors limits the number of parents followed, because malicious links may form a cycle.
const maxAncestors = 1000

// ancestors passes the spans that enclose a span to the given function, innermost first.
func (t *traces) ancestors(s *span, each func(*span)) {
	for range maxAncestors {
		parent := t.spans[s.trace+s.parent]
		if s.parent == "" || parent == nil || parent == s {
			return
		}
		s = parent
		each(s)
	}
}

// examine finds the sub-agents, the failed tools, and the calls that merely wrap other calls.
func (t *traces) examine() {
	names := map[string]int{}
	for _, s := range t.order {
		switch s.kind() {
		case callSpan:
			direct := true // no tool or agent is between the call and the enclosing span
			t.ancestors(s, func(a *span) {
				kind := a.kind()
				if direct = direct && kind != agentSpan && kind != toolSpan; direct && kind == callSpan {
					t.inner[a] = true
				}
			})
		case agentSpan:
			within := false
			t.ancestors(s, func(a *span) { within = within || a.kind() == agentSpan })
			if !within {
				continue
			}
			name := cmp.Or(s.attributes.first("gen_ai.agent.name", "agent.name", "traceloop.entity.name",
				"ai.telemetry.functionId"), "agent")
			if names[name]++; names[name] > 1 {
				name += "-" + strconv.Itoa(names[name])
			}
			t.agents[s] = name
		case toolSpan:
			t.tool(s)
		}
	}
}

// tool records whether a tool failed.
func (t *traces) tool(s *span) {
	if id := s.attributes.first("gen_ai.tool.call.id", "tool_call.id", "ai.toolCall.id"); id != "" {
		t.failed[id] = s.failed
	} else if s.failed {
		t.failures[s.status] = true
		t.failures[s.attributes.text("output.value")] = true
	}
}

// ran reports whether a span records that a call's tool ran.
func (t *traces) ran(call chat.ToolCall) bool {
	_, ok := t.failed[call.ID]
	return ok
}

// agent returns the name of the sub-agent that a span belongs to; empty for the main agent.
func (t *traces) agent(s *span) (name string) {
	t.ancestors(s, func(a *span) {
		name = cmp.Or(name, t.agents[a])
	})
	return name
}

func (t *traces) drop(s *span, why ledger.Reason, detail string) {
	t.r.tally.DropCall(why, detail, t.out.ID, s.path, s.offset)
}

// recorded is a model call and its span.
type recorded struct {
	span *span
	modelCall
}

// read reads a call.
func (t *traces) read(s *span) {
	if t.inner[s] {
		t.drop(s, session.RepeatedCall, "a span nested in this call's span records the same call")
		return
	}
	e := modelCallOf(s)
	switch {
	case len(e.outputs) == 0 && (s.failed || e.finish == "error"):
		t.drop(s, session.FailedCall, s.status)
		return
	case e.broken != "":
		t.drop(s, session.MissingHistory, e.broken)
		return
	case len(e.outputs) == 0 || len(e.input) == 0:
		t.drop(s, noContent, "")
		return
	case e.alone && !slices.ContainsFunc(e.outputs[0].ToolCalls, t.ran):
		t.drop(s, session.MissingHistory, "the provider ran a tool within the answer, but the texts before and after "+
			"it are not recorded separately")
		return
	}
	for i := range e.outputs {
		if made := e.outputs[i].ToolCalls; len(made) > 0 && made[0].ID != "" {
			t.wrote[made[0].ID] = &e.outputs[i].Message
		}
	}
	for _, id := range e.failed {
		t.failed[id] = true
	}
	t.calls = append(t.calls, recorded{s, e})
}

// restore adds missing text to the answers in a history, if the calls that wrote those answers recorded it.
func (t *traces) restore(e *modelCall) {
	for i := range e.input {
		m := &e.input[i]
		if m.Form != chat.Absent {
			continue
		}
		m.Form = chat.Null
		answer := t.wrote[m.ToolCalls[0].ID]
		if answer == nil || len(answer.ToolCalls) != len(m.ToolCalls) {
			e.gaps |= ttc.RebuiltHistory
			continue
		}
		m.Form, m.Text, m.Parts = answer.Form, answer.Text, answer.Parts
	}
}

// recall adds missing reasoning to answers, from the histories of later calls. It finds answers by tool call id,
// and so cannot complete an answer without tool calls.
func (t *traces) recall(history []chat.Message) {
	for i := range history {
		m := &history[i]
		if m.Reasoning == "" || len(m.ToolCalls) == 0 {
			continue
		}
		if answer := t.wrote[m.ToolCalls[0].ID]; answer != nil && answer.Reasoning == "" {
			answer.Reasoning, answer.ReasoningKey = m.Reasoning, m.ReasoningKey
		}
	}
}

// call adds a call.
func (t *traces) call(s *span, e *modelCall) {
	t.restore(e)
	c := calls.Call{
		ID: cmp.Or(e.id, s.trace+"/"+s.id), Agent: t.agent(s), Model: e.model, Time: s.start, Tools: e.tools,
		Gaps: e.gaps, Usage: e.usage, File: s.path, Offset: s.offset,
	}
	join(e.input)
	for _, m := range e.input {
		message := calls.Message{Message: m}
		if m.Role == "tool" {
			if failed, ok := t.failed[m.ToolCallID]; ok {
				message.Error = &failed
			} else if text, failed := calls.Plain(&m); failed && text != "" && t.failures[text] {
				message.Error = &failed
			}
		}
		c.Input = append(c.Input, t.out.Message(message))
	}
	all := slices.Concat(c.Input, exchange.Refs(t.out, e.said))
	for i, out := range e.outputs {
		choice := c
		choice.Input = all[:len(c.Input)+out.Given]
		choice.Output, choice.FinishReason = out.Message, out.Finish
		if i > 0 {
			choice.ID += "/" + strconv.Itoa(i)
		}
		choice.Gaps |= exchange.Gap(&out.Message)
		if out.Reasoning == "" && s.attributes.number("ai.usage.reasoningTokens") > 0 {
			choice.Gaps |= ttc.HiddenReasoning
		}
		if t.out.Add(choice); t.out.TooLarge() {
			return
		}
	}
}

// modelCallOf reads a call's input and output, in the span's convention.
func modelCallOf(s *span) (e modelCall) {
	a := s.attributes
	e.id = a.text("gen_ai.response.id")
	e.model = a.first("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
	e.usage = calls.Usage{
		Input:  a.number("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
		Output: a.number("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
	}
	switch {
	case a["ai.prompt.messages"] != nil:
		e.aiSDK(s)
	case a.text("openinference.span.kind") != "":
		e.openInference(s)
	case a["gen_ai.prompt.0.role"] != nil || a["gen_ai.completion.0.role"] != nil:
		e.numbered(s)
	default:
		e.genAI(s)
	}
	if e.finish == "" {
		e.finish = session.Text(session.First(a.structured("gen_ai.response.finish_reasons")))
	}
	for i := range e.outputs {
		out := &e.outputs[i]
		out.Finish = cmp.Or(out.Finish, e.finish)
		switch out.Finish {
		case "tool_call", "tool-calls": // names that OpenLLMetry and the AI SDK use for tool_calls
			out.Finish = "tool_calls"
		case "content-filter":
			out.Finish = "content_filter"
		}
	}
	if e.tools == nil && e.toolsUnsaid {
		e.gaps |= ttc.NoTools
	}
	e.input = mergeAnswers(e.input)
	return e
}
