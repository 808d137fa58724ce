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

// shape describes how a message field is written in JSON.
type shape struct {
	key  string
	kind kind
	of   map[protowire.Number]shape // of a message
}

type kind uint8

const (
	textKind kind = iota
	idKind
	intKind    // a varint, as a number
	timeKind   // fixed64, as text
	nestedKind // a message
	listKind   // messages
	valueKind  // of an attribute
)

// The parts of OTLP's messages that are used.
var (
	attributeShape = map[protowire.Number]shape{1: {key: "key"}, 2: {key: "value", kind: valueKind}}
	eventShape     = map[protowire.Number]shape{
		1: {key: "timeUnixNano", kind: timeKind}, 2: {key: "name"},
		3: {key: "attributes", kind: listKind, of: attributeShape},
	}
	spanShape = map[protowire.Number]shape{
		1: {key: "traceId", kind: idKind}, 2: {key: "spanId", kind: idKind}, 4: {key: "parentSpanId", kind: idKind},
		5: {key: "name"}, 7: {key: "startTimeUnixNano", kind: timeKind},
		9:  {key: "attributes", kind: listKind, of: attributeShape},
		10: {key: "droppedAttributesCount", kind: intKind}, 11: {key: "events", kind: listKind, of: eventShape},
		15: {key: "status", kind: nestedKind, of: statusShape},
	}
	statusShape = map[protowire.Number]shape{2: {key: "message"}, 3: {key: "code", kind: intKind}}
	placeShape  = map[protowire.Number]shape{
		1: {key: "traceId", kind: idKind}, 2: {key: "spanId", kind: idKind}, 4: {key: "parentSpanId", kind: idKind},
	}
	logShape = map[protowire.Number]shape{
		1: {key: "timeUnixNano", kind: timeKind}, 5: {key: "body", kind: valueKind},
		6: {key: "attributes", kind: listKind, of: attributeShape}, 9: {key: "traceId", kind: idKind},
		10: {key: "spanId", kind: idKind}, 11: {key: "observedTimeUnixNano", kind: timeKind}, 12: {key: "eventName"},
	}
)

// transcoder writes items as JSON in memory, up to a limit, because JSON may be much larger than protobuf: an empty
// element takes two bytes in protobuf, but up to twenty in JSON.
type transcoder struct {
	most    int64 // max bytes of JSON
	objects int64 // number of messages and values that may still be written
	full    bool  // an item exceeded one of these limits
}

