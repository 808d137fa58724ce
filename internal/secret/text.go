package secret

import (
	"fmt"
	"strconv"
)

// Text is a string that is never shown. It always prints as "[secret]", or as "" if it is empty.
type Text struct{ text string }

// New wraps a string.
func New(text string) Text { return Text{text} }

// Reveal returns the text, for code that needs it.
func (t Text) Reveal() string { return t.text }

// IsZero reports whether the text is empty.
func (t Text) IsZero() bool { return t.text == "" }

// String returns "[secret]", or "" if the text is empty.
func (t Text) String() string {
	if t.text == "" {
		return ""
	}
	return "[secret]"
}

// GoString hides the text in %#v.
func (t Text) GoString() string { return strconv.Quote(t.String()) }

// Format hides the text for every verb.
func (t Text) Format(f fmt.State, verb rune) {
	s := t.String()
	if verb == 'q' || verb == 'v' && f.Flag('#') {
		s = t.GoString()
	}
	_, _ = f.Write([]byte(s))
}

// MarshalText hides the text.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// MarshalYAML hides the text.
func (t Text) MarshalYAML() (any, error) { return t.String(), nil }
