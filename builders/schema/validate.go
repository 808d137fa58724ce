package schema

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-playground/validator/v10"
	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/yamldoc"
)

// structRules returns the validator for validate tags, with the additional rule "pattern". Its field names are the
// YAML keys.
var structRules = sync.OnceValue(func() *validator.Validate {
	v := validator.New(validator.WithRequiredStructEnabled())
	v.RegisterTagNameFunc(func(f reflect.StructField) string {
		name, opts, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case opts == "inline":
			return inlineMark
		case name == "" || name == "-":
			return strings.ToLower(f.Name)
		}
		return name
	})
	if err := v.RegisterValidation("pattern", isPattern); err != nil {
		panic(err) // the rule's name is invalid
	}
	return v
})

// isPattern is the rule for settings that are regular expressions.
func isPattern(f validator.FieldLevel) bool {
	_, err := regexp.Compile(f.Field().String())
	return err == nil
}

const inlineMark = "<inline>"

// Validate checks a config built in code, given as a pointer to a struct, against its tags. The error names every key
// that breaks a rule.
func Validate(config any) error {
	s := MustOf(config)
	doc := &yamldoc.Document{}
	var all []error
	for _, e := range failures(config) {
		f := s.failed(doc, e, "", path(e.Namespace()), nil)
		all = append(all, errors.New(f.Message))
	}
	return errors.Join(all...)
}

func failures(config any) (out validator.ValidationErrors) {
	errors.As(structRules().Struct(config), &out)
	return out
}

// validate reports the rules that a filled struct breaks, at the nodes from which it was filled. known holds the
// findings of the walk over the nodes. A value that already has a finding is not checked again.
func (s *Spec) validate(
	doc Document, node *yaml.Node, config any, opt Options, known []finding.Finding,
) (fs []finding.Finding) {
	at := cmp.Or(opt.At, node)
	for _, e := range failures(config) {
		keys := path(e.Namespace())
		if s.isWrong(keys, opt.Pointer, known) {
			continue
		}
		parent, _ := s.lookup(node, keys[:len(keys)-1])
		value, key := s.lookup(node, keys)
		if value == nil && (!strings.HasPrefix(e.Tag(), "required") || parent == nil) { // the value is not set
			continue
		}
		f := s.failed(doc, e, opt.Pointer, keys, value)
		f.Severity = finding.Error
		place := value
		switch {
		case value == nil && len(keys) > 1:
			if _, place = s.lookup(node, keys[:len(keys)-1]); place == nil { // a list entry has no key
				place = parent
			}
		case value == nil:
			place = at
		case value.Kind != yaml.ScalarNode && key != nil:
			place = key
		}
		place = cmp.Or(place, at)
		fs = append(fs, doc.Report(place, opt.Pointer+yamldoc.Pointer(keys...), f))
	}
	return fs
}

// isWrong reports whether a value, or a list that contains it, could not be read completely. An unreadable entry of a
// list is omitted, which changes the positions of the others.
func (s *Spec) isWrong(keys []string, at string, known []finding.Finding) bool {
	for n := 1; n <= len(keys); n++ {
		ptr := at + yamldoc.Pointer(keys[:n]...)
		in := s.specAt(keys[:n])
		for _, f := range known {
			if f.Pointer == ptr || in != nil && in.Kind == List && strings.HasPrefix(f.Pointer, ptr+"/") {
				return true
			}
		}
	}
	return false
}

// specAt returns the spec of the value at a path of keys, or nil if there is no such value.
func (s *Spec) specAt(keys []string) *Spec {
	for _, k := range keys {
		switch {
		case s == nil:
			return nil
		case s.Kind == Object:
			f := s.Field(k)
			if f == nil {
				return nil
			}
			s = f.Spec
		default:
			s = s.Elem
		}
	}
	return s
}

// lookup finds the value at a path of keys, each under any of its names, and the node of its key. A single value in
// place of a list is found as its only entry.
func (s *Spec) lookup(n *yaml.Node, keys []string) (value, key *yaml.Node) {
	for i, k := range keys {
		in := s.specAt(keys[:i])
		if in != nil && in.Kind == List && n != nil && n.Kind != yaml.SequenceNode {
			continue
		}
		names := []string{k}
		if in != nil && in.Kind == Object {
			if f := in.Field(k); f != nil {
				names = append(names, f.Aliases...)
			}
		}
		var found *yaml.Node
		for _, name := range names {
			if found == nil {
				key, found = yamldoc.LookupPair(n, name)
			}
		}
		if n = found; n == nil {
			return nil, nil
		}
	}
	return n, key
}

