package observations

import (
	"slices"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/compose"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
)

// envelopes are the keys under which responses of the platforms' APIs hold the entries of an export: pages of entries,
// a trace with its observations and scores, or a run with the runs inside it.
var envelopes = []string{"data", "runs", "observations", "scores", "child_runs"}

// maxDepth is the maximum depth to which nested runs are followed.
const maxDepth = 30

// within returns the entries inside an entry, and the number of entries that are nested too deeply. A trace's id and
// session apply to each observation and score in the trace that lacks them.
func within(entry json.Raw) (out []json.Raw, tooDeep int64) {
	out = appendWithin(nil, entry, 0, &tooDeep)
	return out, tooDeep
}

func appendWithin(out []json.Raw, entry json.Raw, depth int, tooDeep *int64) []json.Raw {
	if !holds(entry) {
		return out
	}
	before := len(out)
	of := holderOf(entry)
	for key, list := range entry.Members() {
		if list.Kind() != json.Array || !slices.ContainsFunc(envelopes, key.Is) {
			continue
		}
		said := key.Is("observations") || key.Is("scores")
		for e := range list.Elements() {
			switch {
			case e.Kind() != json.Object:
				continue
			case depth == maxDepth:
				*tooDeep++
				continue
			case said:
				e = of.tell(e)
			}
			n := len(out)
			if out = appendWithin(out, e, depth+1, tooDeep); len(out) == n {
				out = append(out, e)
			}
		}
	}
	if of.self && len(out) > before { // an observation or a run is also an entry itself
		out = append(out, withoutKeys(entry, envelopes))
	}
	return out
}

// holds reports whether an entry contains a list of other entries.
func holds(entry json.Raw) bool {
	for key, list := range entry.Members() {
		if list.Kind() == json.Array && slices.ContainsFunc(envelopes, key.Is) {
			return true
		}
	}
	return false
}

// withoutKeys returns a copy of an object without the given keys.
func withoutKeys(object json.Raw, keys []string) json.Raw {
	var out compose.Object
	for k, v := range object.Members() {
		if name, _ := k.Text(); !slices.Contains(keys, name) {
			out = out.Member(k, v)
		}
	}
	return out.End()
}

// holder holds the trace and the session of an entry, which the entries inside it inherit.
type holder struct {
	self           bool // the entry is an observation or a run itself
	trace, session string
}

func holderOf(entry json.Raw) holder {
	h := holder{
		self:  session.Value(entry, "type", "run_type") != nil,
		trace: text(entry, "id"), session: text(entry, "sessionId", "session_id"),
	}
	if h.self {
		h.trace = text(entry, "traceId", "trace_id")
	}
	return h
}

// tell returns an observation or a score with its trace and session filled in.
func (h holder) tell(e json.Raw) json.Raw {
	var out compose.Object
	for k, v := range e.Members() {
		out = out.Member(k, v)
	}
	if h.trace != "" && session.Value(e, "traceId", "trace_id") == nil {
		out = out.Text("traceId", h.trace)
	}
	if h.session != "" && session.Value(e, "sessionId", "session_id") == nil {
		out = out.Text("sessionId", h.session)
	}
	return out.End()
}
