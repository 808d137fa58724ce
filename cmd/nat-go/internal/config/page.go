package config

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders/schema"
)

//go:embed page.md
var pageHead string

// Page returns the page of the whole configuration: the content of page.md, and every key of every section and
// component from the structs that read them.
func Page(types Types) []byte {
	var b strings.Builder
	b.WriteString(pageHead)
	r := page{&b}
	r.components("sources",
		"Where examples come from. One entry; `--from FILE` names an input without it.", types.Sources)
	r.components("trajectory_builders",
		"What makes records from examples, under names of your own. `nat-go builders describe TYPE` prints the same,\n"+
			"also for those of plugins, whose type is `PLUGIN/BUILDER`.", types.Builders)
	sections := sectionSpecs()
	r.section("dataset", "What is made from the records: formats and split.", sections["dataset"])
	r.section("collator", "How records become token batches. Without `tokenizer` there are none.", sections["collator"])
	r.section("finetuning", "What a run does. NAT's section, with NAT's defaults.", sections["finetuning"])
	r.components("trainers",
		"NAT's name for how a run collects and waits. Without the section its defaults apply.", types.Trainers)
	r.components("trainer_adapters",
		"What hands the data set to a trainer. Without one, the data set is written as files and nothing is "+
			"trained.", types.Adapters)
	r.section("plugins.NAME", "A program that serves builders, under a name of your own.", pluginSpec())
	r.section("limits", "What may be held in memory at once. Whatever is larger is refused, and counted.\n\n"+
		"A limit of the address space (`ulimit -v`) is another matter. Below 2 GiB a run doesn't start (exit "+
		"status 3). If one above that is used up, Go itself ends the program: `fatal error: out of memory`, or "+
		"`SIGABRT: abort` if it was the tokenizer library that met the limit, then stacks, and exit status 2. "+
		"What was written stays, and `nat-go finetune resume` continues. To limit memory, use a container.",
		sections["limits"])
	r.section("eval", "NAT's section. Only the settings for where its output is, and in what form, are read.", sections["eval"])
	return []byte(b.String())
}

type page struct{ *strings.Builder }

func (r page) components(section, doc string, types map[string]Component) {
	fmt.Fprintf(r, "\n## %s\n\n%s\n", section, doc)
	for _, name := range slices.Sorted(maps.Keys(types)) {
		c := types[name]
		fmt.Fprintf(r, "\n### `_type: %s`\n\n%s\n", name, sentence(c.Doc))
		r.table(c.spec(name))
	}
}

func (r page) section(name, doc string, spec *schema.Spec) {
	fmt.Fprintf(r, "\n## %s\n\n%s\n", name, doc)
	r.table(spec)
}

func (r page) table(spec *schema.Spec) {
	if len(spec.Fields) == 0 {
		r.WriteString("\nIt has no settings.\n")
		return
	}
	r.WriteString("\n| key | value | default | meaning | example |\n|---|---|---|---|---|\n")
	r.rows(spec, "")
}

func (r page) rows(spec *schema.Spec, prefix string) {
	for i := range spec.Fields {
		f := &spec.Fields[i]
		s := f.Spec
		name, deep := prefix+f.Name, s
		if s.Kind == schema.List && s.Elem != nil && s.Elem.Kind == schema.Object {
			deep = s.Elem
		}
		value := s.DefaultText()
		switch {
		case f.Required:
			value = "**required**"
		case value == `""`:
			value = "empty"
		case value != "":
			value = "`" + value + "`"
		}
		doc := s.Doc
		if doc == "" && (strings.HasPrefix(name, "run_configuration") || strings.HasPrefix(name, "general")) {
			doc = "NAT's"
		}
		if len(f.Aliases) > 0 {
			doc += " (also written " + strings.Join(f.Aliases, ", ") + ")"
		}
		example := "`" + f.Name + ": " + s.ExampleText() + "`"
		if deep.Kind == schema.Object && len(deep.Fields) > 0 {
			example = "below"
		}
		fmt.Fprintf(r, "| `%s` | %s | %s | %s | %s |\n", name, cell(s.TypeText()), cell(value),
			cell(doc), strings.ReplaceAll(example, "|", `\|`))
		if deep.Kind == schema.Object {
			if deep != s {
				name += "[]"
			}
			r.rows(deep, name+".")
		}
	}
}

// cell writes a text into a Markdown table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(text)
}

func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}
