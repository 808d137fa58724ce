package otlp

import (
	"encoding/base64"
	"encoding/hex"
	"math"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/nat-go/nat-go/ttc/json"
)

// shape describes the fields of a message that are written in JSON.
type shape struct {
	fields map[protowire.Number]field
	oneof  bool // the message has one of the fields; the last of several wins
}

// field describes how a field is written.
type field struct {
	key  string
	kind kind
	of   *shape // shape of the messages in the field, if any
}

type kind uint8

const (
	textKind kind = iota
	idKind
	intKind    // a varint, as a number
	longKind   // a varint, as text
	boolKind   // a varint
	timeKind   // fixed64, as text
	doubleKind // fixed64
	bytesKind  // as base64
	nestedKind // a message
	listKind   // messages
)

// The parts of OTLP's messages that are used.
var (
	valueShape     = &shape{oneof: true} // value of an attribute
	attributeShape = &shape{fields: map[protowire.Number]field{
		1: {key: "key"}, 2: {key: "value", kind: nestedKind, of: valueShape},
	}}
	eventShape = &shape{fields: map[protowire.Number]field{
		1: {key: "timeUnixNano", kind: timeKind}, 2: {key: "name"},
		3: {key: "attributes", kind: listKind, of: attributeShape}, 4: {key: "droppedAttributesCount", kind: intKind},
	}}
	spanShape = &shape{fields: map[protowire.Number]field{
		1: {key: "traceId", kind: idKind}, 2: {key: "spanId", kind: idKind}, 4: {key: "parentSpanId", kind: idKind},
		5: {key: "name"}, 7: {key: "startTimeUnixNano", kind: timeKind},
		9:  {key: "attributes", kind: listKind, of: attributeShape},
		10: {key: "droppedAttributesCount", kind: intKind}, 11: {key: "events", kind: listKind, of: eventShape},
		12: {key: "droppedEventsCount", kind: intKind}, 15: {key: "status", kind: nestedKind, of: statusShape},
	}}
	statusShape = &shape{fields: map[protowire.Number]field{2: {key: "message"}, 3: {key: "code", kind: intKind}}}
	placeShape  = &shape{fields: map[protowire.Number]field{
		1: {key: "traceId", kind: idKind}, 2: {key: "spanId", kind: idKind}, 4: {key: "parentSpanId", kind: idKind},
	}}
	logShape = &shape{fields: map[protowire.Number]field{
		1: {key: "timeUnixNano", kind: timeKind}, 5: {key: "body", kind: nestedKind, of: valueShape},
		6: {key: "attributes", kind: listKind, of: attributeShape}, 7: {key: "droppedAttributesCount", kind: intKind},
		9:  {key: "traceId", kind: idKind},
		10: {key: "spanId", kind: idKind}, 11: {key: "observedTimeUnixNano", kind: timeKind}, 12: {key: "eventName"},
	}}
)

func init() { // avoids an initialization cycle: values may contain values
	list := func(of *shape) *shape {
		return &shape{fields: map[protowire.Number]field{1: {key: "values", kind: listKind, of: of}}}
	}
	valueShape.fields = map[protowire.Number]field{
		1: {key: "stringValue"}, 2: {key: "boolValue", kind: boolKind}, 3: {key: "intValue", kind: longKind},
		4: {key: "doubleValue", kind: doubleKind}, 5: {key: "arrayValue", kind: nestedKind, of: list(valueShape)},
		6: {key: "kvlistValue", kind: nestedKind, of: list(attributeShape)}, 7: {key: "bytesValue", kind: bytesKind},
	}
}

// maxListField is the highest number of a list field.
const maxListField = 11

// transcoder writes items as JSON in memory, up to a limit, because JSON may be much larger than protobuf: an empty
// element takes two bytes in protobuf, but up to twenty in JSON.
type transcoder struct {
	most    int64 // maximum number of bytes of JSON
	objects int64 // number of messages and values that may still be written
	full    bool  // an item exceeded one of these limits
}

// item returns a span or a log record as JSON. It reports whether the item is intact and within the limits.
func (t *transcoder) item(item []byte, of *shape) (json.Raw, bool) {
	b, ok := t.message(nil, item, of, 0)
	return b, ok && !t.full
}

