package claudecode

import (
	"slices"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// newest is the latest version of the program whose files have been tested.
const newest = "2.1.332"

// Factory returns this source's factory, which a configuration selects by its type.
func Factory() source.Factory {
	return session.Format{
		Type: "claude_code", Tried: "Claude Code " + newest,
		Doc:        "sessions of Claude Code (~/.claude/projects)",
		Extensions: []string{".jsonl"}, Recognize: recognize, Read: read,
	}.Factory()
}

// recognize identifies files by their lines, unless one of them is from another program.
func recognize(h *source.Head) source.Reading {
	if slices.ContainsFunc(h.Entries, isOthers) {
		return source.Reading{}
	}
	return session.Marked(isLine, "sessionId", "uuid")(h)
}

// isOthers reports whether a line is from Qwen Code, whose lines have the same keys, with messages in Google's format.
func isOthers(line json.Raw) bool {
	_, parts := session.At(line, "message").Get("parts")
	return parts
}

// isBare reports whether a line without a session id is from Claude Code. (Tools that clean up files remove the id.)
func isBare(line json.Raw) bool {
	return session.Text(line, "uuid") != "" && session.Text(line, "message", "role") == session.Text(line, "type")
}

// isLine reports whether an object is a line of a session.
func isLine(line json.Raw) bool {
	if _, ok := line.Get("sessionId"); !ok && !isBare(line) {
		return false
	}
	text, ok := session.At(line, "type").Text()
	if !ok || isOthers(line) {
		return false
	}
	_, parent := line.Get("parentUuid")
	_, message := line.Get("message")
	return parent || message || ignoredTypes[text] || text == "api-request" || text == "api-request-shape"
}
