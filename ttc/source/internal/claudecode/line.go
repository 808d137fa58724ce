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

// textFields and valueFields are the fields of a line that hold the text or the value under a key.
var (
	textFields = map[string]func(*line) *string{
		`"type"`:       func(l *line) *string { return &l.typ },
		`"subtype"`:    func(l *line) *string { return &l.subtype },
		`"uuid"`:       func(l *line) *string { return &l.uuid },
		`"parentUuid"`: func(l *line) *string { return &l.parent },
		`"agentId"`:    func(l *line) *string { return &l.agent },
		`"requestId"`:  func(l *line) *string { return &l.requestID },
		`"requestRef"`: func(l *line) *string { return &l.requestRef },
		`"id"`:         func(l *line) *string { return &l.id },
		`"hash"`:       func(l *line) *string { return &l.hash },
		`"base"`:       func(l *line) *string { return &l.base },
		`"shapeHash"`:  func(l *line) *string { return &l.shapeHash },
	}
	valueFields = map[string]func(*line) *json.Raw{
		`"version"`:         func(l *line) *json.Raw { return &l.version },
		`"message"`:         func(l *line) *json.Raw { return &l.message },
		`"attachment"`:      func(l *line) *json.Raw { return &l.attachment },
		`"rendered"`:        func(l *line) *json.Raw { return &l.rendered },
		`"compactMetadata"`: func(l *line) *json.Raw { return &l.compact },
		`"tail"`:            func(l *line) *json.Raw { return &l.tail },
		`"shape"`:           func(l *line) *json.Raw { return &l.shape },
	}
)

// parseLine reads a line. The line's content is valid only as long as raw is.
func parseLine(raw json.Raw) line {
	l := line{blockIndex: -1}
	c := raw.Cursor()
	c.Enter(json.Object)
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		if field := textFields[string(key)]; field != nil {
			*field(&l), _ = c.Value().Text()
			l.linked = l.linked || string(key) == `"parentUuid"`
			continue
		}
		if field := valueFields[string(key)]; field != nil {
			*field(&l) = c.Value()
			continue
		}
		switch string(key) {
		case `"isSidechain"`:
			l.sidechain, _ = c.Value().Bool()
		case `"isCompactSummary"`:
			l.summary, _ = c.Value().Bool()
		case `"isApiErrorMessage"`:
			l.apiError, _ = c.Value().Bool()
		case `"apiBlockIndex"`:
			if n, ok := c.Value().Int64(); ok && n >= 0 {
				l.blockIndex = n
			}
		case `"timestamp"`:
			at, _ := c.Value().Text()
			l.at = session.Nanoseconds(at)
		case `"keep"`:
			l.keep, _ = c.Value().Int64()
		default:
			c.Skip()
		}
	}
	return l
}
