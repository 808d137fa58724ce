package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/yamldoc"
	"github.com/nat-go/nat-go/internal/lists"
)

// Draft is a version of JSON Schema. Only keywords that both drafts share are written.
type Draft string

// The drafts that can be written. YAML language servers in editors expect draft-07.
const (
	Draft2020 Draft = "https://json-schema.org/draft/2020-12/schema"
	Draft07   Draft = "http://json-schema.org/draft-07/schema#"
)

// Formats of strings with a special meaning.
const (
	formatDuration = "go-duration"
	formatSize     = "byte-size"
)

// JSONSchema writes the spec as JSON Schema 2020-12. FromJSONSchema turns it back into an equal spec.
func (s *Spec) JSONSchema() []byte {
	m := s.SchemaMap()
	m["$schema"] = string(Draft2020)
	out, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		panic("schema: " + err.Error()) // strings, numbers and maps of them can always be encoded
	}
	return out
}

// SchemaMap returns the JSON Schema as a map that can be embedded in a larger one.
func (s *Spec) SchemaMap() map[string]any {
	m := s.typeSchema()
	if len(s.Enum) > 0 {
		m["enum"] = s.Enum
	}
	if s.Kind == List && s.Single {
		m = map[string]any{"anyOf": []any{elemSchema(s.Elem), m}}
	}
	if s.Nullable && s.Kind != Any {
		m = nullable(m)
	}
	if s.Name != "" {
		m["title"] = s.Name
	}
	if s.Doc != "" {
		m["description"] = s.Doc
	}
	if s.Secret {
		m["writeOnly"] = true
	}
	if s.Default != nil && !s.Secret {
		m["default"] = plainJSON(s.Default)
	}
	return m
}

// typeSchema returns the part of the schema that depends on the kind: the type and its limits.
func (s *Spec) typeSchema() map[string]any {
	m := map[string]any{}
	if typ := kinds[s.Kind].schema; typ != "" {
		m["type"] = typ
	}
	switch s.Kind {
	case Object:
		s.objectSchema(m)
	case Map:
		m["additionalProperties"] = elemSchema(s.Elem)
		putLen(m, "Properties", s)
	case List:
		m["items"] = elemSchema(s.Elem)
		putLen(m, "Items", s)
	case String:
		putLen(m, "Length", s)
		if s.Pattern != nil {
			m["pattern"] = s.Pattern.String()
		}
	case Duration:
		m["format"] = formatDuration
	case Bytes:
		m["type"], m["format"] = []string{"string", "integer"}, formatSize
	case Union:
		m["anyOf"] = lists.Map(s.OneOf, func(o *Spec) any { return o.SchemaMap() })
	}
	switch s.Kind {
	case Int, Float, Duration, Bytes:
		putBound(m, s.Min, "minimum", "exclusiveMinimum")
		putBound(m, s.Max, "maximum", "exclusiveMaximum")
	}
	return m
}

// nullable allows null in addition to the values of a schema.
func nullable(m map[string]any) map[string]any {
	if typ, ok := m["type"].(string); ok && m["enum"] == nil {
		m["type"] = []string{typ, "null"}
		return m
	}
	if types, ok := m["type"].([]string); ok {
		m["type"] = append(slices.Clone(types), "null")
		return m
	}
	null := map[string]any{"type": "null"}
	if of, ok := m["anyOf"].([]any); ok {
		m["anyOf"] = append(slices.Clone(of), null)
		return m
	}
	return map[string]any{"anyOf": []any{m, null}}
}

func elemSchema(s *Spec) any {
	if s == nil {
		return map[string]any{}
	}
	return s.SchemaMap()
}

func (s *Spec) objectSchema(m map[string]any) {
	props := map[string]any{}
	var required []string
	for _, f := range s.Fields {
		p := f.Spec.SchemaMap()
		if len(f.Aka) > 0 {
			p["x-aka"] = f.Aka
		}
		if len(f.Aliases) > 0 {
			p["x-alias"] = f.Aliases
		}
		var was []string
		for _, old := range f.Former {
			was = append(was, old.String())
			props[old.Key] = map[string]any{"description": "now a value of " + f.Name, "x-alias-of": f.Name}
		}
		if was != nil {
			p["x-was"] = was
		}
		props[f.Name] = p
		for _, a := range f.Aliases {
			props[a] = map[string]any{"description": "another name for " + f.Name, "x-alias-of": f.Name}
		}
		if f.Required {
			required = append(required, f.Name)
		}
	}
	m["properties"] = props
	if order := s.Names(); !slices.IsSorted(order) {
		m["x-order"] = order
	}
	if required != nil {
		m["required"] = required
	}
	if !s.Open {
		m["additionalProperties"] = false
	}
}

func putLen(m map[string]any, of string, s *Spec) {
	if s.MinLen != nil {
		m["min"+of] = *s.MinLen
	}
	if s.MaxLen != nil {
		m["max"+of] = *s.MaxLen
	}
}