// failed describes the requirement of a failed rule and the fix. base is the struct's pointer; value is the node that
// broke the rule, or nil.
func (s *Spec) failed(
	doc Document, e validator.FieldError, base string, keys []string, value *yaml.Node,
) finding.Finding {
	at, in, ptr := s.specAt(keys), s.specAt(keys[:len(keys)-1]), base+yamldoc.Pointer(keys...)
	at = cmp.Or(at, &Spec{})
	w := walker{doc: doc}
	shown := fmt.Sprint(e.Value())
	switch {
	case value != nil:
		shown = w.display(at, value)
	case at.Secret:
		shown = "a text"
	}
	others := s.otherKeys(e)
	rule := func(message, fix string) finding.Finding {
		return finding.Finding{Code: codeRule, Message: label(ptr) + " " + message, Fix: fix}
	}
	switch tag := e.Tag(); {
	case tag == "required" && value == nil && in.Kind == Object:
		return in.Field(keys[len(keys)-1]).missing(base + yamldoc.Pointer(keys[:len(keys)-1]...))
	case tag == "required" && at.Kind == String:
		return at.wrongLength(ptr, 0)
	case tag == "oneof":
		return at.notInEnum(ptr, fmt.Sprint(e.Value()), shown)
	case at.isLimit(tag) && (at.Kind == String || at.Kind == List || at.Kind == Map):
		return at.wrongLength(ptr, sizeOf(e.Value()))
	case at.isLimit(tag):
		return at.outOfRange(ptr, shown)
	case tag == "url" || tag == "http_url" || tag == "uri":
		return rule("is not a URL", "write a URL with its scheme, like http://host:8000")
	case tag == "pattern":
		_, err := regexp.Compile(fmt.Sprint(e.Value()))
		return rule("is not a valid pattern: "+strings.TrimPrefix(fmt.Sprint(err), "error parsing regexp: "),
			"write a Go regular expression; to match a character like ( or ? itself, put a \\ before it")
	case tag == "required_without":
		return rule("is missing, and so is "+others, "add one of the two settings")
	case strings.HasPrefix(tag, "required_"):
		return rule("is missing: it goes together with "+others, "add "+e.Field()+", or change "+others)
	case tag == "unique":
		// the parameter is a field of the entries, not of the struct that holds the list
		if f, ok := e.Type().Elem().FieldByName(e.Param()); ok {
			others, _, _ = strings.Cut(f.Tag.Get("yaml"), ",")
		}
		return rule("has two entries with the same "+others, "give each a different "+others)
	case tag == "excluded_without" || tag == "excluded_without_all":
		others = strings.Join(strings.Fields(others), " or ")
		return rule("has no effect without "+others, "add "+others+", or remove "+e.Field())
	case tag == "excluded_unless":
		return rule("has no effect unless "+others, "set "+others+", or remove "+e.Field())
	case strings.HasPrefix(tag, "excluded_"):
		return rule("can't be combined with "+others, "remove "+e.Field()+" or "+others)
	}
	return rule(fmt.Sprintf("breaks the rule %q", strings.TrimSpace(e.Tag()+" "+others)),
		"write a value that satisfies the rule")
}

// isLimit reports whether a rule is one of the bounds in the spec.
func (s *Spec) isLimit(tag string) bool {
	return slices.Contains([]string{"gt", "gte", "min", "lt", "lte", "max", "len"}, tag) &&
		(s.Min != nil || s.Max != nil || s.MinLen != nil || s.MaxLen != nil)
}

func sizeOf(v any) int {
	if text, ok := v.(string); ok {
		return len([]rune(text))
	}
	if r := reflect.ValueOf(v); r.Kind() == reflect.Slice || r.Kind() == reflect.Map {
		return r.Len()
	}
	return 0
}

// otherKeys writes a rule's parameter with YAML keys in place of the struct's field names: "strategy: random_k".
func (s *Spec) otherKeys(e validator.FieldError) string {
	t := s.typ
	path := strings.Split(e.StructNamespace(), ".")
	for _, name := range path[1 : len(path)-1] {
		name, _, _ := strings.Cut(name, "[")
		f, ok := t.FieldByName(name)
		if !ok {
			return e.Param()
		}
		for t = f.Type; t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map; {
			t = t.Elem()
		}
	}
	names := strings.Fields(e.Param())
	for i, name := range names {
		if t.Kind() == reflect.Struct {
			if f, ok := t.FieldByName(name); ok {
				names[i], _, _ = strings.Cut(f.Tag.Get("yaml"), ",")
			}
		}
	}
	if strings.HasSuffix(e.Tag(), "_if") || strings.HasSuffix(e.Tag(), "_unless") {
		return strings.Join(names, ": ")
	}
	return strings.Join(names, " ")
}

// path splits the validator's Config.items[0].name into items, 0, name. Map keys are in brackets, unescaped.
func path(namespace string) (keys []string) {
	_, rest, _ := strings.Cut(namespace, ".") // drop the name of the struct itself
	for rest != "" {
		if in, ok := strings.CutPrefix(rest, "["); ok {
			end := len(in)
			for i := range len(in) {
				if in[i] == ']' && (i+1 == len(in) || in[i+1] == '.' || in[i+1] == '[') {
					end = i
					break
				}
			}
			keys, rest = append(keys, in[:end]), in[min(end+1, len(in)):]
		} else {
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			if rest[:end] != inlineMark {
				keys = append(keys, rest[:end])
			}
			rest = rest[end:]
		}
		rest = strings.TrimPrefix(rest, ".")
	}
	return keys
}

// checkDefault reports a default that breaks its own field's rules. It skips tags with dive, or with rules that may
// refer to other fields.
func checkDefault(value any, tag string) error {
	for rule := range strings.SplitSeq(tag, ",") {
		name, _, _ := strings.Cut(rule, "=")
		if name == "dive" || strings.Contains(name, "_") || strings.HasSuffix(name, "field") {
			return nil
		}
	}
	if err := structRules().Var(value, tag); err != nil {
		return errors.New("default breaks the rule " + strconv.Quote(tag))
	}
	return nil
}
