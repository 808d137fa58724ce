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
	version                                json.Raw // of the program

	id, hash, base, shapeHash string
	keep                      int64
	tail, shape               json.Raw
}

// parseLine reads a line. The line's content is valid only as long as raw is.
func parseLine(raw json.Raw) line {
	l := line{blockIndex: -1}
	c := raw.Cursor()
	c.Enter(json.Object)
	text := func() string { s, _ := c.Value().Text(); return s }
	flag := func() bool { b, _ := c.Value().Bool(); return b }
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key) {
		case `"type"`:
			l.typ = text()
		case `"subtype"`:
			l.subtype = text()
		case `"uuid"`:
			l.uuid = text()
		case `"parentUuid"`:
			l.parent, l.linked = text(), true
		case `"agentId"`:
			l.agent = text()
		case `"isSidechain"`:
			l.sidechain = flag()
		case `"isCompactSummary"`:
			l.summary = flag()
		case `"isApiErrorMessage"`:
			l.apiError = flag()
		case `"requestId"`:
			l.requestID = text()
		case `"requestRef"`:
			l.requestRef = text()
		case `"apiBlockIndex"`:
			if n, ok := c.Value().Int64(); ok && n >= 0 {
				l.blockIndex = n
			}
		case `"version"`:
			l.version = c.Value()
		case `"timestamp"`:
			l.at = session.Nanoseconds(text())
		case `"message"`:
			l.message = c.Value()
		case `"attachment"`:
			l.attachment = c.Value()
		case `"rendered"`:
			l.rendered = c.Value()
		case `"compactMetadata"`:
			l.compact = c.Value()
		case `"id"`:
			l.id = text()
		case `"hash"`:
			l.hash = text()
		case `"base"`:
			l.base = text()
		case `"shapeHash"`:
			l.shapeHash = text()
		case `"keep"`:
			l.keep, _ = c.Value().Int64()
		case `"tail"`:
			l.tail = c.Value()
		case `"shape"`:
			l.shape = c.Value()
		default:
			c.Skip()
		}
	}
	return l
}
