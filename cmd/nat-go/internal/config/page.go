package config

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/internal/where"
)

//go:embed page.md
var pageText string

// Page returns the page about the whole configuration. It is page.md with each line {{...}} replaced by the
// documentation of some settings.
func Page(types Types) []byte {
	r := page{Builder: &strings.Builder{}, types: types, tables: map[string]string{}}
	for line := range strings.Lines(pageText) {
		marker, isMarker := strings.CutPrefix(line, "{{")
		if !isMarker {
			r.WriteString(line)
			continue
		}
		words, before := strings.Fields(strings.TrimRight(marker, "}\n")), r.Len()
		switch of := words[1]; words[0] {
		case "often":
			r.often(of, words[2:])
		case "types":
			r.components(of)
		case "settings":
			r.table(specOf(of), "[`"+of+"`](#"+of+")")
		case "fields":
			r.fields(of)
		}
		if r.Len() == before {
			panic("page.md: unknown name in " + line)
		}
	}
	return []byte(r.String())
}

// fields writes the fields of dataset.where that belong to an example, a task, a record or a turn.
func (r page) fields(of string) {
	for _, f := range map[string][]where.Field[*where.Subject]{
		"example": where.ExampleFields, "task": where.GroupFields,
		"record": where.RecordFields, "turn": where.TurnFields,
	}[of] {
		fmt.Fprintf(r, "| %s | `%s` | %s | %s |\n", of, f.Name, f.Type(), f.Meaning())
	}
}

// specOf returns the spec of a section that is not a list of components.
func specOf(section string) *schema.Spec {
	if section == "plugins.NAME" {
		return pluginSpec()
	}
	return sectionSpecs()[section]
}

// page writes the settings. tables maps the signature of each table written so far to a link to that table.
type page struct {
	*strings.Builder
	types  Types
	tables map[string]string
}

// often writes keys of a section, or of a component given as section/type, that users set often.
func (r page) often(of string, keys []string) {
	section, component, isComponent := strings.Cut(of, "/")
	where, spec := "[`"+section+"`](#"+section+")", specOf(section)
	if isComponent {
		where, spec = "[`"+component+"`]("+anchor(component)+")", r.types.of(section)[component].spec(component)
	}
	for _, key := range keys {
		f := field(spec, key)
		fmt.Fprintf(r, "| %s | `%s` | %s | %s |\n", where, key, cell(defaultOf(f)), cell(f.Spec.Doc))
	}
}

// field returns the field for a dotted key. It panics if the key is unknown, because the keys are in page.md.
func field(spec *schema.Spec, key string) *schema.Field {
	name, rest, deeper := strings.Cut(key, ".")
	switch f := spec.Field(name); {
	case f == nil:
		panic("unknown common setting " + key)
	case deeper:
		return field(f.Spec, rest)
	default:
		return f
	}
}

// anchor returns the link to a component's heading on the page.
func anchor(component string) string { return "#_type-" + component }

func (r page) components(section string) {
	types := r.types.of(section)
	for _, name := range slices.Sorted(maps.Keys(types)) {
		c := types[name]
		fmt.Fprintf(r, "\n### `_type: %s`\n\n%s\n", name, sentence(c.Doc))
		r.table(c.spec(name), "[`"+name+"`]("+anchor(name)+")")
	}
}

// table writes the settings of a component or section, or refers to an earlier table with the same settings. NAT keys
// that don't need an explanation are listed below it.
func (r page) table(spec *schema.Spec, where string) {
	key := signature(spec)
	switch first := r.tables[key]; {
	case len(spec.Fields) == 0:
		r.WriteString("\nIt has no settings.\n")
		return
	case first != "":
		r.WriteString("\nThe settings of " + first + ".\n")
		return
	}
	r.tables[key] = where
	var asInNAT []string
	if rows := r.rows(spec, "", where, &asInNAT); rows != "" {
		r.WriteString("\n| key | value | default | meaning |\n|---|---|---|---|\n" + rows)
	}
	if len(asInNAT) > 0 {
		r.WriteString("\nAs in NAT: " + strings.Join(asInNAT, ", ") + ".\n")
	}
}

// signature returns a string that is equal for mappings with the same keys, defaults and meanings.
func signature(spec *schema.Spec) string {
	var b strings.Builder
	for i := range spec.Fields {
		f := &spec.Fields[i]
		fmt.Fprintf(&b, "%s %s %s %s\n", f.Name, f.Spec.TypeText(), defaultOf(f), f.Spec.Doc)
		if deep := mappingOf(f.Spec); deep != nil {
			b.WriteString(signature(deep))
		}
	}
	return b.String()
}

// mappingOf returns the spec of a mapping or, for a list of mappings, the spec of its elements. It returns nil for any
// other setting.
func mappingOf(s *schema.Spec) *schema.Spec {
	if s.Kind == schema.List && s.Elem != nil {
		s = s.Elem
	}
	if s.Kind != schema.Object {
		return nil
	}
	return s
}

// foldedKeys is the minimum number of keys that a mapping must have to be shown only once on the page.
const foldedKeys = 4

// rows returns the rows for a mapping's keys, with the prefix added. A mapping whose keys are in an earlier table
// becomes one row that refers to that table.
func (r page) rows(spec *schema.Spec, prefix, where string, asInNAT *[]string) string {
	var b strings.Builder
	for i := range spec.Fields {
		f := &spec.Fields[i]
		name, doc, deep := prefix+f.Name, f.Spec.Doc, mappingOf(f.Spec)
		ofNAT := doc == "" && (strings.HasPrefix(name, "run_configuration") || strings.HasPrefix(name, "general"))
		if ofNAT && deep == nil {
			*asInNAT = append(*asInNAT, "`"+name+"`")
			continue
		}
		if len(f.Aliases) > 0 {
			doc += " (also written " + strings.Join(f.Aliases, ", ") + ")"
		}
		if deep != nil && r.tables[signature(deep)] != "" {
			doc += "; its keys are in " + r.tables[signature(deep)]
			deep = nil
		}
		if !ofNAT {
			value := f.Spec.TypeText()
			if f.Spec.Example != "" {
				value += ": `" + f.Spec.Example + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, cell(value), cell(defaultOf(f)), cell(doc))
		}
		if deep != nil {
			if deep != f.Spec {
				name += "[]"
			}
			if len(deep.Fields) >= foldedKeys {
				r.tables[signature(deep)] = "`" + name + "` of " + where
			}
			b.WriteString(r.rows(deep, name+".", where, asInNAT))
		}
	}
	return b.String()
}

// defaultOf returns a setting's default as shown on the page.
func defaultOf(f *schema.Field) string {
	switch value := f.Spec.DefaultText(); {
	case f.Required:
		return "**required**"
	case value == `""`:
		return "empty"
	case value != "":
		return "`" + value + "`"
	}
	return ""
}

// cell escapes text for use in a Markdown table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(text)
}

func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}
