package schema

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/yamldoc"
	"github.com/nat-go/nat-go/internal/secret"
)

// Decode checks a block and fills the struct that the spec describes, given as a pointer. Absent keys get their
// defaults, and so do keys with errors, so that the correct keys can be used to find more errors.
func (s *Spec) Decode(doc Document, node *yaml.Node, into any, opt Options) []finding.Finding {
	dst := reflect.ValueOf(into)
	if dst.Kind() != reflect.Pointer || dst.IsNil() || dst.Elem().Type() != s.typ {
		panic(fmt.Sprintf("schema: Decode into %T with the spec of %v", into, s.typ))
	}
	_, fs := s.decode(doc, node, dst, opt)
	return fs
}

// decode walks over a block, fills dst, and runs the validator.
func (s *Spec) decode(doc Document, node *yaml.Node, dst reflect.Value, opt Options) (any, []finding.Finding) {
	v, fs := s.walk(doc, node, opt)
	if v == nil {
		v = map[string]any{}
	}
	s.fill(dst.Elem(), v)
	broken := s.validate(doc, node, dst.Interface(), opt, fs)
	for _, f := range slices.Backward(broken) { // backwards, so that earlier list entries keep their positions
		v = withoutKeys(v, yamldoc.SplitPointer(strings.TrimPrefix(f.Pointer, opt.Pointer)))
	}
	if broken != nil {
		s.fill(dst.Elem(), v)
	}
	return v, append(fs, broken...)
}

// withoutKeys removes the member at a path of keys, and returns v.
func withoutKeys(v any, keys []string) any {
	if len(keys) == 0 {
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		if len(keys) == 1 {
			delete(v, keys[0])
		} else if e, ok := v[keys[0]]; ok {
			v[keys[0]] = withoutKeys(e, keys[1:])
		}
	case []any:
		i, err := strconv.Atoi(keys[0])
		if err != nil || i < 0 || i >= len(v) {
			break
		}
		if len(keys) == 1 {
			return slices.Delete(slices.Clone(v), i, i+1)
		}
		v[i] = withoutKeys(v[i], keys[1:])
	}
	return v
}

// Defaults sets the fields of a struct, given as a pointer, to the defaults in its tags. It panics on a mistake in the
// tags, which is a bug in the program.
func Defaults(into any) {
	s := MustOf(into)
	s.fill(reflect.ValueOf(into).Elem(), s.fallback())
}

// New returns a config with the defaults in its tags.
func New[C any]() (config C) {
	Defaults(&config)
	return config
}

// fill sets a Go value from a value that the walk returned for the same spec, so the types match by construction.
func (s *Spec) fill(dst reflect.Value, v any) {
	if dst.Kind() == reflect.Pointer {
		dst.SetZero()
		if v != nil {
			dst.Set(reflect.New(dst.Type().Elem()))
			s.fill(dst.Elem(), v)
		}
		return
	}
	if v != nil && dst.Kind() == reflect.Interface {
		dst.Set(reflect.ValueOf(v))
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
		list := reflect.MakeSlice(dst.Type(), len(v), len(v))
		for i, e := range v {
			s.Elem.fill(list.Index(i), e)
		}
		dst.Set(list)
	default:
		if text, isText := v.(string); isText && dst.Type() == secretType {
			dst.Set(reflect.ValueOf(Secret{secret.New(text)}))
			return
		}
		dst.Set(reflect.ValueOf(v).Convert(dst.Type()))
	}
}

func (s *Spec) fillMap(dst reflect.Value, v map[string]any) {
	switch dst.Kind() {
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
