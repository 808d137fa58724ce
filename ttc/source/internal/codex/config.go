package codex

import (
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// newest is the latest version of the program whose files have been tested.
const newest = "0.171.0"

// Factory returns this source's factory, which a configuration selects by its type.
func Factory() source.Factory {
	return session.Format{
		Type: "codex", Tried: "Codex " + newest,
		Doc:        "sessions of Codex (~/.codex/sessions)",
		Extensions: []string{".jsonl"}, Recognize: session.Marked(isLine, "payload"), Read: read,
	}.Factory()
}

// isLine reports whether an object is a line of a session: {timestamp, type, payload}. Tools that clean files remove
// the timestamp.
func isLine(line json.Raw) bool {
	typ := session.Text(line, "type")
	_, at := line.Get("timestamp")
	return session.At(line, "payload").Kind() == json.Object &&
		(typ == "response_item" || at && (known[typ] || ignoredItems[typ]))
}
