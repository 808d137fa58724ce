package atof

import (
	"cmp"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// newest is the latest version of the format that has been tested.
const newest = "0.1"

// Factory returns this source's factory, which a configuration selects by its type.
func Factory() source.Factory {
	return session.Format{
		Type: "atof", Tried: "nemo-relay 0.10.4",
		Doc: "events of NeMo Relay (ATOF)", Extensions: []string{".jsonl"},
		Recognize: session.Marked(isEvent, "atof_version"), Entries: entries,
	}.Factory()
}

func isEvent(entry json.Raw) bool {
	version, ok := entry.Get("atof_version")
	return ok && version.Kind() == json.String
}

// reader builds sessions from events.
type reader struct {
	tally *source.Tally
	roots *session.Names // roots of calls that have begun but not ended
	named *session.Names // sessions, by root
}

func entries(tally *source.Tally) session.Entries {
	r := &reader{tally: tally, roots: &session.Names{}, named: &session.Names{}}
	return session.Entries{
		ID: r.root, Others: "lines that are not events", Regroup: r.named.NameOf, Sessions: r.sessions,
		Names: []*session.Names{r.roots, r.named},
	}
}

// rootOf returns the id of the outermost scope that contains an event, truncated to the length of a key.
func rootOf(entry json.Raw) string {
	root := cmp.Or(session.Text(entry, "propagation_root_uuid"), session.Text(entry, "uuid"))
	return root[:min(len(root), maxKey)]
}

// maxKey is the maximum length of an event's key; an id has 36 characters.
const maxKey = 40

// root returns the key of an event.
func (r *reader) root(entry json.Raw) (string, bool) {
	if !isEvent(entry) {
		return "", false
	}
	id, root := session.Text(entry, "uuid"), rootOf(entry)
	if session.Text(entry, "category") == "llm" {
		if began, ok := r.roots.Get(id); ok {
			r.roots.Delete(id)
			return began, true
		}
		if session.Text(entry, "scope_category") == "start" {
			r.roots.Set(id, root)
		}
	}
	if name := session.Text(entry, "metadata", "session_id"); name != "" {
		r.named.Least(root, name)
	}
	return root, true
}

// sessions builds the session from the events.
func (r *reader) sessions(g session.Group) []*calls.Session {
	t := &scopes{r: r, byID: map[string]*scope{}, failed: map[string]bool{}, agents: map[*scope]string{}}
	for _, part := range g.Parts {
		t.add(part)
	}
	return t.sessions(g.Limits)
}
