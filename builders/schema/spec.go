package schema

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/yamldoc"
	"github.com/nat-go/nat-go/internal/lists"
)

// Kind is the kind of a value.
type Kind uint8

// The kinds of value.
const (
	Any Kind = iota
	Object
	Map
	List
	String
	Int
	Float
	Bool
	Duration
	Bytes // a number of bytes; see Size
	Union // a value that fits one of several specs
)

// kinds holds, for each kind, its type in JSON Schema, the names of a value in findings and in documentation, and an
// example. Unions and kinds with several types describe themselves.
var kinds = [...]struct{ schema, expects, text, example string }{
	Any:      {"", "a value", "anything", ""},
	Object:   {"object", "a mapping", "mapping", "{...}"},
	Map:      {"object", "a mapping", "mapping", "{...}"},
	List:     {"array", "a list", "list", "[...]"},
	String:   {"string", "a text", "text", "<text>"},
	Int:      {"integer", "a whole number", "whole number", "<number>"},
	Float:    {"number", "a number", "number", "<number>"},
	Bool:     {"boolean", "true or false", "true or false", "true"},
	Duration: {"string", `a duration like "10s" or "1h30m"`, "duration", "10s"},
	Bytes:    {"", `a size like "512MiB"`, "size", "1GiB"},
	Union:    {},
}

// Spec describes the values that a key accepts.
type Spec struct {
	Kind     Kind
	Name     string // the usual name, such as "dpo_traj_builder"; empty if the position identifies the value
	Doc      string
	Example  string // an example value to display, as written in YAML
	Nullable bool
	Secret   bool
	Default  any // the default, as returned by Value; nil means none
	Enum     []string
	Min, Max *Bound
	MinLen   *int // in characters for a String, in entries for a List or Map
	MaxLen   *int
	Pattern  *regexp.Regexp
	Fields   []Field // the keys of an Object, in order
	Open     bool    // for an Object: unknown keys are accepted
	Elem     *Spec   // the spec of the entries of a List or Map; nil means anything
	Single   bool    // for a List: a single value is accepted as a list of one
	OneOf    []*Spec // the alternatives of a Union

	typ reflect.Type // nil if the spec comes from a JSON Schema
}

// Bound is one end of a range. Durations are in nanoseconds.
type Bound struct {
	Value     float64
	Exclusive bool
}

// Field is a key of an Object.
type Field struct {
	Name     string
	Spec     *Spec
	Required bool
	Aliases  []string // other accepted names
	Aka      []string // names that users write by mistake
	Former   []Former // settings of earlier versions that the field has replaced; the first one set applies

	index []int // index of the struct field
}

// Field returns the field with the given name or alias, or nil.
func (s *Spec) Field(name string) *Field {
	for i := range s.Fields {
		if f := &s.Fields[i]; f.Name == name || slices.Contains(f.Aliases, name) {
			return f
		}
	}
	return nil
}

// Of returns the spec of a struct, given as a value or a pointer. The error reports a mistake in the tags.
func Of(v any) (*Spec, error) {
	t := reflect.TypeOf(v)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("expected a struct for a schema, got %T", v)
	}
	if s, ok := specs.Load(t); ok {
		copied := *s.(*Spec)
		return &copied, nil
	}
	s, err := specOf(t, map[reflect.Type]bool{})
	if err != nil {
		return nil, err
	}
	copied := *s
	specs.Store(t, &copied)
	return s, nil
}

// specs caches specs by type, because a file may have a hundred thousand components of the same type.
var specs sync.Map

// MustOf is like Of, for structs that are part of the program; it panics on an error.
func MustOf(v any) *Spec {
	s, err := Of(v)
	if err != nil {
		panic(err)
	}
	return s
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	sizeType     = reflect.TypeFor[Size]()
	secretType   = reflect.TypeFor[Secret]()
)

func specOf(t reflect.Type, open map[reflect.Type]bool) (*Spec, error) {
	s := &Spec{typ: t}
	if t.Kind() == reflect.Pointer {
		s, err := specOf(t.Elem(), open)
		if err != nil {
			return nil, err
		}
		s.Nullable = true
		return s, nil
	}
	switch t {
	case durationType:
		s.Kind = Duration
		s.Min = &Bound{Value: 0}
		return s, nil
	case sizeType:
		s.Kind = Bytes
		return s, nil
	case secretType:
		s.Kind, s.Secret = String, true
		return s, nil
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Map:
		s.Kind = List
		if t.Kind() == reflect.Map {
			s.Kind = Map
			if t.Key().Kind() != reflect.String {
				return nil, fmt.Errorf("schema: %s: keys of a map must be strings", t)
			}
		}
		elem, err := specOf(t.Elem(), open)
		s.Elem = elem
		return s, err
	case reflect.Struct:
		s.Kind = Object
		if open[t] {
			return nil, fmt.Errorf("schema: %s contains itself", t)
		}
		open[t] = true
		defer delete(open, t)
		return s, s.addFields(t, nil, open)
	}
	return s, s.scalar(t)
}

