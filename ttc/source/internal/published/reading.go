package published

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/compose"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// pick returns an object with an entry's members under the given keys, or nil if it has none.
func pick(entry json.Raw, keys ...string) json.Raw {
	var o compose.Object
	for _, key := range keys {
		o = o.Set(key, value(entry, key))
	}
	if o == nil {
		return nil
	}
	return o.End()
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

// reading is the state of reading an entry or a part of one. The first read that fails sets err, so err need not
// be checked after each value.
type reading struct {
	json.Raw
	err error
}

// fail sets the error unless an earlier read has failed.
func (r *reading) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
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
