package claudecode

import (
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
)

// line holds the fields of a line that are used.
type line struct {
	typ, subtype, uuid, parent, agent string
	sidechain, summary, apiError      bool
	linked                            bool // the line has a parentUuid, which may be null
	requestID, requestRef             string
	blockIndex                        int64 // -1 if unknown
	at                                int64 // nanoseconds since 1970
	offset                            int64

	message, attachment, rendered, compact json.Raw
	version                                json.Raw // version of the program

	id, hash, base, shapeHash string
	keep                      int64
	tail, shape               json.Raw
}

// lineFields read the fields of a line that are used, by their keys.
var lineFields = map[string]func(l *line, v json.Raw){
	`"type"`:       func(l *line, v json.Raw) { l.typ = session.Text(v) },
	`"subtype"`:    func(l *line, v json.Raw) { l.subtype = session.Text(v) },
	`"uuid"`:       func(l *line, v json.Raw) { l.uuid = session.Text(v) },
	`"parentUuid"`: func(l *line, v json.Raw) { l.parent, l.linked = session.Text(v), true },
	`"agentId"`:    func(l *line, v json.Raw) { l.agent = session.Text(v) },
	`"requestId"`:  func(l *line, v json.Raw) { l.requestID = session.Text(v) },
	`"requestRef"`: func(l *line, v json.Raw) { l.requestRef = session.Text(v) },
	`"id"`:         func(l *line, v json.Raw) { l.id = session.Text(v) },
	`"hash"`:       func(l *line, v json.Raw) { l.hash = session.Text(v) },
	`"base"`:       func(l *line, v json.Raw) { l.base = session.Text(v) },
	`"shapeHash"`:  func(l *line, v json.Raw) { l.shapeHash = session.Text(v) },
	`"timestamp"`:  func(l *line, v json.Raw) { l.at = session.Nanoseconds(session.Text(v)) },

	`"version"`:         func(l *line, v json.Raw) { l.version = v },
	`"message"`:         func(l *line, v json.Raw) { l.message = v },
	`"attachment"`:      func(l *line, v json.Raw) { l.attachment = v },
	`"rendered"`:        func(l *line, v json.Raw) { l.rendered = v },
	`"compactMetadata"`: func(l *line, v json.Raw) { l.compact = v },
	`"tail"`:            func(l *line, v json.Raw) { l.tail = v },
	`"shape"`:           func(l *line, v json.Raw) { l.shape = v },

	`"isSidechain"`:       func(l *line, v json.Raw) { l.sidechain, _ = v.Bool() },
	`"isCompactSummary"`:  func(l *line, v json.Raw) { l.summary, _ = v.Bool() },
	`"isApiErrorMessage"`: func(l *line, v json.Raw) { l.apiError, _ = v.Bool() },
	`"keep"`:              func(l *line, v json.Raw) { l.keep, _ = v.Int64() },
	`"apiBlockIndex"`: func(l *line, v json.Raw) {
		if n, ok := v.Int64(); ok && n >= 0 {
			l.blockIndex = n
		}
	},
}

// parseLine reads a line. The line's content is valid only as long as raw is.
func parseLine(raw json.Raw) line {
	l := line{blockIndex: -1}
	c := raw.Cursor()
	c.Enter(json.Object)
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		if read := lineFields[string(key)]; read != nil {
			read(&l, c.Value())
		} else {
			c.Skip()
		}
	}
	return l
}
