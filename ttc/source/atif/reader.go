package atif

import (
	"context"
	"errors"
	"io"

	"github.com/nat-go/nat-go/ttc/calls"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/session"
)

// reader makes sessions of trajectories.
type reader struct {
	tally *source.Tally
	store *session.Store
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
				r.tally.PassOver("entries that are no trajectories", 1)
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
		if id := session.Text(trajectory, key); id != "" {
			return id
		}
	}
	id, _ := entry.Get("item_id")
	return source.IDText(id)
}

func (r *reader) drop(unit string, why ledger.Reason, detail, path string, offset int64) {
	r.tally.Drop(ledger.Drop{Unit: unit, Reason: why, Detail: detail, Index: -1, File: path, Offset: offset})
}

// sessions makes the session of trajectories with one id.
func (r *reader) sessions(g session.Group) []*calls.Session {
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
	if s == nil {
		return nil
	}
	return []*calls.Session{s}
}