// scalar sets the kind from a type without elements, and the limits of an integer from its size.
func (s *Spec) scalar(t reflect.Type) error {
	switch t.Kind() {
	case reflect.String:
		s.Kind = String
	case reflect.Bool:
		s.Kind = Bool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		s.Kind = Int
		if bits := t.Bits(); bits < 64 {
			s.Min, s.Max = &Bound{Value: -math.Ldexp(1, bits-1)}, &Bound{Value: math.Ldexp(1, bits-1) - 1}
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		s.Kind, s.Min = Int, &Bound{Value: 0}
		if bits := t.Bits(); bits < 64 {
			s.Max = &Bound{Value: math.Ldexp(1, bits) - 1}
		}
	case reflect.Float32, reflect.Float64:
		s.Kind = Float
	case reflect.Interface:
		s.Kind, s.Nullable = Any, true
	default:
		return fmt.Errorf("cannot use a %s as a schema value", t)
	}
	return nil
}

func (s *Spec) addFields(t reflect.Type, index []int, open map[reflect.Type]bool) error {
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		at := append(slices.Clone(index), i)
		if opts == "inline" && f.Type.Kind() == reflect.Struct {
			if err := s.addFields(f.Type, at, open); err != nil {
				return err
			}
			continue
		}
		name = cmp.Or(name, strings.ToLower(f.Name))
		field, err := fieldOf(f, name, open)
		if err != nil {
			return fmt.Errorf("schema: %s.%s: %w", t, f.Name, err)
		}
		field.index = at
		s.Fields = append(s.Fields, field)
	}
	return nil
}

func fieldOf(f reflect.StructField, name string, open map[reflect.Type]bool) (Field, error) {
	spec, err := specOf(f.Type, open)
	if err != nil {
		return Field{}, err
	}
	field := Field{Name: name, Spec: spec, Aliases: words(f.Tag.Get("alias")), Aka: words(f.Tag.Get("aka"))}
	if field.Former, err = formers(words(f.Tag.Get("was"))); err != nil {
		return Field{}, err
	}
	spec.Doc, spec.Example = f.Tag.Get("doc"), f.Tag.Get("example")
	spec.Secret = spec.Secret || f.Tag.Get("secret") == "true"
	spec.Nullable = spec.Nullable || f.Tag.Get("nullable") == "true"
	spec.Single = f.Tag.Get("scalar") == "true"
	spec.Open = f.Tag.Get("open") == "true"
	if err := field.rules(f.Tag.Get("validate")); err != nil {
		return Field{}, err
	}
	if text, ok := f.Tag.Lookup("default"); ok {
		node, err := defaultNode(text, spec.Kind)
		if err != nil {
			return Field{}, fmt.Errorf("default %q: %w", text, err)
		}
		v, found, ok := spec.alone(node)
		if !ok {
			return Field{}, fmt.Errorf("default %q has the wrong type: %v", text, found)
		}
		if err := checkDefault(v, f.Tag.Get("validate")); err != nil {
			return Field{}, fmt.Errorf("default %q: %w", text, err)
		}
		spec.Default = v
	}
	return field, nil
}

// defaultNode parses the text of a default. It reads plain words and numbers without the YAML parser, which takes 20
// KiB for each default.
func defaultNode(text string, kind Kind) (*yaml.Node, error) {
	node := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	if kind != String && text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789.") == "" {
		node.Tag = node.ShortTag()
		return node, nil
	}
	node.Tag = "!!str"
	if kind == String {
		return node, nil
	}
	var n yaml.Node
	err := yaml.Unmarshal([]byte(text), &n)
	if c := yamldoc.Content(&n); c.Kind != 0 {
		return c, err
	}
	return node, err
}

// alone returns the value of a node that isn't part of a document, and whether it fits the spec.
func (s *Spec) alone(n *yaml.Node) (any, []finding.Finding, bool) {
	w := walker{doc: &yamldoc.Document{}, steps: new(int)}
	v, ok := w.value(s, n, n, "")
	if !ok || finding.Failed(w.findings) {
		return nil, w.findings, false
	}
	return v, w.findings, true
}

