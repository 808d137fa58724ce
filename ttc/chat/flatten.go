package chat

import (
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
)

// FlattenText turns content that is a list of text parts into a single string, because the two are equivalent and most
// consumers of messages accept only a string. Other content is unchanged.
func (m *Message) FlattenText() {
	if m.Form != Parts {
		return
	}
	if text, ok := joined(m.Parts); ok {
		m.Form, m.Text, m.Parts = Text, text, nil
	}
}

// AllText returns the text of a message: its content or, if that is a list of parts, the text of all text parts.
func (m *Message) AllText() string {
	if m.Form != Parts {
		return m.Text
	}
	var b strings.Builder
	for _, p := range m.Parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// TextOfParts returns the text of JSON content that is a list of text parts.
func TextOfParts(raw json.Raw) (string, bool) {
	var m Message
	if raw.Kind() != json.Array || m.parseContent(raw) != nil || len(m.Parts) == 0 {
		return "", false
	}
	return joined(m.Parts)
}

func joined(parts []Part) (string, bool) {
	var b strings.Builder
	for _, p := range parts {
		if p.Type != "text" {
			return "", false
		}
		b.WriteString(p.Text)
	}
	return b.String(), true
}