// item returns a span or a log record as JSON. It reports whether the item is intact and within the limits.
func (t *transcoder) item(item []byte, of map[protowire.Number]shape) (json.Raw, bool) {
	b, ok := t.message(nil, item, of)
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

func (t *transcoder) message(b, message []byte, of map[protowire.Number]shape) ([]byte, bool) {
	if !t.begin(b) {
		return b, false
	}
	b = append(b, '{')
	ok := true
	lists := map[protowire.Number][][]byte{}
	whole := fields(message, func(num protowire.Number, typ protowire.Type, value []byte) bool {
		s, known := of[num]
		if !known || typ != s.kind.wire() {
			return true
		}
		if s.kind == listKind { // the elements of a list need not be adjacent
			lists[num] = append(lists[num], value)
			return int64(len(lists[num])) <= t.objects || t.stop()
		}
		b = append(json.AppendString(json.AppendComma(b), s.key), ':')
		var fine bool
		b, fine = t.field(b, value, s)
		ok = ok && fine
		return !t.full
	})
	for num := protowire.Number(1); num <= 11; num++ {
		elements := lists[num]
		if elements == nil {
			continue
		}
		b = append(json.AppendString(json.AppendComma(b), of[num].key), ":["...)
		for _, e := range elements {
			var fine bool
			b, fine = t.message(json.AppendComma(b), e, of[num].of)
			if ok = ok && fine; t.full {
				return b, false
			}
		}
		b = append(b, ']')
	}
	return append(b, '}'), ok && whole
}

// field appends the value of a field that isn't a list. It reports whether the value is intact.
func (t *transcoder) field(b, value []byte, s shape) ([]byte, bool) {
	switch s.kind {
	case textKind:
		b = t.text(b, value)
	case idKind:
		if !t.fits(b, 2*len(value)) {
			return b, false
		}
		b = append(hex.AppendEncode(append(b, '"'), value), '"')
	case intKind:
		v, _ := protowire.ConsumeVarint(value)
		b = strconv.AppendUint(b, v, 10)
	case timeKind:
		v, _ := protowire.ConsumeFixed64(value)
		b = append(strconv.AppendUint(append(b, '"'), v, 10), '"')
	case nestedKind:
		return t.message(b, value, s.of)
	case valueKind:
		return t.value(b, value, 0)
	}
	return b, true
}

func (k kind) wire() protowire.Type {
	switch k {
	case intKind:
		return protowire.VarintType
	case timeKind:
		return protowire.Fixed64Type
	}
	return protowire.BytesType
}

// value appends an attribute's value. A value that is nested too deeply is omitted.
func (t *transcoder) value(b, value []byte, depth int) ([]byte, bool) {
	if !t.begin(b) {
		return b, false
	}
	if depth > maxDepth {
		return append(b, "{}"...), true
	}
	start, ok := len(b), true
	whole := fields(value, func(num protowire.Number, typ protowire.Type, v []byte) bool {
		if t.full {
			return false
		}
		b = b[:start] // the last of several wins
		switch {
		case num == 1 && typ == protowire.BytesType:
			b = t.text(append(b, `{"stringValue":`...), v)
		case num == 2 && typ == protowire.VarintType:
			n, _ := protowire.ConsumeVarint(v)
			b = strconv.AppendBool(append(b, `{"boolValue":`...), n != 0)
		case num == 3 && typ == protowire.VarintType:
			n, _ := protowire.ConsumeVarint(v)
			b = append(strconv.AppendInt(append(b, `{"intValue":"`...), int64(n), 10), '"')
		case num == 4 && typ == protowire.Fixed64Type:
			n, _ := protowire.ConsumeFixed64(v)
			b = appendDouble(append(b, `{"doubleValue":`...), math.Float64frombits(n))
		case num == 5 && typ == protowire.BytesType:
			b, ok = t.list(append(b, `{"arrayValue":`...), v, depth, t.value)
		case num == 6 && typ == protowire.BytesType:
			b, ok = t.list(append(b, `{"kvlistValue":`...), v, depth, t.member)
		case num == 7 && typ == protowire.BytesType:
			if !t.fits(b, base64.StdEncoding.EncodedLen(len(v))) {
				return false
			}
			b = append(b, `{"bytesValue":"`...)
			b = append(base64.StdEncoding.AppendEncode(b, v), '"')
		default:
			return true
		}
		b = append(b, '}')
		return ok
	})
	if len(b) == start {
		b = append(b, "{}"...)
	}
	return b, ok && whole
}

func appendDouble(b []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(b, `"NaN"`...)
	}
	return strconv.AppendFloat(b, f, 'g', -1, 64)
}

// list appends a list of values or members.
func (t *transcoder) list(
	b, list []byte, depth int, element func(b, value []byte, depth int) ([]byte, bool),
) ([]byte, bool) {
	b = append(b, `{"values":[`...)
	ok := true
	whole := below(list, 1, func(v []byte) bool {
		if t.full {
			return false
		}
		var fine bool
		b, fine = element(json.AppendComma(b), v, depth+1)
		ok = ok && fine
		return fine
	})
	return append(b, "]}"...), ok && whole
}

// member appends a member of an object: {key, value}.
func (t *transcoder) member(b, member []byte, depth int) ([]byte, bool) {
	var key, value []byte
	whole := fields(member, func(num protowire.Number, typ protowire.Type, v []byte) bool {
		if typ == protowire.BytesType && num == 1 {
			key = v
		} else if typ == protowire.BytesType && num == 2 {
			value = v
		}
		return true
	})
	b = t.text(append(b, `{"key":`...), key)
	b, ok := t.value(append(b, `,"value":`...), value, depth)
	return append(b, '}'), ok && whole
}
