package schema

import (
	"fmt"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// TypeText describes the type of a value in a few words: "text", "list: each text", "one of a, b".
func (s *Spec) TypeText() string {
	if len(s.Enum) > 0 {
		return "one of " + strings.Join(s.Enum, ", ")
	}
	switch s.Kind {
	case Object, Map:
		return "mapping"
	case List:
		if s.Elem == nil || s.Elem.Kind == Any {
			return "list"
		}
		return "list: each " + s.Elem.TypeText()
	case String:
		if s.Secret {
			return "secret"
		}
		return "text"
	case Int:
		return "whole number" + s.limits()
	case Float:
		return "number" + s.limits()
	case Bool:
		return "true or false"
	case Duration:
		return "duration"
	case Bytes:
		return "size"
	case Union:
		var of []string
		for _, o := range s.OneOf {
			of = append(of, o.TypeText())
		}
		return strings.Join(of, " or ")
	}
	return "anything"
}

func (s *Spec) limits() string {
	words := func(b *Bound, open, closed string) string {
		if b.Exclusive {
			closed = open
		}
		return closed + strconv.FormatFloat(b.Value, 'f', -1, 64)
	}
	switch {
	case s.Min != nil && s.Max != nil:
		return fmt.Sprintf("%s and %s", words(s.Min, ", above ", ", at least "), words(s.Max, "below ", "at most "))
	case s.Min != nil:
		return words(s.Min, ", above ", ", at least ")
	case s.Max != nil:
		return words(s.Max, ", below ", ", at most ")
	}
	return ""
}

// DefaultText returns the default as one line of YAML, or "" if there is none.
func (s *Spec) DefaultText() string {
	if s.Default == nil || s.Secret {
		return ""
	}
	return flowText(s.Default)
}

// flowText writes a value as YAML on one line.
func flowText(v any) string {
	var n yaml.Node
	if err := n.Encode(v); err != nil {
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
