package atif

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/nat-go/nat-go/ttc/calls"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/session"
)

// reader gives back trajectories in the order of their ids.
type reader struct {
	tally *source.Tally
	store *session.Store
	next  func() (session.Group, error, bool)
	stop  func()
}

func (r *reader) read(ctx context.Context, paths []string, limits session.Limits) (err error) {
	if r.store, err = session.NewStore(); err != nil {
		return err
	}
	for _, path := range paths {
		r.store.Begin(path)
		if err := r.file(ctx, path, limits); err != nil {
			return err
		}
	}
	r.next, r.stop = iter.Pull2(r.store.All(limits.MaxSession))
	return nil
}

// file keeps the trajectories of a file. What is damaged is booked, what comes after it can't be found.
func (r *reader) file(ctx context.Context, path string, limits session.Limits) error {
	f, err := source.Open(ctx, path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := json.NewReader(f, json.Auto, json.Limits{Size: limits.MaxSession})
	known := false
	for {
		entry, offset, err := in.Next()
		var tooLarge *json.SizeError
		switch {
		case errors.As(err, &tooLarge):
			r.drop("session", session.SessionTooLong, err.Error(), path, offset)
			continue
		case errors.Is(err, io.EOF):
			if !known {
				r.drop("file", session.OtherFormat, "", path, 0)
			}
			return nil
		case err != nil:
			if known {
				r.drop("line", session.UnreadLine, source.ReadError(path, err, 0).Error(), path, offset)
			} else {
				r.drop("file", session.OtherFormat, "", path, 0)
			}
			return ctx.Err()
		}
		trajectory := trajectoryOf(entry)
		if trajectory == nil {
			if known {
				r.unread("entries that are no trajectories")
			}
			continue
		}
		known = true
		if err := r.store.Add(idOf(entry, trajectory), entry, offset); err != nil {
			return err
		}
	}
}

// idOf names the session of a trajectory.
func idOf(entry, trajectory json.Raw) string {
	for _, key := range []string{"session_id", "trajectory_id"} {
		if id := field(trajectory, key); id != "" {
			return id
		}
	}
	id, _ := entry.Get("item_id")
	return source.IDText(id)
}

func (r *reader) unread(what string) {
	if r.tally.S.Unread == nil {
		r.tally.S.Unread = map[string]int64{}
	}
	r.tally.S.Unread[what]++
}

func (r *reader) drop(unit string, why ledger.Reason, detail, path string, offset int64) {
	r.tally.Drop(ledger.Drop{Unit: unit, Reason: why, Detail: detail, Index: -1, File: path, Offset: offset})
}

// Next reads the trajectories of the next session.
func (r *reader) Next(context.Context) (*calls.Session, error) {
	for {
		g, err, ok := r.next()
		switch {
		case !ok:
			return nil, io.EOF
		case err != nil:
			return nil, err
		case g.TooLarge:
			r.drop("session", session.SessionTooLong, "", g.Path, 0)
			continue
		case g.Repeated > 0:
			r.tally.Drop(ledger.Drop{
				Unit: "session", Reason: source.IdenticalRow, Count: g.Repeated, Index: -1, File: g.Path,
			})
		}
		var s *calls.Session
		for _, part := range g.Parts {
			trajectory := trajectoryOf(json.Raw(part.JSON))
			if s == nil {
				s = calls.NewSession(idOf(json.Raw(part.JSON), trajectory))
			}
			if item, ok := json.Raw(part.JSON).Get("item_id"); ok {
				s.Task = source.IDText(item)
			}
			(&steps{r: r, s: s, part: part}).add(trajectory, "", 0)
		}
		if s != nil {
			return s, nil
		}
	}
}

// Close ends the reading.
func (r *reader) Close() error {
	if r.stop != nil {
		r.stop()
	}
	return r.store.Close()
}
