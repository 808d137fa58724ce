package atof

import (
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
