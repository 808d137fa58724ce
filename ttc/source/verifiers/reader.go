package verifiers

import (
	"context"
	"io"
	"iter"

	"github.com/nat-go/nat-go/ttc/calls"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/session"
)

// reader gives back rollouts in the order of their ids.
type reader struct {
	tally *source.Tally
	store *session.Store
	next  func() (session.Group, error, bool)
	stop  func()
	queue []*calls.Session
}

// read keeps the rollouts of all files.
func (r *reader) read(ctx context.Context, paths []string, limits session.Limits) (err error) {
	if r.store, err = session.NewStore(); err != nil {
		return err
	}
	for _, path := range paths {
		r.store.Begin(path)
		var failed error
		known := false
		err := session.Lines(ctx, path, limits.MaxLine, r.tally, func(l session.Line) bool {
			if !isRollout(l.JSON) {
				r.unread("lines that are no rollouts")
				return true
			}
			known = true
			failed = r.keep(l)
			return failed == nil
		})
		if err == nil {
			err = failed
		}
		if err != nil {
			return err
		}
		if !known {
			r.tally.Drop(ledger.Drop{Unit: "file", Reason: session.OtherFormat, Index: -1, File: path})
		}
	}
	r.next, r.stop = iter.Pull2(r.store.All(limits.MaxSession))
	return nil
}

func (r *reader) unread(what string) {
	if r.tally.S.Unread == nil {
		r.tally.S.Unread = map[string]int64{}
	}
	r.tally.S.Unread[what]++
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

// Next reads the next rollout.
func (r *reader) Next(context.Context) (*calls.Session, error) {
	for len(r.queue) == 0 {
		g, err, ok := r.next()
		switch {
		case !ok:
			return nil, io.EOF
		case err != nil:
			return nil, err
		case g.TooLarge:
			r.tally.Drop(ledger.Drop{Unit: "session", Reason: session.SessionTooLong, Index: -1, File: g.Path})
			continue
		case g.Repeated > 0:
			r.tally.Drop(ledger.Drop{
				Unit: "session", Reason: source.IdenticalRow, Count: g.Repeated, Index: -1, File: g.Path,
			})
		}
		for i, part := range g.Parts {
			r.rollouts(part, i)
		}
	}
	s := r.queue[0]
	r.queue = r.queue[1:]
	return s, nil
}

// rollouts queues those of a line, the i-th of its id.
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

// Close ends the reading.
func (r *reader) Close() error {
	if r.stop != nil {
		r.stop()
	}
	return r.store.Close()
}
