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
var pageHead string

//go:embed filter.md
var filterHead string

// Page returns the page on the whole configuration: the content of page.md, and every key of every section and
// component, taken from the structs that read them.
func Page(types Types) []byte {
	r := page{Builder: &strings.Builder{}, tables: map[string]string{}}
	r.WriteString(pageHead)
	sections := sectionSpecs()
	r.common(types, sections)
	r.components("sources",
		"Where examples come from: one entry. `--from FILE` specifies an input without it.", types.Sources)
	r.components("trajectory_builders",
		"Builders that turn examples into records, under names that you choose. `nat-go builders describe TYPE`\n"+
			"describes a builder and its settings; for one of a plugin, TYPE is `PLUGIN/BUILDER`.", types.Builders)
	r.section("dataset", "Output written from the records: formats and split.", sections["dataset"])
	r.filter()
	r.section("collator", "How records become token batches. Without `tokenizer`, none are written.",
		sections["collator"])
	r.section("finetuning", "Settings of a run. The section and its defaults are NAT's.", sections["finetuning"])
	r.components("trainers",
		"How a run collects its input and waits for its job. The name is NAT's; without the section, defaults apply.",
		types.Trainers)
	r.components("trainer_adapters",
		"Adapters that hand the data set to a trainer. Without one, the data set is written as files and nothing is "+
			"trained.", types.Adapters)
	r.section("plugins.NAME", "A program that serves builders, under a name that you choose.", pluginSpec())
	r.section("limits", "Limits on data held in memory at once. Anything larger is refused and counted.\n\n"+
		"A limit on the address space (`ulimit -v`) is different. Below 2 GiB, a run doesn't start (exit "+
		"status 3). If a higher limit is reached, Go itself ends the program: `fatal error: out of memory`, or "+
		"`SIGABRT: abort` if the tokenizer library hit the limit, followed by stack traces, with exit status 2. "+
		"Output written so far is kept, and `nat-go finetune resume` continues. To limit memory, use a container.",
		sections["limits"])
	r.section("eval", "NAT's section. Only the settings for the location and form of its output are read and, with `--endpoint`, the data set and `max_concurrency`.", sections["eval"])
	return []byte(r.String())
}

// filter writes the fields of dataset.where.
func (r page) filter() {
	r.WriteString(filterHead + "\n| of | field | is | meaning |\n|---|---|---|---|\n")
	for _, of := range []struct {
		what   string
		fields []where.Field[*where.Subject]
	}{
		{"example", where.ExampleFields},
		{"task", where.GroupFields},
		{"record", where.RecordFields},
		{"turn", where.TurnFields},
	} {
		for _, f := range of.fields {
			fmt.Fprintf(r, "| %s | `%s` | %s | %s |\n", of.what, f.Name, f.Type(), f.Meaning())
		}
	}
}

// commonSettings lists the settings that users set most often: the keys of sections, and of types in sections.
var commonSettings = []struct{ section, component, keys string }{
	{"sources", "traces", "path task_key reward_key"},
	{"sources", "candidates", "score_key"},
	{"sources", "claude_code", "redact.enabled"},
	{"trajectory_builders", "dpo_traj_builder", "strategy min_score_diff"},
	{"trajectory_builders", "sdpo_traj_builder", "sites hints.sources"},
	{"trajectory_builders", "sft_traj_builder", "select failed_calls train_reasoning"},
	{"trajectory_builders", "grpo_traj_builder", "drop_equal_rewards"},
	{"dataset", "", "formats split.by split.validation"},
	{"collator", "", "tokenizer template policy max_length batch_tokens teacher.endpoint"},
	{"finetuning", "", "enabled trajectory_builder output_dir"},
}

// page writes the settings. tables maps the signature of each table written so far to a link to that table.
type page struct {
	*strings.Builder
	tables map[string]string
}

// common writes the table of commonSettings.
func (r page) common(types Types, sections map[string]*schema.Spec) {
	r.WriteString("\n## Settings used most\n\n| of | key | default | meaning |\n|---|---|---|---|\n")
	components := map[string]map[string]Component{"sources": types.Sources, "trajectory_builders": types.Builders}
	for _, c := range commonSettings {
		where, spec := "[`"+c.section+"`](#"+c.section+")", sections[c.section]
		if c.component != "" {
			where = "[`" + c.component + "`](" + anchor(c.component) + ")"
			spec = components[c.section][c.component].spec(c.component)
		}
		for key := range strings.FieldsSeq(c.keys) {
			f := field(spec, key)
			fmt.Fprintf(r, "| %s | `%s` | %s | %s |\n", where, key, cell(defaultOf(f)), cell(f.Spec.Doc))
		}
	}
}

// field returns the field for a dotted key. It panics if the key is unknown, because the keys are constants.
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

func (r page) components(section, doc string, types map[string]Component) {
	fmt.Fprintf(r, "\n## %s\n\n%s\n", section, doc)
	for _, name := range slices.Sorted(maps.Keys(types)) {
		c := types[name]
		fmt.Fprintf(r, "\n### `_type: %s`\n\n%s\n", name, sentence(c.Doc))
		r.table(c.spec(name), "[`"+name+"`]("+anchor(name)+")")
	}
}

func (r page) section(name, doc string, spec *schema.Spec) {
	fmt.Fprintf(r, "\n## %s\n\n%s\n", name, doc)
	r.table(spec, "[`"+name+"`](#"+name+")")
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

// mappingOf returns the spec of a setting, or of its list's elements, if that is a mapping; otherwise, nil.
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
