package otlp

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Sizes of ids.
const (
	traceBytes = 16
	spanBytes  = 8
)

// hexID returns an id in hexadecimal, as in OTLP's JSON. Generic protobuf tools write base64.
func hexID(text string, size int) string {
	switch len(text) {
	case 2 * size:
		return strings.ToLower(text)
	case base64.StdEncoding.EncodedLen(size):
		if b, err := base64.StdEncoding.DecodeString(text); err == nil && len(b) == size {
			return hex.EncodeToString(b)
		}
	}
	return ""
}

// span is a span, or the data that log records contain about a missing span.
type span struct {
	id, parent, trace string
	start             int64
	attributes        attributes
	cut               bool // attributes are missing because their number exceeded the exporter's limit
	cutEvents         bool // events or their attributes are missing because their number exceeded a limit
	failed            bool
	status            string // message of the span's status
	events            []event

	path   string
	offset int64
}

// event is a log record or an event of a span.
type event struct {
	name       string
	at         int64
	place      int64 // index among the events of its span, or offset of a log record
	body       json.Raw
	attributes attributes
	cut        bool // attributes are missing
}

// attributes holds an item's attributes, as plain JSON.
type attributes map[string]json.Raw

func (a attributes) text(key string) string { return session.Text(a[key]) }

// first returns the first non-empty string under the keys.
func (a attributes) first(keys ...string) string {
	for _, key := range keys {
		if s := a.text(key); s != "" {
			return s
		}
	}
	return ""
}

// number returns the first non-negative number under the keys, as an integer, or 0.
func (a attributes) number(keys ...string) int64 {
	for _, key := range keys {
		if f, ok := a[key].Float64(); ok && f >= 0 && f < 1<<53 {
			return int64(f)
		}
	}
	return 0
}

// structured returns a value that may be given as JSON text.
func (a attributes) structured(key string) json.Raw {
	v := a[key]
	if v.Kind() != json.String {
		return v
	}
	parsed, _ := json.Parse(v.Bytes(), json.Limits{Objects: repeated * source.InTexts.Objects})
	return parsed
}

// objectsInTexts returns the number of objects and lists in the JSON that a span's attributes hold as strings. It
// stops counting once the number exceeds most.
func (s *span) objectsInTexts(most int64) (n int64) {
	count := func(a attributes) {
		for _, v := range a {
			if n <= most && len(v) > 1 && (v[1] == '[' || v[1] == '{') && v.Kind() == json.String {
				n += json.Raw(v.Bytes()).Objects(most)
			}
		}
	}
	count(s.attributes)
	for _, e := range s.events {
		count(e.attributes)
	}
	return min(n, most+1)
}

// attributesOf reads the attributes of an item.
func attributesOf(list json.Raw) attributes {
	out := attributes{}
	for e := range list.Elements() {
		var key string
		var value json.Raw
		for k, v := range e.Members() {
			switch {
			case k.Is("key"):
				key, _ = v.Text()
			case k.Is("value"):
				value = v
			}
		}
		out[key] = appendPlain(nil, value, 0)
	}
	return out
}

// members returns the values that an object has under some keys, found in one pass, because spans are long and each Get
// scans the whole object.
func members(object json.Raw, keys ...string) map[string]json.Raw {
	out := make(map[string]json.Raw, len(keys))
	for k, v := range object.Members() {
		if i := slices.IndexFunc(keys, k.Is); i >= 0 {
			out[keys[i]] = v
		}
	}
	return out
}

// maxDepth is the maximum nesting depth of the values that are read.
const maxDepth = 100

