package atif

import (
	"cmp"
	"strings"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Factory returns this source's factory, which a configuration selects by its type.
func Factory() source.Factory {
	return session.Format{
		Type: "atif", Tried: "Harbor 0.24.0, NAT 1.9.0",
		Doc:        "trajectories in the Agent Trajectory Interchange Format (Harbor, NAT)",
		Extensions: []string{".json", ".jsonl"},
		Recognize:  session.Marked(isTrajectory, "trajectory", "steps"),
		Entries:    session.Stateless("entries that are not trajectories", keyOf, sessions),
	}.Factory()
}

func isTrajectory(entry json.Raw) bool { return trajectoryOf(entry) != nil }

// trajectoryOf returns the trajectory in an entry: the entry itself, or, for an item of NAT's list, a member of it.
func trajectoryOf(entry json.Raw) json.Raw {
	if inner, ok := entry.Get("trajectory"); ok && inner.Kind() == json.Object {
		entry = inner
	}
	if _, ok := entry.Get("steps"); ok && strings.HasPrefix(session.Text(entry, "schema_version"), "ATIF-") {
		return entry
	}
	return nil
}

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
