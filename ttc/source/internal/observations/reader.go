package observations

import (
	"cmp"
	"slices"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// extensions are the file name extensions of exports.
var extensions = []string{".jsonl", ".json", ".ndjson", ".parquet", ".csv"}

// Langfuse returns the source for Langfuse exports.
func Langfuse() source.Factory {
	return factory("langfuse", "exports of Langfuse: observations and scores", langfuse,
		"trace_id", "traceId", "parent_observation_id", "data_type", "dataType")
}

// LangSmith returns the source for LangSmith exports.
func LangSmith() source.Factory {
	return factory("langsmith", "exports of LangSmith: runs", langSmith, "run_type")
}

// OpenAIAgents returns the source for spans that tracing processors of the OpenAI Agents SDK export.
func OpenAIAgents() source.Factory {
	return factory("openai_agents", "spans from the OpenAI Agents SDK, for chat completions models", openAIAgents, "span_data")
}

func factory(typ, doc string, parse func(json.Raw) (observation, bool), keys ...string) source.Factory {
	return session.Format{
		Type: typ, Doc: doc, Extensions: extensions,
		Recognize: session.Marked(func(entry json.Raw) bool {
			inner, _ := within(entry)
			return slices.ContainsFunc(append(inner, entry), func(e json.Raw) bool {
				_, ok := parse(e)
				return ok
			})
		}, append(keys, envelopes...)...),
		Entries: func(tally *source.Tally) session.Entries { return entries(tally, parse) },
	}.Factory()
}

// reader builds sessions from observations.
type reader struct {
	tally *source.Tally
	parse func(json.Raw) (observation, bool)
	named *session.Names // sessions, by the key of their traces
	ids   *session.Names // ids of traces and sessions, by key
}

func entries(tally *source.Tally, parse func(json.Raw) (observation, bool)) session.Entries {
	r := &reader{tally: tally, parse: parse, named: &session.Names{}, ids: &session.Names{}}
	return session.Entries{
		ID: r.key, Others: "entries that are not observations", Within: r.within, Regroup: r.session,
		Sessions: r.sessions, Names: []*session.Names{r.named, r.ids},
	}
}

// within returns the entries that an entry holds.
func (r *reader) within(entry json.Raw) []json.Raw {
	out, tooDeep := within(entry)
	r.tally.CountUnread("entries nested too deeply", tooDeep)
	return out
}

// key returns the key of an observation: a short name for its trace or, for a score without a trace, its session.
func (r *reader) key(entry json.Raw) (string, bool) {
	o, ok := r.parse(entry)
	if !ok {
		return "", false
	}
	key := r.short(cmp.Or(o.trace, o.session))
	if o.session != "" {
		r.named.Least(key, o.session)
	}
	return key, true
}

func (r *reader) short(id string) string {
	key := session.Key(id)
	r.ids.Set(key, id)
	return key
}

func (r *reader) session(key string) string {
	if name, ok := r.named.Get(key); ok {
		return name
	}
	id, _ := r.ids.Get(key)
	return id
}

// sessions builds the session from the observations.
func (r *reader) sessions(g session.Group) []*calls.Session {
	t := &traced{r: r, failed: map[string]bool{}, scores: map[string][]float64{}}
	for _, part := range g.Parts {
		o, _ := r.parse(part.JSON)
		t.add(o, part)
	}
	if len(t.calls) == 0 {
		r.tally.CountUnread("traces without a model call", 1)
		return nil
	}
	first := t.calls[0]
	t.out = g.Limits.New(r.session(r.short(cmp.Or(first.trace, first.session))))
	t.out.Reward = t.reward()
	for i := range t.calls {
		t.call(&t.calls[i])
	}
	return []*calls.Session{t.out}
}

// traced holds the observations of one session.
type traced struct {
	r      *reader
	out    *calls.Session
	calls  []recorded
	failed map[string]bool // whether each tool call failed, by call id
	scores map[string][]float64
}

type recorded struct {
	observation
	part session.Kept
}

func (t *traced) add(o observation, part session.Kept) {
	for _, s := range o.scores {
		t.scores[s.name] = append(t.scores[s.name], s.value)
	}
	switch o.kind {
	case ofModel:
		t.calls = append(t.calls, recorded{o, part})
	case ofTool:
		for _, where := range []json.Raw{o.output, session.Value(o.output, "output"), o.input} {
			if f := fields(where); f != nil {
				where = f
			}
			if id := session.Text(where, "tool_call_id"); id != "" {
				t.failed[id] = t.failed[id] || o.failed || session.Text(where, "status") == "error"
				return
			}
		}
	default:
		if o.what != "" {
			t.r.tally.CountUnread(o.what, 1)
		}
	}
}

// reward returns the mean of the scores if they all have the same name.
func (t *traced) reward() *float64 {
	if len(t.scores) > 1 {
		for _, values := range t.scores {
			t.r.tally.CountUnread("scores of sessions that have scores with different names", int64(len(values)))
		}
		return nil
	}
	for _, values := range t.scores {
		slices.Sort(values) // so that the sum doesn't depend on the order of the scores
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		sum /= float64(len(values))
		return &sum
	}
	return nil
}

func (t *traced) drop(c *recorded, why ledger.Reason, detail string) {
	t.r.tally.DropCall(why, detail, t.out.ID, c.part.Path, c.part.Offset)
}

// call adds a call.
func (t *traced) call(c *recorded) {
	if c.failed {
		t.drop(c, session.FailedCall, c.failure)
		return
	}
	e, err := c.exchange()
	switch {
	case err != nil:
		t.drop(c, session.UnknownShape, err.Error())
		return
	case len(e.Answers) == 0:
		t.drop(c, session.FailedCall, "missing output")
		return
	case len(e.Input) == 0:
		t.drop(c, session.MissingHistory, "missing input")
		return
	}
	exchange.CountUnread(t.r.tally, e.Unread)
	e.MarkFailed(t.failed)
	e.ID = cmp.Or(e.ID, c.id)
	e.AddTo(t.out, calls.Call{Model: c.model, Time: c.at, File: c.part.Path, Offset: c.part.Offset})
}
