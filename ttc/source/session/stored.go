package session

import (
	"context"
	"io"
	"iter"

	"github.com/nat-go/nat-go/ttc/calls"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// Stored reads the sessions of a store.
type Stored struct {
	store *Store
	tally *source.Tally
	next  func() (Group, error, bool)
	stop  func()
	make  func(Group) []*calls.Session
	queue []*calls.Session
}

// Reader reads the sessions that the store now holds, as sessions makes them. It closes the store.
func (s *Store) Reader(limits Limits, tally *source.Tally, sessions func(Group) []*calls.Session) *Stored {
	r := &Stored{store: s, tally: tally, make: sessions}
	r.next, r.stop = iter.Pull2(s.All(limits.MaxSession))
	return r
}

// Next returns the next session.
func (r *Stored) Next(ctx context.Context) (*calls.Session, error) {
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
			r.tally.Drop(ledger.Drop{Unit: "session", Reason: SessionTooLong, Index: -1, File: g.Path})
			continue
		case g.Repeated > 0:
			r.tally.Drop(ledger.Drop{
				Unit: "session", Reason: source.IdenticalRow, Count: g.Repeated, Index: -1, File: g.Path,
			})
		}
		r.queue = r.make(g)
	}
	s := r.queue[0]
	r.queue[0] = nil
	r.queue = r.queue[1:]
	return s, nil
}

// Close ends the reading.
func (r *Stored) Close() error {
	r.stop()
	return r.store.Close()
}
