package published

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// object is a JSON object being written.
type object []byte

// set adds a member, unless its value is missing or null.
func (o object) set(key string, v json.Raw) object {
	if v.Kind() == json.Invalid || v.Kind() == json.Null {
		return o
	}
	if o == nil {
		o = object{'{'}
	}
	return append(append(json.AppendString(json.AppendComma(o), key), ':'), v...)
}

// text adds a string member.
func (o object) text(key, v string) object { return o.set(key, json.AppendString(nil, v)) }

// name adds a string member, unless it is empty.
func (o object) name(key, v string) object {
	if v == "" {
		return o
	}
	return o.text(key, v)
}

// end completes the object. It returns nil for an object without members.
func (o object) end() json.Raw {
	if o == nil {
		return nil
	}
	return json.Raw(append(o, '}'))
}

// pick returns an object with an entry's members under the given keys.
func pick(entry json.Raw, keys ...string) json.Raw {
	var o object
	for _, key := range keys {
		o = o.set(key, value(entry, key))
	}
	return o.end()
}

// value returns the value under the first of the keys that has one; null doesn't count.
func value(entry json.Raw, keys ...string) json.Raw {
	for _, key := range keys {
		if v, ok := entry.Get(key); ok && v.Kind() != json.Null {
			return v
		}
	}
	return nil
}

// reading is an entry, or a part of one, being read. The first read that fails sets err, so that an entry is read
// without a check after each value.
type reading struct {
	json.Raw
	err error
}

// fail sets the error unless an earlier read has failed.
func (r *reading) fail(format string, args ...any) {
	r.err = cmp.Or(r.err, fmt.Errorf(format, args...))
}

// text returns the text under a key.
func (r *reading) text(key string) string {
	v := value(r.Raw, key)
	text, ok := v.Text()
	switch {
	case v == nil:
		r.fail("%s is null or missing; the keys are: %s", key, source.KeysOf(r.Raw))
	case !ok:
		r.fail("%s is %s, not text", key, v.Kind())
	}
	return text
}

// score returns the number under a key.
func (r *reading) score(key string) float64 {
	v := value(r.Raw, key)
	if v == nil {
		r.fail("%s %w", key, ErrNoScore)
		return 0
	}
	f, err := number(v)
	if err != nil {
		r.fail("%s is %w", key, err)
	}
	return f
}

// list returns the list at a path of keys.
func (r *reading) list(path ...string) json.Raw {
	v, err := list(session.At(r.Raw, path...))
	if err != nil {
		r.fail("%s: %w", strings.Join(path, "."), err)
	}
	return v
}

// sides returns two answers without their scores.
func (r *reading) sides(first, second string) [2]side {
	return [2]side{{text: r.text(first)}, {text: r.text(second)}}
}

// list returns a value that is a list, or parses a string that is the JSON text of a list.
func list(v json.Raw) (json.Raw, error) {
	v, err := source.Inner(v)
	if err != nil {
		return nil, fmt.Errorf("invalid JSON text: %w", json.LineError(err))
	}
	if v.Kind() == json.Invalid || v.Kind() == json.Null {
		return nil, errors.New("missing or null")
	}
	if v.Kind() != json.Array {
		return nil, fmt.Errorf("expected a list, got %s", v.Kind())
	}
	return v, nil
}

// messages is a list of messages being written.
type messages []byte

func (m messages) add(role, text string) messages {
	o := object(nil).text("role", role).text("content", text)
	return m.raw(o.end())
}

func (m messages) raw(message json.Raw) messages {
	if m == nil {
		m = messages{'['}
	}
	return append(json.AppendComma(m), message...)
}

// end returns the completed list. It doesn't change m, so more messages can be added.
func (m messages) end() json.Raw {
	if m == nil {
		return json.Raw("[]")
	}
	return json.Raw(append(m[:len(m):len(m)], ']'))
}
