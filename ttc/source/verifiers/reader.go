package verifiers

import (
	"cmp"
	"context"

	"github.com/nat-go/nat-go/ttc/calls"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/session"
)

// reader makes sessions of rollouts.
type reader struct {
	tally *source.Tally
	store *session.Store
	out   []*calls.Session // of the lines with one id
}

func read(
	ctx context.Context, files []string, limits session.Limits, tally *source.Tally,
) (session.Reader, error) {
	r := &reader{tally: tally}
	return session.ReadStored(files, limits, tally, func(s *session.Store, path string) error {
		r.store = s
		return r.file(ctx, path, limits)
	}, nil, r.sessions)
}

// file keeps the rollouts of a file.
func (r *reader) file(ctx context.Context, path string, limits session.Limits) error {
	var failed error
	known := false
	err := session.Lines(ctx, path, limits.MaxLine, r.tally, func(l session.Line) bool {
		if !isRollout(l.JSON) {
			r.tally.PassOver("lines that are no rollouts", 1)
			return true
		}
		known = true
		failed = r.keep(l)
		return failed == nil
	})
	if err != nil || failed != nil {
		return cmp.Or(err, failed)
	}
	if !known {
		r.tally.Drop(ledger.Drop{Unit: "file", Reason: session.OtherFormat, Index: -1, File: path})
	}
	return nil
}

// keep takes in a line under the id of its session: an episode's, whose traces belong together, else the trace's.
func (r *reader) keep(l session.Line) error {
	id, _ := l.JSON.Get("id")
	name := source.IDText(id)
	if name == "" {
		id, _ = l.JSON.Get("example_id")
		name = source.IDText(id)
	}
	return r.store.Add(name, l.JSON, l.Offset)
}

// sessions makes those of the lines with one id.
func (r *reader) sessions(g session.Group) []*calls.Session {
	r.out = nil
	for i, part := range g.Parts {
		r.rollouts(part, i)
	}
	return r.out
}

// rollouts makes sessions of those of a line, the i-th of its id.
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
