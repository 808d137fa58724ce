package session

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/ttc/json"
)

// Text is the text under a key; empty where there is none.
func Text(object json.Raw, key string) string {
	v, _ := object.Get(key)
	s, _ := v.Text()
	return s
}

// Value is what stands under the first of the keys that is there; a text that is JSON is what it says. Tables have
// objects as such texts.
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

// Nanoseconds is a time of RFC 3339 as nanoseconds since 1970; 0 where it is none, or none at which a model spoke.
func Nanoseconds(text string) int64 {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Year() < 1970 || t.Year() > 2200 {
		return 0
	}
	return t.UnixNano()
}

// maxID is how many bytes of an id are kept; what is longer was not made to be one.
const maxID = 512

// ID is an id that is no longer than ids are: the beginning of a longer one, and a hash of it.
func ID(id string) string {
	if len(id) <= maxID {
		return id
	}
	return fmt.Sprintf("%s-%016x", strings.ToValidUTF8(id[:maxID], ""), xxh3.HashString(id))
}

// Name shortens what an input calls something, to be shown.
func Name(text string) string {
	if len(text) > 40 {
		return text[:40] + "..."
	}
	return text
}

// Stem is a file's name without its extensions, which stands for a session without an id.
func Stem(path string) string {
	path = filepath.Base(path)
	for _, ext := range []string{".gz", ".zst", ".jsonl", ".json"} {
		path = strings.TrimSuffix(path, ext)
	}
	return path
}