func putBound(m map[string]any, b *Bound, inclusive, exclusive string) {
	switch {
	case b == nil:
	case b.Exclusive:
		m[exclusive] = b.Value
	default:
		m[inclusive] = b.Value
	}
}

const (
	maxSchemaBytes = 1 << 20
	maxSchemaDepth = 32
	maxSchemaNodes = 20_000
)

// FromJSONSchema builds a spec from a JSON Schema: the subset that JSONSchema writes plus keywords that generators in
// other languages commonly use (anyOf, $ref, const). Unknown keywords are ignored, so the check may be less strict
// than the schema, but never stricter. The size of the text is limited, because it may come from a plugin. Empty text
// means any object.
func FromJSONSchema(text []byte) (*Spec, error) {
	if len(text) > maxSchemaBytes {
		return nil, fmt.Errorf("invalid JSON Schema: %s exceeds the limit of %s", Size(len(text)), Size(maxSchemaBytes))
	}
	if len(text) == 0 {
		text = []byte(`{"type": "object", "additionalProperties": {}}`)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var root any
	if err := dec.Decode(&root); err != nil {
		return nil, fmt.Errorf("invalid JSON Schema: not JSON: %w", err)
	}
	r := schemaReader{root: root}
	return r.read(root, 0)
}

type schemaReader struct {
	root  any
	nodes int
}

func (r *schemaReader) read(v any, depth int) (*Spec, error) {
	if r.nodes++; r.nodes > maxSchemaNodes || depth > maxSchemaDepth {
		return nil, fmt.Errorf("invalid JSON Schema: too large or self-referential: at most %d schemas, %d deep", maxSchemaNodes, maxSchemaDepth)
	}
	m, ok := v.(map[string]any)
	if !ok {
		if _, is := v.(bool); is {
			return &Spec{Kind: Any, Nullable: true}, nil
		}
		return nil, fmt.Errorf("invalid JSON Schema: expected a schema, got %T", v)
	}
	s, err := r.kindOf(m, depth)
	if err != nil {
		return nil, err
	}
	s.Name, s.Doc = text(m["title"], s.Name), text(m["description"], s.Doc)
	s.Secret = s.Secret || m["writeOnly"] == true
	if d, ok := m["default"]; ok && d != nil {
		s.Default = defaultOf(s, d)
	}
	return s, nil
}

func text(v any, or string) string {
	if s, ok := v.(string); ok {
		return s
	}
	return or
}

// kindOf reads a schema's type keywords.
func (r *schemaReader) kindOf(m map[string]any, depth int) (*Spec, error) {
	if ref, ok := m["$ref"].(string); ok {
		target, err := r.resolve(ref)
		if err != nil {
			return nil, err
		}
		return r.read(target, depth+1)
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if of, ok := m[key].([]any); ok {
			return r.union(of, depth)
		}
	}
	types := stringsOf(m["type"])
	if t, ok := m["type"].(string); ok {
		types = []string{t}
	}
	s := &Spec{Kind: Any}
	if i := slices.Index(types, "null"); i >= 0 {
		s.Nullable = true
		types = slices.Delete(types, i, i+1)
	}
	if len(types) > 1 && m["format"] != formatSize {
		return r.manyTypes(m, types, s.Nullable, depth)
	}
	if len(types) == 0 {
		s.Nullable = true
		if enum := stringsOf(m["enum"]); len(enum) > 0 {
			s.Kind, s.Enum, s.Nullable = String, enum, false
		} else if m["properties"] != nil {
			types = []string{"object"}
			s.Nullable = false
		}
	}
	if len(types) == 0 {
		return s, nil
	}
	return s, r.typed(s, types[0], m, depth)
}

// manyTypes reads a schema with {"type": ["string", "integer"]} as a union.
func (r *schemaReader) manyTypes(m map[string]any, types []string, null bool, depth int) (*Spec, error) {
	u := &Spec{Kind: Union, Nullable: null}
	for _, t := range types {
		o := &Spec{}
		if err := r.typed(o, t, m, depth); err != nil {
			return nil, err
		}
		u.OneOf = append(u.OneOf, o)
	}
	return u, nil
}

func (r *schemaReader) typed(s *Spec, typ string, m map[string]any, depth int) error {
	switch typ {
	case "object":
		return r.object(s, m, depth)
	case "array":
		s.Kind, s.MinLen, s.MaxLen = List, intOf(m["minItems"]), intOf(m["maxItems"])
		return r.elem(s, m["items"], depth)
	case "integer":
		s.Kind = Int
	case "number":
		s.Kind = Float
	case "boolean":
		s.Kind = Bool
	case "string":
		s.Kind, s.Enum = String, stringsOf(m["enum"])
		if c, ok := m["const"].(string); ok {
			s.Enum = []string{c}
		}
		s.MinLen, s.MaxLen = intOf(m["minLength"]), intOf(m["maxLength"])
		if p, ok := m["pattern"].(string); ok {
			s.Pattern, _ = regexp.Compile(p) // a pattern that Go can't express is treated as an unknown keyword
		}
	default:
		return fmt.Errorf("invalid JSON Schema: unknown type %q", typ)
	}
	switch m["format"] {
	case formatDuration:
		s.Kind = Duration
	case formatSize:
		s.Kind = Bytes
	}
	s.Min, s.Max = boundOf(m["minimum"], m["exclusiveMinimum"]), boundOf(m["maximum"], m["exclusiveMaximum"])
	return nil
}

func (r *schemaReader) object(s *Spec, m map[string]any, depth int) error {
	props, _ := m["properties"].(map[string]any)
	if _, isMap := m["additionalProperties"].(map[string]any); isMap && len(props) == 0 {
		s.Kind, s.MinLen, s.MaxLen = Map, intOf(m["minProperties"]), intOf(m["maxProperties"])
		return r.elem(s, m["additionalProperties"], depth)
	}
	s.Kind = Object
	s.Open = m["additionalProperties"] != false
	required := stringsOf(m["required"])
	for _, name := range orderOf(props, stringsOf(m["x-order"])) {
		p, _ := props[name].(map[string]any)
		if p["x-alias-of"] != nil {
			continue
		}
		spec, err := r.read(props[name], depth+1)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		was, err := formers(stringsOf(p["x-was"]))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.Fields = append(s.Fields, Field{
			Name: name, Spec: spec, Required: slices.Contains(required, name),
			Aliases: stringsOf(p["x-alias"]), Aka: stringsOf(p["x-aka"]), Former: was,
		})
	}
	return nil
}

// orderOf lists the properties, starting with those named by x-order.
func orderOf(props map[string]any, order []string) []string {
	var out []string
	for _, name := range slices.Concat(order, slices.Sorted(maps.Keys(props))) {
		if _, ok := props[name]; ok && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func (r *schemaReader) elem(s *Spec, v any, depth int) (err error) {
	if v == nil {
		return nil
	}
	s.Elem, err = r.read(v, depth+1)
	return err
}

// union reads anyOf or oneOf; null becomes Nullable, and "T or a list of T" becomes a list that accepts a single value.
func (r *schemaReader) union(of []any, depth int) (*Spec, error) {
	u := &Spec{Kind: Union}
	for _, v := range of {
		if m, ok := v.(map[string]any); ok && m["type"] == "null" {
			u.Nullable = true
			continue
		}
		o, err := r.read(v, depth+1)
		if err != nil {
			return nil, err
		}
		u.OneOf = append(u.OneOf, o)
	}
	switch len(u.OneOf) {
	case 0:
		return &Spec{Kind: Any, Nullable: true}, nil
	case 1:
		u.OneOf[0].Nullable = u.OneOf[0].Nullable || u.Nullable
		return u.OneOf[0], nil
	case 2:
		if l := u.OneOf[1]; l.Kind == List && l.Elem != nil &&
			bytes.Equal(l.Elem.JSONSchema(), u.OneOf[0].JSONSchema()) {
			l.Single, l.Nullable = true, u.Nullable
			return l, nil
		}
	}
	return u, nil
}

func (r *schemaReader) resolve(ref string) (any, error) {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, fmt.Errorf("invalid JSON Schema: reference to %q: only references within the schema are followed", ref)
	}
	v := r.root
	for _, key := range yamldoc.SplitPointer(path) {
		m, _ := v.(map[string]any)
		if v = m[key]; v == nil {
			return nil, fmt.Errorf("invalid JSON Schema: the reference %q has no target", ref)
		}
	}
	return v, nil
}

func stringsOf(v any) (out []string) {
	list, _ := v.([]any)
	for _, e := range list {
		if s, ok := e.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

func jsonFloat(v any) (float64, bool) {
	n, _ := v.(json.Number)
	f, err := n.Float64()
	return f, err == nil
}

func intOf(v any) *int {
	f, ok := jsonFloat(v)
	if !ok || f < 0 || f > 1<<31 {
		return nil
	}
	return new(int(f))
}

func boundOf(inclusive, exclusive any) *Bound {
	if f, ok := jsonFloat(exclusive); ok {
		return &Bound{Value: f, Exclusive: true}
	}
	if f, ok := jsonFloat(inclusive); ok {
		return &Bound{Value: f}
	}
	return nil
}

// defaultOf reads a default as a value of the spec. It omits a default that violates the spec.
func defaultOf(s *Spec, v any) any {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var n yaml.Node
	if yaml.Unmarshal(raw, &n) != nil {
		return nil
	}
	value, _, _ := s.alone(yamldoc.Content(&n))
	return value
}
