package schema

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/go-playground/validator/v10"
	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/yamldoc"
)

// Decode checks a block and fills into, a pointer to the struct the spec is of. Keys that are absent get their default; those
// with an error too, so that what is right can be used to find out more.
func (s *Spec) Decode(doc *yamldoc.Document, node *yaml.Node, into any, opt Options) []finding.Finding {
	v, fs := s.Value(doc, node, opt)
	dst := reflect.ValueOf(into)
	if dst.Kind() != reflect.Pointer || dst.IsNil() || dst.Elem().Type() != s.typ {
		panic(fmt.Sprintf("schema: Decode into %T with the spec of %v", into, s.typ))
	}
	if v == nil {
		v = map[string]any{}
	}
	s.fill(dst.Elem(), v)
	return append(fs, s.validate(doc, node, into, opt, fs)...)
}

// Defaults sets the fields of a struct to their defaults.
func Defaults(into any) error {
	s, err := Of(into)
	if err != nil {
		return err
	}
	s.fill(reflect.ValueOf(into).Elem(), s.fallback())
	return nil
}

// fill sets a Go value from a value that the walk returned for the same spec; their types agree by construction.
func (s *Spec) fill(dst reflect.Value, v any) {
	if dst.Kind() == reflect.Pointer {
		dst.SetZero()
		if v != nil {
			dst.Set(reflect.New(dst.Type().Elem()))
			s.fill(dst.Elem(), v)
		}
		return
	}
	switch v := v.(type) {
	case nil:
		dst.SetZero()
		if s.Kind == Object {
			s.fill(dst, map[string]any{})
		}
	case map[string]any:
		s.fillMap(dst, v)
	case []any:
		if dst.Kind() == reflect.Interface {
			dst.Set(reflect.ValueOf(v))
			return
		}
		list := reflect.MakeSlice(dst.Type(), len(v), len(v))
		for i, e := range v {
			s.Elem.fill(list.Index(i), e)
		}
		dst.Set(list)
	case string:
		if dst.Type() == secretType {
			dst.Set(reflect.ValueOf(Secret{v}))
			return
		}
		setScalar(dst, v)
	default:
		setScalar(dst, v)
	}
}

func (s *Spec) fillMap(dst reflect.Value, v map[string]any) {
	switch dst.Kind() {
	case reflect.Interface:
		dst.Set(reflect.ValueOf(v))
	case reflect.Map:
		m := reflect.MakeMapWithSize(dst.Type(), len(v))
		for k, e := range v {
			elem := reflect.New(dst.Type().Elem()).Elem()
			s.Elem.fill(elem, e)
			m.SetMapIndex(reflect.ValueOf(k).Convert(dst.Type().Key()), elem)
		}
		dst.Set(m)
	case reflect.Struct:
		for i := range s.Fields {
			f := &s.Fields[i]
			e, set := v[f.Name]
			if !set {
				e = f.Spec.fallback()
			}
			f.Spec.fill(dst.FieldByIndex(f.index), e)
		}
	}
}

func setScalar(dst reflect.Value, v any) {
	if dst.Kind() == reflect.Interface {
		dst.Set(reflect.ValueOf(v))
		return
	}
	dst.Set(reflect.ValueOf(v).Convert(dst.Type()))
}

// rules is the validator; field names are the keys of the YAML.
var rules = sync.OnceValue(func() *validator.Validate {
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
	return v
})

const inlineMark = "<inline>"

// validate runs the rules that the walk over nodes can't check: those that concern several fields, and special forms.
func (s *Spec) validate(doc *yamldoc.Document, node *yaml.Node, into any, opt Options, known []finding.Finding) (fs []finding.Finding) {
	err := rules().Struct(into)
	var failures validator.ValidationErrors
	if !errors.As(err, &failures) {
		return nil
	}
	bad := map[string]bool{}
	for _, f := range known {
		bad[f.Pointer] = true
	}
	for _, e := range failures {
		ptr := namespacePointer(e.Namespace())
		if nodeRules[e.Tag()] || bad[opt.Pointer+ptr] {
			continue
		}
		absent := yamldoc.Lookup(node, yamldoc.SplitPointer(ptr)...) == nil && reflect.ValueOf(e.Value()).IsZero()
		if absent && !strings.HasPrefix(e.Tag(), "required") { // the form of a text that nobody wrote
			continue
		}
		message, fix := s.explain(e)
		f := finding.Finding{Pointer: ptr, Code: CodeRule, Severity: finding.Error, Message: label(opt.Pointer+ptr) + " " + message, Fix: fix}
		at := opt.At
		if at == nil {
			at = node
		}
		fs = append(fs, doc.Adopt(node, at, opt.Pointer, []finding.Finding{f})...)
	}
	return fs
}

// explain says what a failed rule wants, and what to do.
func (s *Spec) explain(e validator.FieldError) (message, fix string) {
	others := s.otherKeys(e)
	switch tag := e.Tag(); {
	case tag == "url" || tag == "http_url" || tag == "uri":
		return "is no URL", "write a URL with its scheme, like http://host:8000"
	case strings.HasPrefix(tag, "required_"):
		return "is missing: it goes together with " + others, "add " + e.Field() + ", or change " + others
	case tag == "excluded_without":
		return "means nothing without " + others, "add " + others + ", or remove " + e.Field()
	case strings.HasPrefix(tag, "excluded_"):
		return "can't stand beside " + others, "remove " + e.Field() + " or " + others
	}
	return fmt.Sprintf("breaks the rule %q", strings.TrimSpace(e.Tag()+" "+others)), "write a value that keeps the rule"
}

// otherKeys writes a rule's parameter with the keys of the YAML where it names fields of the struct.
func (s *Spec) otherKeys(e validator.FieldError) string {
	t := s.typ
	path := strings.Split(e.StructNamespace(), ".")
	for _, name := range path[1 : len(path)-1] {
		name, _, _ = strings.Cut(name, "[")
		f, ok := t.FieldByName(name)
		if !ok {
			return e.Param()
		}
		for t = f.Type; t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map; {
			t = t.Elem()
		}
	}
	out := strings.Fields(e.Param())
	for i, name := range out {
		if t.Kind() != reflect.Struct {
			break
		}
		if f, ok := t.FieldByName(name); ok {
			out[i], _, _ = strings.Cut(f.Tag.Get("yaml"), ",")
		}
	}
	return strings.Join(out, " ")
}

// namespacePointer turns the validator's Config.items[0].name into /items/0/name.
func namespacePointer(namespace string) string {
	var keys []string
	for i, part := range strings.Split(namespace, ".") {
		if i == 0 || part == inlineMark { // the struct's own name, an embedded struct
			continue
		}
		name, rest, _ := strings.Cut(part, "[")
		keys = append(keys, name)
		for rest != "" {
			var index string
			index, rest, _ = strings.Cut(rest, "]")
			keys = append(keys, index)
			rest = strings.TrimPrefix(rest, "[")
		}
	}
	return yamldoc.Pointer(keys...)
}
