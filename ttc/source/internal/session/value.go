package session

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/ttc/json"
)

// Text returns the string under a key, or an empty string.
func Text(object json.Raw, key string) string {
	v, _ := object.Get(key)
	s, _ := v.Text()
	return s
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

// maxID is the maximum number of bytes of an id that are kept; anything longer was not meant as an id.
const maxID = 512

// ID returns an id of bounded length: a long id is truncated, and its hash is appended.
func ID(id string) string {
	if len(id) <= maxID {
		return id
	}
	return fmt.Sprintf("%s-%016x", strings.ToValidUTF8(id[:maxID], ""), xxh3.HashString(id))
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
