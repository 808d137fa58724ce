package claudecode

import (
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/session"
)

// newest is the latest version of the program whose files were tried.
const newest = "2.1.329"

// Factory is the source as a configuration names it.
func Factory() source.Factory {
	return session.Format{
		Type: "claude_code", Tried: "Claude Code " + newest,
		Doc:        "sessions of Claude Code (~/.claude/projects)",
		Extensions: []string{".jsonl"}, Recognize: session.Marked(isLine, "sessionId"), Read: read,
	}.Factory()
}

// isLine reports whether an object is a line of a session.
func isLine(line json.Raw) bool {
	if _, ok := line.Get("sessionId"); !ok {
		return false
	}
	typ, _ := line.Get("type")
	if typ.Kind() != json.String {
		return false
	}
	_, parent := line.Get("parentUuid")
	_, message := line.Get("message")
	text, _ := typ.Text()
	return parent || message || passedOver[text] || text == "api-request" || text == "api-request-shape"
}