// begin reports whether another message or value may be written after b.
func (t *transcoder) begin(b []byte) bool {
	t.objects--
	return t.fits(b, 0) && t.objects >= 0 || t.stop()
}

// fits reports whether n more bytes may be written after b.
func (t *transcoder) fits(b []byte, n int) bool { return int64(len(b)+n) <= t.most || t.stop() }

func (t *transcoder) stop() bool {
	t.full = true
	return false
}

// text appends a string.
func (t *transcoder) text(b, text []byte) []byte {
	if !t.fits(b, len(text)) || !t.fits(b, quoted(text)) {
		return append(b, `""`...)
	}
	return json.AppendString(b, string(text))
}

// quoted returns the maximum number of bytes that a string takes in JSON.
func quoted(text []byte) int {
	n := 0
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if text = text[size:]; r < ' ' || r == '"' || r == '\\' || r == utf8.RuneError {
			size = len(`\uFFFF`)
		}
		n += size
	}
	return n
}

// maxMessages is the maximum nesting depth of the messages that are read. A value in a list of members is three
// levels deeper than the list's value.
const maxMessages = 4 * maxDepth

// message appends a message; depth is the number of messages around it. It reports whether the message is intact.
func (t *transcoder) message(b, message []byte, of *shape, depth int) ([]byte, bool) {
	if !t.begin(b) {
		return b, false
	}
	b = append(b, '{')
	if depth > maxMessages {
		return append(b, '}'), true
	}
	start, ok := len(b), true
	var lists [maxListField + 1][][]byte // the elements of a list need not be adjacent
	whole := fields(message, func(num protowire.Number, typ protowire.Type, value []byte) bool {
		f, known := of.fields[num]
		if !known || typ != f.kind.wire() {
			return true
		}
		if f.kind == listKind {
			lists[num] = append(lists[num], value)
			return int64(len(lists[num])) <= t.objects || t.stop()
		}
		if of.oneof {
			b = b[:start]
		}
		b = append(json.AppendString(json.AppendComma(b), f.key), ':')
		var fine bool
		b, fine = t.field(b, value, f, depth)
		ok = ok && fine
		return !t.full
	})
	for num, elements := range lists {
		if elements == nil {
			continue
		}
		f := of.fields[protowire.Number(num)]
		b = append(json.AppendString(json.AppendComma(b), f.key), ":["...)
		for _, e := range elements {
			var fine bool
			b, fine = t.message(json.AppendComma(b), e, f.of, depth+1)
			if ok = ok && fine; t.full {
				return b, false
			}
		}
		b = append(b, ']')
	}
	return append(b, '}'), ok && whole
}

// field appends the value of a field that isn't a list. It reports whether the value is intact.
func (t *transcoder) field(b, value []byte, f field, depth int) ([]byte, bool) {
	var n uint64
	switch f.kind.wire() {
	case protowire.VarintType:
		n, _ = protowire.ConsumeVarint(value)
	case protowire.Fixed64Type:
		n, _ = protowire.ConsumeFixed64(value)
	}
	switch f.kind {
	case textKind:
		b = t.text(b, value)
	case idKind:
		if !t.fits(b, 2*len(value)) {
			return b, false
		}
		b = append(hex.AppendEncode(append(b, '"'), value), '"')
	case intKind:
		b = strconv.AppendUint(b, n, 10)
	case longKind:
		b = append(strconv.AppendInt(append(b, '"'), int64(n), 10), '"')
	case boolKind:
		b = strconv.AppendBool(b, n != 0)
	case timeKind:
		b = append(strconv.AppendUint(append(b, '"'), n, 10), '"')
	case doubleKind:
		b = appendDouble(b, math.Float64frombits(n))
	case bytesKind:
		if !t.fits(b, base64.StdEncoding.EncodedLen(len(value))) {
			return b, false
		}
		b = append(base64.StdEncoding.AppendEncode(append(b, '"'), value), '"')
	case nestedKind:
		return t.message(b, value, f.of, depth+1)
	}
	return b, true
}

func (k kind) wire() protowire.Type {
	switch k {
	case intKind, longKind, boolKind:
		return protowire.VarintType
	case timeKind, doubleKind:
		return protowire.Fixed64Type
	}
	return protowire.BytesType
}

func appendDouble(b []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(b, `"NaN"`...)
	}
	return strconv.AppendFloat(b, f, 'g', -1, 64)
}
