package requestlog

import (
	"slices"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// extensions are the file name extensions of logs.
var extensions = []string{".jsonl", ".json", ".ndjson", ".log"}

// keys lists the keys that identify entries. Each entry has at least one of them.
var keys = []string{"request", "litellm_call_id", "model_input_messages"}

// Chat returns the source for logs of chat completions and Anthropic's messages.
func Chat() source.Factory {
	return factory("chat", "OpenAI's chat completions and LiteLLM 1.106.2; Anthropic's messages are read as documented",
		"logs of requests: chat completions (OpenAI and compatible APIs, LiteLLM's payload), Anthropic's messages",
		func(e *entry) bool { return !e.isResponses() })
}

// Responses returns the source for logs of the Responses API.
func Responses() source.Factory {
	return factory("responses", "the Responses API", "logs of requests: OpenAI's responses", (*entry).isResponses)
}

func factory(typ, tried, doc string, ours func(*entry) bool) source.Factory {
	return session.Format{
		Type: typ, Tried: tried, Doc: doc, Extensions: extensions,
		Recognize: session.Marked(func(raw json.Raw) bool {
			e, ok := entryOf(raw)
			return ok && ours(&e)
		}, keys...),
		Entries: func(tally *source.Tally) session.Entries { return entries(tally, ours) },
	}.Factory()
}

// reader builds sessions from calls.
type reader struct {
	tally *source.Tally
	ours  func(*entry) bool
	named *session.Names // sessions named by the log, by the key they are stored under
	links *session.Names // for each response, the key of the previous response or, for the first one, of the session
}

func entries(tally *source.Tally, ours func(*entry) bool) session.Entries {
	r := &reader{tally: tally, ours: ours, named: &session.Names{}, links: &session.Names{}}
	return session.Entries{
		ID: r.key, Others: "entries that are calls of a kind that the source doesn't read",
		Regroup: r.session, Sessions: r.sessions, Names: []*session.Names{r.named, r.links},
	}
}

// key returns the key under which a call is stored.
func (r *reader) key(raw json.Raw) (string, bool) {
	e, ok := entryOf(raw)
	if !ok || !r.ours(&e) {
		return "", false
	}
	begins := e.session()
	if begins == "" {
		begins = e.opening()
	} else { // an id may be longer than a key
		r.named.Set(session.Key(begins), begins)
		begins = session.Key(begins)
	}
	id, previous := session.Text(e.response, "id"), session.Text(e.request, "previous_response_id")
	if !exchange.IsResponses(e.response) || id == "" {
		return begins, true
	}
	if previous != "" {
		begins = session.Key(previous)
	}
	r.links.Set(session.Key(id), begins)
	return session.Key(id), true
}

// session returns the id of the session that a key belongs to. The id depends on the beginning of the key's chain
// of previous responses. session links all keys in the chain directly to its beginning, so no chain is followed
// twice. Responses that refer to each other in a cycle form one session.
func (r *reader) session(key string) string {
	chain := map[string]bool{key: true}
	for next, ok := r.links.Get(key); ok && !chain[next]; next, ok = r.links.Get(next) {
		chain[next] = true
		key = next
	}
	for link := range chain {
		if link == key {
			r.links.Delete(key)
		} else {
			r.links.Set(link, key)
		}
	}
	return r.named.NameOf(key)
}

// sessions builds the session from the calls.
func (r *reader) sessions(g session.Group) []*calls.Session {
	l := &log{r: r, limits: g.Limits, byID: map[string]*call{}}
	for _, part := range g.Parts {
		l.add(part)
	}
	if l.out == nil {
		return nil
	}
	for _, c := range l.calls {
		if l.give(c); l.out.TooLarge() {
			break
		}
	}
	return []*calls.Session{l.out}
}

// log holds the calls of one session.
type log struct {
	r         *reader
	limits    session.Limits
	out       *calls.Session
	calls     []*call
	byID      map[string]*call
	assembled int64 // number of messages in assembled histories
}

type call struct {
	exchange.Exchange
	part session.Kept
	time int64
	full []calls.Ref // all messages that the call was given; nil if not assembled yet
	open bool        // the history is being assembled
	lost bool        // one of the call's predecessors is missing from the log, or the predecessors form a cycle
}

func (l *log) add(part session.Kept) {
	e, _ := entryOf(part.JSON)
	if l.out == nil {
		key, _ := l.r.key(part.JSON)
		l.out = l.limits.New(l.r.session(key))
	}
	if e.failed != "" {
		l.drop(part, session.FailedCall, e.failed)
		return
	}
	x, err := exchange.Of(e.request, e.response)
	switch {
	case err != nil:
		l.drop(part, session.UnknownShape, err.Error())
		return
	case len(x.Answers) == 0:
		l.drop(part, session.FailedCall, "the response has no answer")
		return
	}
	c := &call{Exchange: x, part: part, time: e.time()}
	exchange.CountUnread(l.r.tally, x.Unread)
	l.calls = append(l.calls, c)
	if x.ID != "" {
		l.byID[x.ID] = c
	}
}

func (l *log) drop(part session.Kept, why ledger.Reason, detail string) {
	l.r.tally.DropCall(why, detail, l.out.ID, part.Path, part.Offset)
}

// give adds a call, with the messages of the calls that it continues.
func (l *log) give(c *call) {
	input, ok := l.history(c)
	if l.out.TooLarge() {
		return
	}
	if !ok {
		l.drop(c.part, session.MissingHistory, "the response "+session.Name(c.Previous)+" is not in the log")
		return
	}
	c.AddTo(l.out, calls.Call{Time: c.time, Input: input, File: c.part.Path, Offset: c.part.Offset})
}

// history returns all messages that a call was given. It omits the instructions of earlier calls, which the server
// doesn't carry over, unlike system messages in their input. A message that is missing from a call's history is also
// missing from the histories of the calls that continue it.
func (l *log) history(c *call) ([]calls.Ref, bool) {
	var chain []*call
	at := c
	for at.full == nil && at.Previous != "" {
		before := l.byID[at.Previous]
		if before == nil || at.open || at.lost {
			at.lost = true
			for _, x := range chain {
				x.open, x.lost = false, true
			}
			return nil, false
		}
		at.open = true
		chain = append(chain, at)
		at = before
	}
	if at.lost {
		return nil, false
	}
	if at.full == nil {
		at.full = exchange.Refs(l.out, at.Input)
	}
	for _, x := range slices.Backward(chain) {
		x.open = false
		own, past := exchange.Refs(l.out, x.Input), at.full
		x.Gaps |= at.Gaps & ttc.RebuiltHistory
		if x.Instructed {
			x.full, own = append(x.full, own[0]), own[1:]
		}
		if at.Instructed {
			past = past[1:]
		}
		if l.assembled += int64(len(past) + len(own)); l.assembled > l.out.MaxGiven {
			l.out.Give(int(l.assembled))
			return nil, false
		}
		x.full = slices.Concat(x.full, past, exchange.Refs(l.out, at.Said), own)
		at = x
	}
	return c.full, true
}
