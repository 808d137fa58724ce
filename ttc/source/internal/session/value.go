package session

import (
	"encoding/hex"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/ttc/json"
)

// At returns the value at a path of keys, or nil.
func At(object json.Raw, path ...string) json.Raw {
	for _, key := range path {
		object, _ = object.Get(key)
	}
	return object
}

// Has reports whether an object has all of the keys, even with null values.
func Has(object json.Raw, keys ...string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool { return At(object, key) == nil })
}

// Text returns the string at a path of keys, or an empty string. The empty path is the value itself.
func Text(object json.Raw, path ...string) string {
	s, _ := At(object, path...).Text()
	return s
}

// First returns the first element of a list, or nil.
func First(list json.Raw) json.Raw {
	for e := range list.Elements() {
		return e
	}
	return nil
}

// Any reports whether a condition holds for any element of a list.
func Any(list json.Raw, holds func(json.Raw) bool) bool {
	for e := range list.Elements() {
		if holds(e) {
			return true
		}
	}
	return false
}

// Value returns the value under the first of the keys that is present and not null. A string that contains a JSON
// object or list is parsed, because tables store these as strings.
func Value(raw json.Raw, keys ...string) json.Raw {
	for _, key := range keys {
		v, ok := raw.Get(key)
		if !ok || v.Kind() == json.Null {
			continue
		}
		if s, ok := v.Text(); ok && len(s) > 0 && (s[0] == '{' || s[0] == '[') {
			if parsed, err := json.Parse([]byte(s), json.Limits{}); err == nil {
				return parsed
			}
		}
		return v
	}
	return nil
}

// Nanoseconds parses an RFC 3339 time and returns it in nanoseconds since 1970. It returns 0 if text is not a time, or
// is not between 1970 and 2200.
func Nanoseconds(text string) int64 {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Year() < 1970 || t.Year() > 2200 {
		return 0
	}
	return t.UnixNano()
}

// Seconds reads a time in seconds since 1970, and returns it in nanoseconds, or 0 if it is invalid.
func Seconds(v json.Raw) int64 {
	if f, ok := v.Float64(); ok && f > 0 && f < 1e10 {
		return int64(f * 1e9)
	}
	return 0
}

// Finite returns a number, or nil for any other value and for NaN and infinity.
func Finite(v json.Raw) *float64 {
	if f, ok := v.Float64(); ok && !math.IsNaN(f) && !math.IsInf(f, 0) {
		return &f
	}
	return nil
}

// maxID is the maximum number of bytes of an id that are kept; anything longer was not meant as an id.
const maxID = 512

// ID returns an id of bounded length: a long id is truncated, and its hash is appended.
func ID(id string) string {
	if len(id) <= maxID {
		return id
	}
	return fmt.Sprintf("%s-%016x", strings.ToValidUTF8(id[:maxID], ""), xxh3.HashString(id))
}

// Key returns a short key for an id of any length.
func Key(id string) string {
	sum := xxh3.HashString128(id).Bytes()
	return hex.EncodeToString(sum[:12])
}

// Name shortens a name from an input for display.
func Name(text string) string {
	if len(text) > 40 {
		return text[:40] + "..."
	}
	return text
}

// Stem returns a file's name without its extensions, which serves as the id of a session without one.
func Stem(path string) string {
	path = filepath.Base(path)
	for _, ext := range []string{".gz", ".zst", ".jsonl", ".json"} {
		path = strings.TrimSuffix(path, ext)
	}
	return path
}
