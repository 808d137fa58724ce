package calls

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// sum returns the hash by which messages are considered equal, and b, which it uses as a buffer. The hash ignores
// differences in recording: the spelling of a call's arguments, whether a message without text omits the field or
// leaves it empty, whether a text is a string or a list of parts.
func sum(b []byte, m *Message) (xxh3.Uint128, []byte) {
	b = b[:0]
	field := func(text string) {
		b = strconv.AppendInt(b, int64(len(text)), 10)
		b = append(b, ':')
		b = append(b, text...)
	}
	field(m.Role)
	if m.Tokens != 0 {
		b = strconv.AppendUint(b, m.Tokens, 16)
	}
	if text, ok := Plain(&m.Message); ok {
		field(text)
	} else {
		for _, p := range m.Parts {
			field(p.Type)
			field(p.Text)
			b = AppendCanonical(b, p.Raw)
		}
	}
	field(m.Reasoning)
	field(m.Name)
	field(m.ToolCallID)
	for i := range m.ToolCalls {
		call := &m.ToolCalls[i]
		field(call.ID)
		field(call.Name)
		if call.Parsed != nil {
			b = AppendCanonical(b, call.Parsed)
		} else {
			field(call.Arguments)
		}
	}
	for _, x := range m.Extra {
		field(x.Key)
		b = AppendCanonical(b, x.Value)
	}
	return xxh3.Hash128(b), b
}

// Plain returns the text of a message that consists only of text.
func Plain(m *chat.Message) (string, bool) {
	flat := *m
	flat.FlattenText()
	return flat.Text, flat.Form != chat.Parts
}

// maxCanonical is the depth down to which values are canonicalised; deeper ones are used as written.
const maxCanonical = 64

// maxMembers is the maximum number of members of an object that is canonicalised; larger ones are used as written.
const maxMembers = 10_000

// AppendCanonical appends a value in a form that equal values share: keys sorted, no white space, numbers by value. It
// appends very deep or large values as written.
func AppendCanonical(b []byte, v json.Raw) []byte { return appendCanonical(b, v, 0) }

func appendCanonical(b []byte, v json.Raw, depth int) []byte {
	if depth == maxCanonical {
		return append(b, v...)
	}
	switch v.Kind() {
	case json.Object:
		type member struct {
			key   string
			value json.Raw
		}
		var all []member
		for k, val := range v.Members() {
			key, _ := k.Text()
			if all = append(all, member{key, val}); len(all) > maxMembers {
				return append(b, v...)
			}
		}
		slices.SortStableFunc(all, func(x, y member) int { return strings.Compare(x.key, y.key) })
		b = append(b, '{')
		for _, m := range all {
			b = json.AppendString(b, m.key)
			b = append(b, ':')
			b = append(appendCanonical(b, m.value, depth+1), ',')
		}
		return append(b, '}')
	case json.Array:
		b = append(b, '[')
		for e := range v.Elements() {
			b = append(appendCanonical(b, e, depth+1), ',')
		}
		return append(b, ']')
	case json.String:
		text, _ := v.Text()
		return json.AppendString(b, text)
	case json.Number:
		if f, ok := v.Float64(); ok && (!v.IsInt() || math.Abs(f) < 1<<53) {
			return strconv.AppendFloat(b, f, 'g', -1, 64)
		}
	}
	return append(b, v...)
}
