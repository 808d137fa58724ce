package yamldoc

import (
	"strconv"
	"strings"
)

// Pointer joins keys into a JSON pointer.
func Pointer(keys ...string) string {
	var b strings.Builder
	for _, k := range keys {
		b.WriteByte('/')
		b.WriteString(Escape(k))
	}
	return b.String()
}

// Escape escapes a key for use as a step in a JSON pointer.
func Escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// SplitPointer splits a JSON pointer into keys.
func SplitPointer(ptr string) []string {
	if ptr == "" {
		return nil
	}
	parts := strings.Split(strings.TrimPrefix(ptr, "/"), "/")
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(p, "~1", "/"), "~0", "~")
	}
	return parts
}

// Dotted writes a pointer the way users name settings: finetuning.trainer, formats[0].
func Dotted(ptr string) string {
	var b strings.Builder
	for _, p := range SplitPointer(ptr) {
		if _, err := strconv.Atoi(p); err == nil && b.Len() > 0 {
			b.WriteString("[" + p + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(p)
	}
	return b.String()
}
