package atif

import (
	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// reader builds sessions from trajectories.
type reader struct{ tally *source.Tally }

func entries(tally *source.Tally) session.Entries {
	return session.Entries{ID: keyOf, Others: "entries that are not trajectories", Sessions: (&reader{tally}).sessions}
}

func keyOf(entry json.Raw) (string, bool) {
	trajectory := trajectoryOf(entry)
	return idOf(entry, trajectory), trajectory != nil
}

// idOf returns the session id of a trajectory.
func idOf(entry, trajectory json.Raw) string {
	for _, key := range []string{"session_id", "trajectory_id"} {
		if id := session.Text(trajectory, key); id != "" {
			return id
		}
	}
	id, _ := entry.Get("item_id")
	return source.IDText(id)
}

// sessions builds the session from the trajectories that share an id.
func (r *reader) sessions(g session.Group) []*calls.Session {
	var s *calls.Session
	for _, part := range g.Parts {
		trajectory := trajectoryOf(json.Raw(part.JSON))
		if s == nil {
			s = g.Limits.New(idOf(json.Raw(part.JSON), trajectory))
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
