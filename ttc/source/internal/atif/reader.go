package atif

import (
	"cmp"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

func keyOf(entry json.Raw) (string, bool) {
	trajectory := trajectoryOf(entry)
	return idOf(entry, trajectory), trajectory != nil
}

// idOf returns the session id of a trajectory.
func idOf(entry, trajectory json.Raw) string {
	return cmp.Or(session.Text(trajectory, "session_id"), session.Text(trajectory, "trajectory_id"),
		source.IDText(session.At(entry, "item_id")))
}

// sessions builds the session from the trajectories that share an id.
func sessions(g session.Group) []*calls.Session {
	id, _ := keyOf(g.Parts[0].JSON)
	s := g.Limits.New(id)
	for _, part := range g.Parts {
		if item, ok := json.Raw(part.JSON).Get("item_id"); ok {
			s.Task = source.IDText(item)
		}
		(&steps{tally: g.Tally, s: s, part: part}).add(trajectoryOf(part.JSON), "", 0)
	}
	return []*calls.Session{s}
}
