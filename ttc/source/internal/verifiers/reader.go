package verifiers

import (
	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// reader builds sessions from the rollouts in lines that share an id.
type reader struct {
	tally  *source.Tally
	limits session.Limits
	out    []*calls.Session
}

// keyOf returns the key of the sessions in a line: the id of its episode or trace or, in version 0, of its example.
func keyOf(entry json.Raw) (string, bool) {
	for _, key := range []string{"id", "example_id"} {
		if name := source.IDText(session.At(entry, key)); name != "" {
			return name, isRollout(entry)
		}
	}
	return "", isRollout(entry)
}

// sessions builds the sessions from the lines that share an id.
func sessions(g session.Group) []*calls.Session {
	r := &reader{tally: g.Tally, limits: g.Limits}
	for i, part := range g.Parts {
		r.rollouts(part, i)
	}
	return r.out
}

// rollouts builds sessions from the rollouts in a line; i is the line's position among the lines that share its id.
func (r *reader) rollouts(part session.Kept, i int) {
	raw := json.Raw(part.JSON)
	if traces, ok := raw.Get("traces"); ok {
		for trace := range traces.Elements() {
			r.trace(trace, raw, part)
		}
		return
	}
	if _, ok := raw.Get("nodes"); ok {
		r.trace(raw, raw, part)
		return
	}
	r.result(raw, part, i)
}
