package observations

import (
	"slices"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/session"
)

// envelopes are the keys under which answers of the platforms' APIs hold what is in an export entry by entry: pages of
// them, a trace with its observations and scores, a run with those within it.
var envelopes = []string{"data", "runs", "observations", "scores", "child_runs"}

// maxDepth is how deep runs within runs are followed.
const maxDepth = 30

// within are the entries that an entry holds, and how many are too deep within others. What a trace says of itself -
// its id, its session - is said of each observation that doesn't say it.
func within(entry json.Raw) (out []json.Raw, tooDeep int64) {
	out = appendWithin(nil, entry, 0, &tooDeep)
	return out, tooDeep
}

func appendWithin(out []json.Raw, entry json.Raw, depth int, tooDeep *int64) []json.Raw {
	before := len(out)
	self := session.Value(entry, "type", "run_type") != nil
	for _, key := range envelopes {
		list, ok := entry.Get(key)
		if !ok || list.Kind() != json.Array {
			continue
		}
		for e := range list.Elements() {
			switch {
			case e.Kind() != json.Object:
				continue
			case depth == maxDepth:
				*tooDeep++
				continue
			case key == "observations" || key == "scores":
				e = ofTrace(e, entry, self)
			}
			n := len(out)
			if out = appendWithin(out, e, depth+1, tooDeep); len(out) == n {
				out = append(out, e)
			}
		}
	}
	if self && len(out) > before { // a run is an entry itself
		out = append(out, without(entry, envelopes))
	}
	return out
}

// without is an object without some keys.
func without(object json.Raw, keys []string) json.Raw {
	out := json.Raw("{")
	for k, v := range object.Members() {
		if name, _ := k.Text(); slices.Contains(keys, name) {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, k...), ':'), v...)
	}
	return append(out, '}')
}

// ofTrace is an observation or a score that says which trace and session it is of. It stands in a trace, or, inner, in
// an observation of one.
func ofTrace(e, holder json.Raw, inner bool) json.Raw {
	trace := text(holder, "id")
	if inner {
		trace = text(holder, "traceId", "trace_id")
	}
	out, n := json.Raw("{"), 0
	add := func(key, value []byte) {
		if n++; n > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, key...), ':'), value...)
	}
	for k, v := range e.Members() {
		add(k, v)
	}
	if trace != "" && session.Value(e, "traceId", "trace_id") == nil {
		add([]byte(`"traceId"`), json.AppendString(nil, trace))
	}
	if s := text(holder, "sessionId", "session_id"); s != "" && session.Value(e, "sessionId", "session_id") == nil {
		add([]byte(`"sessionId"`), json.AppendString(nil, s))
	}
	return append(out, '}')
}
