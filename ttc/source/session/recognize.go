package session

import (
	"path/filepath"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source"
)

// Recognize is certain of an input some of whose first entries bear a format's mark.
func Recognize(h *source.Head, marked func(entry json.Raw) bool) source.Reading {
	for _, entry := range h.Entries {
		if entry.Kind() == json.Object && marked(entry) {
			return source.Reading{Fit: source.Certain}
		}
	}
	return source.Reading{}
}

// Stem is a file's name without its extensions, which stands for a session without an id.
func Stem(path string) string {
	path = filepath.Base(path)
	for _, ext := range []string{".gz", ".zst", ".jsonl", ".json"} {
		path = strings.TrimSuffix(path, ext)
	}
	return path
}