func words(tag string) (out []string) {
	for w := range strings.SplitSeq(tag, ",") {
		if w = strings.TrimSpace(w); w != "" {
			out = append(out, w)
		}
	}
	return out
}

// rules extracts from a validate tag the rules that are needed for the JSON Schema and for help texts. The validator
// enforces the tag itself.
func (f *Field) rules(tag string) error {
	s := f.Spec
	if s.Elem != nil && s.Elem.ruled() && !slices.Contains(strings.Split(tag, ","), "dive") {
		return fmt.Errorf("validate %q: rules for entries need dive", tag)
	}
	for rule := range strings.SplitSeq(tag, ",") {
		name, param, _ := strings.Cut(rule, "=")
		switch name {
		case "required":
			f.Required = true
			if one := 1; s.Kind == String {
				s.MinLen = &one
			}
		case "dive":
			if s.Elem == nil {
				return fmt.Errorf("validate %q: dive needs a list or map", tag)
			}
			s = s.Elem
		case "oneof":
			s.Enum = strings.Fields(param)
		case "gt", "gte", "min", "lt", "lte", "max", "len":
			if err := s.bound(name, param); err != nil {
				return fmt.Errorf("validate %q: %w", tag, err)
			}
		}
	}
	return nil
}

// ruled reports whether a struct's fields have rules.
func (s *Spec) ruled() bool {
	if s.Kind != Object || s.typ == nil {
		return false
	}
	rules := func(f reflect.StructField) bool { return f.Tag.Get("validate") != "" }
	return slices.ContainsFunc(reflect.VisibleFields(s.typ), rules)
}

func (s *Spec) bound(name, param string) error {
	if s.Kind == String || s.Kind == List || s.Kind == Map {
		n, err := strconv.Atoi(param)
		if err != nil {
			return err
		}
		switch name {
		case "gt":
			n++
		case "lt":
			n--
		}
		if name[0] == 'g' || name == "min" || name == "len" {
			s.MinLen = &n
		}
		if name == "lt" || name == "lte" || name == "max" || name == "len" {
			s.MaxLen = &n
		}
		return nil
	}
	v, err := strconv.ParseFloat(param, 64)
	if s.Kind == Duration {
		var d time.Duration
		d, err = time.ParseDuration(param)
		v = float64(d)
	}
	if err != nil {
		return err
	}
	b := &Bound{Value: v, Exclusive: name == "gt" || name == "lt"}
	if name[0] == 'g' || name == "min" {
		s.Min = b
	} else {
		s.Max = b
	}
	return nil
}

// expects describes a valid value in a few words.
func (s *Spec) expects() string {
	switch {
	case s.Kind == String && len(s.Enum) > 0:
		return "one of " + quoteAll(s.Enum)
	case s.Kind == Union:
		var of []string
		for _, o := range s.OneOf {
			if e := o.expects(); !slices.Contains(of, e) {
				of = append(of, e)
			}
		}
		return strings.Join(of, " or ")
	}
	return kinds[s.Kind].expects
}

func quoteAll(names []string) string {
	return strings.Join(lists.Map(names, strconv.Quote), ", ")
}

// Names lists the keys of an object.
func (s *Spec) Names() []string {
	return lists.Map(s.Fields, func(f Field) string { return f.Name })
}

// Nearest guesses the intended key for an unknown one. It returns a key of the object or, failing that, the path of a
// more deeply nested key.
func (s *Spec) Nearest(key string) string {
	for _, f := range s.Fields {
		if slices.Contains(f.Aka, key) {
			return f.Name
		}
	}
	if s.Field(key+"_key") != nil { // for example, score instead of score_key
		return key + "_key"
	}
	names := s.Names()
	for _, f := range s.Fields {
		names = append(names, f.Aliases...)
	}
	if n := finding.Nearest(key, names); n != "" {
		return n
	}
	for _, f := range s.Fields {
		if f.Spec.Field(key) != nil {
			return f.Name + "." + key
		}
		for _, g := range f.Spec.Fields {
			if g.Spec.Field(key) != nil {
				return f.Name + "." + g.Name + "." + key
			}
		}
	}
	return ""
}

// example returns the value to show in advice such as "add `key: ...`".
func (s *Spec) example() string {
	switch {
	case s.Secret:
		return "${" + "VARIABLE" + "}"
	case len(s.Enum) > 0:
		return s.Enum[0]
	}
	return cmp.Or(s.DefaultText(), kinds[s.Kind].example, "...")
}
