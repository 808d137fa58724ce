package session

import (
	"context"
	"io"
	"iter"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// stored reads the sessions in a store.
type stored struct {
	store *Store
	tally *source.Tally
	next  func() (Group, error, bool)
	stop  func()
	make  func(Group) []*calls.Session
	queue []*calls.Session
}

// ReadStored calls the function file with each path, to store the items in that file. The returned Reader calls the
// function sessions with each group of items, to build its sessions. The function id, if not nil, maps the id under
// which items were stored to the session's actual id; ReadStored calls it after all files have been read.
func ReadStored(
	ctx context.Context, files []string, limits Limits, tally *source.Tally,
	file func(s *Store, path string) error, id func(string) string, sessions func(Group) []*calls.Session,
) (Reader, error) {
	store, err := newStore()
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		store.Begin(ctx, path)
		if err := file(store, path); err != nil {
			store.Close()
			return nil, err
		}
	}
	if id != nil {
		if err := store.regroup(id); err != nil {
			store.Close()
			return nil, err
		}
	}
	r := &stored{store: store, tally: tally, make: sessions}
	r.next, r.stop = iter.Pull2(store.All(limits))
	return r, nil
}

// Next returns the next session.
func (r *stored) Next(ctx context.Context) (*calls.Session, error) {
	for len(r.queue) == 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		g, err, ok := r.next()
		switch {
		case !ok:
			return nil, io.EOF
		case err != nil:
			return nil, err
		case g.TooLarge:
			r.tally.DropSession(SessionTooLong, g.Limits.Excess(g.Size, g.Objects), "", g.Path, 0)
			continue
		case g.Repeated > 0:
			r.tally.Drop(ledger.Drop{
				Unit: "session", Reason: source.IdenticalRow, Count: g.Repeated, Index: -1, File: g.Path,
			})
		}
		g.Tally = r.tally
		r.queue = r.make(g)
		if t := g.trial; t != nil {
			for _, s := range r.queue {
				s.Task, s.Trial, s.Reward = t.Task, t.Name, t.Reward
			}
		}
	}
	s := r.queue[0]
	r.queue[0] = nil
	r.queue = r.queue[1:]
	return s, nil
}

// Close stops reading and closes the store.
func (r *stored) Close() error {
	r.stop()
	return r.store.Close()
}