// appendPlain appends a value as plain JSON: {"stringValue": "x"} becomes "x".
func appendPlain(b []byte, v json.Raw, depth int) json.Raw {
	if depth > maxDepth {
		return append(b, "null"...)
	}
	for key, inner := range v.Members() {
		switch string(key) {
		case `"stringValue"`, `"bytesValue"`, `"boolValue"`:
			return append(b, inner...)
		case `"intValue"`:
			return appendInt(b, inner)
		case `"doubleValue"`:
			if inner.Kind() == json.Number {
				return append(b, inner...)
			}
			return append(b, "null"...) // "NaN"
		case `"arrayValue"`:
			b = append(b, '[')
			for e := range session.At(inner, "values").Elements() {
				b = appendPlain(json.AppendComma(b), e, depth+1)
			}
			return append(b, ']')
		case `"kvlistValue"`:
			b = append(b, '{')
			for e := range session.At(inner, "values").Elements() {
				b = append(json.AppendString(json.AppendComma(b), session.Text(e, "key")), ':')
				b = appendPlain(b, session.At(e, "value"), depth+1)
			}
			return append(b, '}')
		}
	}
	return append(b, "null"...)
}

// appendInt appends an integer, which is a string in OTLP's JSON.
func appendInt(b []byte, v json.Raw) []byte {
	if text, ok := v.Text(); ok {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return strconv.AppendInt(b, n, 10)
		}
		return append(b, "null"...)
	}
	return append(b, v...)
}

// nanoseconds reads a time, which is a string in OTLP's JSON.
func nanoseconds(values ...json.Raw) int64 {
	for _, v := range values {
		n, ok := v.Int64()
		if text, isText := v.Text(); isText {
			var err error
			n, err = strconv.ParseInt(text, 10, 64)
			ok = err == nil
		}
		if ok && n > 0 {
			return n
		}
	}
	return 0
}

// spanOf reads a kept span.
func spanOf(kept session.Kept) *span {
	m := members(json.Raw(kept.JSON[1:]), "spanId", "parentSpanId", "traceId", "startTimeUnixNano", "attributes",
		"droppedAttributesCount", "droppedEventsCount", "status", "events")
	s := &span{
		id:     hexID(session.Text(m["spanId"]), spanBytes),
		parent: hexID(session.Text(m["parentSpanId"]), spanBytes),
		trace:  hexID(session.Text(m["traceId"]), traceBytes),
		start:  nanoseconds(m["startTimeUnixNano"]), attributes: attributesOf(m["attributes"]),
		cut: positive(m["droppedAttributesCount"]), cutEvents: positive(m["droppedEventsCount"]),
		path: kept.Path, offset: kept.Offset,
	}
	status := members(m["status"], "code", "message")
	code, _ := status["code"].Int64()
	s.failed = code == 2 || status["code"].Is("STATUS_CODE_ERROR")
	s.status = session.Text(status["message"])
	for e := range m["events"].Elements() {
		of := members(e, "name", "timeUnixNano", "attributes", "droppedAttributesCount")
		ev := event{
			name: session.Text(of["name"]), at: nanoseconds(of["timeUnixNano"]), place: int64(len(s.events)),
			attributes: attributesOf(of["attributes"]), cut: positive(of["droppedAttributesCount"]),
		}
		s.cutEvents = s.cutEvents || ev.cut
		ev.body = ev.attributes.structured("gen_ai.event.content")
		s.events = append(s.events, ev)
	}
	return s
}

func positive(v json.Raw) bool {
	n, _ := v.Int64()
	return n > 0
}

// eventOf reads a stored log record. It also returns the record's trace and span ids.
func eventOf(kept session.Kept) (ev event, trace, of string) {
	m := members(json.Raw(kept.JSON[1:]), "traceId", "spanId", "eventName", "timeUnixNano", "observedTimeUnixNano",
		"attributes", "droppedAttributesCount", "body")
	ev = event{
		name: session.Text(m["eventName"]), at: nanoseconds(m["timeUnixNano"], m["observedTimeUnixNano"]),
		place: kept.Offset, attributes: attributesOf(m["attributes"]), body: appendPlain(nil, m["body"], 0),
		cut: positive(m["droppedAttributesCount"]),
	}
	ev.name = cmp.Or(ev.name, ev.attributes.text("event.name"))
	if ev.body.Kind() == json.String { // a logging library's bridge writes the body as text
		if parsed, err := json.Parse(ev.body.Bytes(), json.Limits{}); err == nil {
			ev.body = parsed
		}
	}
	return ev, hexID(session.Text(m["traceId"]), traceBytes), hexID(session.Text(m["spanId"]), spanBytes)
}
