package config

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/nat-go/nat-go/builders/schema"
)

type object = map[string]any

// JSONSchema returns the schema of a whole file with the given component types, for editors and other tools. Variable
// references are also allowed where a value is not text.
func JSONSchema(types Types, draft schema.Draft) []byte {
	g := schemaWriter{defs: object{"reference": object{"type": "string", "pattern": `\$\{[^}]+\}`, "description": "a variable: ${NAME} or ${NAME:-default}"}}, draft: draft}
	props := object{
		"base":                object{"type": "string", "description": "file to inherit from, relative to this one"},
		"sources":             g.section("where examples come from", types.Sources, false),
		"trajectory_builders": g.section("builders of records, by name", types.Builders, true),
		"trainers":            g.section("trainers, by name", types.Trainers, false),
		"trainer_adapters":    g.section("adapters that hand data sets to a trainer, by name", types.Adapters, false),
		"plugins": object{
			"type": "object", "description": "programs that serve builders, by name",
			"additionalProperties": g.withReferences(pluginSpec().SchemaMap()),
		},
	}
	for name, spec := range sectionSpecs() {
		props[name] = g.withReferences(spec.SchemaMap())
	}
	for name := range natSections {
		props[name] = object{"description": "NAT's section; nat-go ignores it"}
	}
	root := object{
		"$schema": string(draft), "title": "nat-go configuration",
		"type": "object", "properties": props, "additionalProperties": false,
		g.defsKey(): g.defs,
	}
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("config: " + err.Error()) // maps of strings and numbers can always be encoded
	}
	return out
}

type schemaWriter struct {
	defs  object
	draft schema.Draft
}

func (g *schemaWriter) defsKey() string {
	if g.draft == schema.Draft07 {
		return "definitions"
	}
	return "$defs"
}

func (g *schemaWriter) ref(name string) object {
	return object{"$ref": "#/" + g.defsKey() + "/" + name}
}

// section returns the schema of a section of named components. A component's _type determines which keys it may have.
func (g *schemaWriter) section(doc string, types map[string]Component, plugins bool) object {
	names := slices.Sorted(maps.Keys(types))
	typeNames := object{"enum": names}
	if plugins {
		typeNames = object{
			"anyOf": []any{typeNames, object{
				"type": "string", "pattern": "^[^/]+/.+$", "description": "a plugin's builder",
			}},
		}
	}
	var rules []any
	for _, name := range names {
		block := g.withReferences(types[name].spec(name).SchemaMap()).(object)
		props, _ := block["properties"].(object)
		if props == nil {
			props = object{}
		}
		for _, key := range typeKeys {
			props[key] = object{"const": name}
		}
		block["properties"] = props
		if d := types[name].Doc; d != "" {
			block["description"] = d
		}
		g.defs[name] = block
		for _, key := range typeKeys {
			rules = append(rules, object{
				"if":   object{"properties": object{key: object{"const": name}}, "required": []string{key}},
				"then": g.ref(name),
			})
		}
	}
	entry := object{
		"type": "object", "properties": object{"_type": typeNames, "type": typeNames},
		"anyOf": []any{object{"required": []string{"_type"}}, object{"required": []string{"type"}}},
	}
	if rules != nil {
		entry["allOf"] = rules
	}
	return object{"type": "object", "description": doc, "additionalProperties": entry}
}

// withReferences allows a variable reference wherever a schema expects something other than arbitrary text.
func (g *schemaWriter) withReferences(v any) any {
	m, ok := v.(object)
	if !ok {
		return v
	}
	out := maps.Clone(m)
	if props, ok := m["properties"].(object); ok {
		p := object{}
		for name, s := range props {
			p[name] = g.withReferences(s)
		}
		out["properties"] = p
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if s, ok := m[key].(object); ok {
			out[key] = g.withReferences(s)
		}
	}
	if of, ok := m["anyOf"].([]any); ok {
		list := make([]any, len(of))
		for i, s := range of {
			list[i] = g.withReferences(s)
		}
		out["anyOf"] = list
	}
	if !narrow(m) {
		return out
	}
	wide := object{}
	for _, key := range []string{"description", "default"} { // editors show these only at the outer level
		if x, ok := out[key]; ok {
			wide[key] = x
			delete(out, key)
		}
	}
	wide["anyOf"] = []any{out, g.ref("reference")}
	return wide
}

// narrow reports whether a schema is for scalars and does not admit text containing a reference.
func narrow(m object) bool {
	for _, key := range []string{"enum", "pattern", "format", "maxLength"} {
		if m[key] != nil {
			return true
		}
	}
	scalar := func(t string) bool { return t == "integer" || t == "number" || t == "boolean" }
	switch t := m["type"].(type) {
	case string:
		return scalar(t)
	case []string:
		return slices.ContainsFunc(t, scalar)
	}
	return false
}
