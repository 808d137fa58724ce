package atof

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// scopes holds the scopes of one session.
type scopes struct {
	r      *reader
	byID   map[string]*scope
	order  []*scope // sorted by time
	out    *calls.Session
	failed map[string]bool   // whether each tool call failed, by call id
	agents map[*scope]string // names of sub-agents, unique within the session

	version string // version of the format, according to the latest event
}

// scope is a unit of work, with its first and last events.
type scope struct {
	id, parent, category, name string
	at                         int64
	start, end                 json.Raw // nil if missing from the file
	part                       session.Kept
}

// add adds an event.
func (t *scopes) add(part session.Kept) {
	raw := json.Raw(part.JSON)
	if v := session.Text(raw, "atof_version"); v != t.version {
		t.version = v
		t.r.tally.Wrote(source.Version{Program: "ATOF", Number: v, Newest: newest})
	}
	if kind := session.Text(raw, "kind"); kind != "scope" {
		t.r.tally.CountUnread(session.Name(kind)+" events", 1)
		return
	}
	id := session.Text(raw, "uuid")
	s := t.byID[id]
	if s == nil {
		s = &scope{
			id: id, parent: session.Text(raw, "parent_uuid"), category: session.Text(raw, "category"),
			name: session.Text(raw, "name"), part: part,
		}
		t.byID[id] = s
		t.order = append(t.order, s)
	}
	switch where := session.Text(raw, "scope_category"); {
	case where == "start" && s.start == nil:
		s.start, s.part = raw, part
		s.at = session.Nanoseconds(session.Text(raw, "timestamp"))
	case where == "end" && s.end == nil:
		s.end = raw
	default:
		t.r.tally.CountUnread("scope events that are recorded twice", 1)
	}
}

// sessions builds the session from the scopes.
func (t *scopes) sessions(limits session.Limits) []*calls.Session {
	if len(t.order) == 0 {
		return nil
	}
	slices.SortFunc(t.order, func(a, b *scope) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id)) })
	t.out = limits.New(t.r.named.NameOf(rootOf(t.order[0].part.JSON)))
	t.examine()
	for _, s := range t.order {
		if s.category == "llm" {
			t.call(s)
		}
	}
	return []*calls.Session{t.out}
}

// examine names the sub-agents and finds the failed tool calls.
func (t *scopes) examine() {
	names := map[string]int{}
	for _, s := range t.order {
		switch s.category {
		case "agent":
			if t.agentAbove(s) == nil {
				continue
			}
			name := cmp.Or(s.name, "agent")
			if names[name]++; names[name] > 1 {
				name += "-" + strconv.Itoa(names[name])
			}
			t.agents[s] = name
		case "tool":
			began := s.start
			if began == nil {
				began = s.end
			}
			if id := session.Text(began, "category_profile", "tool_call_id"); id != "" && s.end != nil {
				_, failed := s.failure()
				t.failed[id] = t.failed[id] || failed
			}
		case "llm":
		default:
			t.r.tally.CountUnread("scopes of category "+session.Name(s.category), 1)
		}
	}
}

// maxDepth limits the number of parents followed, because malicious links may form a cycle.
const maxDepth = 1000

// agentAbove returns the nearest agent that encloses a scope, or nil.
func (t *scopes) agentAbove(s *scope) *scope {
	for range maxDepth {
		if s = t.byID[s.parent]; s == nil || s.category == "agent" {
			return s
		}
	}
	return nil
}

// failure reports whether a scope ended in an error, and describes it.
func (s *scope) failure() (string, bool) {
	metadata := session.At(s.end, "metadata")
	failed := session.Text(metadata, "otel.status_code") == "ERROR" || session.Text(metadata, "status") == "error"
	return session.Name(session.Text(metadata, "otel.status_description")), failed
}

func (t *scopes) drop(s *scope, why ledger.Reason, detail string) {
	t.r.tally.DropCall(why, detail, t.out.ID, s.part.Path, s.part.Offset)
}

// call adds the model call that a scope represents.
func (t *scopes) call(s *scope) {
	why, failed := s.failure()
	switch {
	case s.start == nil:
		t.drop(s, session.MissingHistory, "the beginning of the call is missing")
		return
	case s.end == nil:
		t.drop(s, session.FailedCall, "the call has no end")
		return
	case failed:
		t.drop(s, session.FailedCall, why)
		return
	}
	e, err := s.exchange()
	switch {
	case err != nil:
		t.drop(s, session.UnknownShape, err.Error())
		return
	case len(e.Answers) == 0:
		t.drop(s, session.FailedCall, "the response has no answer")
		return
	}
	exchange.CountUnread(t.r.tally, e.Unread)
	e.MarkFailed(t.failed)
	c := calls.Call{
		ID: s.id, Model: session.Text(s.start, "category_profile", "model_name"), Time: s.at,
		File: s.part.Path, Offset: s.part.Offset,
	}
	if agent := t.agentAbove(s); agent != nil {
		c.Agent = t.agents[agent]
	}
	e.AddTo(t.out, c)
}

// exchange returns a call's input and output.
func (s *scope) exchange() (exchange.Exchange, error) {
	request := session.At(s.start, "data", "content")
	if request == nil {
		request = session.At(s.start, "data")
	}
	if response := session.At(s.end, "data"); exchange.Known(response) {
		return exchange.Of(request, response)
	}
	annotated := session.At(s.end, "category_profile", "annotated_response")
	if annotated == nil {
		return exchange.Exchange{}, exchange.ErrShape
	}
	e, err := exchange.Chat(request, nil)
	e.ID, e.Model = session.Text(annotated, "id"), session.Text(annotated, "model")
	e.Answers = []exchange.Answer{annotatedAnswer(annotated)}
	return e, err
}

// annotatedAnswer reads an answer from Relay's own annotation.
func annotatedAnswer(annotated json.Raw) exchange.Answer {
	m := exchange.Content("assistant", session.At(annotated, "message"))
	for c := range session.At(annotated, "tool_calls").Elements() {
		m.ToolCalls = append(m.ToolCalls, exchange.CallOf(c, "id", "name", "arguments"))
	}
	if m.Text == "" && m.ToolCalls != nil {
		m.Form = chat.Null
	}
	finish := session.Text(annotated, "finish_reason")
	if finish == "tool_use" {
		finish = "tool_calls"
	}
	return exchange.Answer{Message: m, Finish: finish}
}
