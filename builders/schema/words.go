package schema

import (
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/internal/lists"
)

// TypeText describes the type of a value in a few words: "text", "list: each text", "one of a, b".
func (s *Spec) TypeText() string {
	switch {
	case len(s.Enum) > 0:
		return "one of " + strings.Join(s.Enum, ", ")
	case s.Kind == List && s.Elem != nil && s.Elem.Kind != Any:
		return "list: each " + s.Elem.TypeText()
	case s.Kind == String && s.Secret:
		return "secret"
	case (s.Kind == Int || s.Kind == Float) && (s.Min != nil || s.Max != nil):
		return kinds[s.Kind].text + ", " + s.rangeText()
	case s.Kind == Union:
		return strings.Join(lists.Map(s.OneOf, (*Spec).TypeText), " or ")
	}
	return kinds[s.Kind].text
}

// DefaultText returns the default as one line of YAML, or "" if there is none.
func (s *Spec) DefaultText() string {
	var n yaml.Node
	if s.Default == nil || s.Secret || n.Encode(s.Default) != nil {
		return ""
	}
	n.Style = yaml.FlowStyle
	out, err := yaml.Marshal(&n)
	text := strings.TrimSpace(string(out))
	if err != nil || strings.Contains(text, "\n") {
		return ""
	}
	return text
}
