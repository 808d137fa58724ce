package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/builders/yamldoc"
	"github.com/nat-go/nat-go/internal/where"
)

// natSections lists the sections of NAT's configuration that nat-go doesn't read.
var natSections = set("general", "functions", "function_groups", "middleware", "llms", "embedders", "memory",
	"object_stores",
	"optimizer", "retrievers", "ttc_strategies", "workflow", "authentication", "evaluators", "test_time_compute")

// componentSections lists the sections of named components, each with its `_type`.
var componentSections = set("sources", "trajectory_builders", "trainers", "trainer_adapters")

func set(names ...string) map[string]bool {
	m := map[string]bool{}
	for _, n := range names {
		m[n] = true
	}
	return m
}

// sectionSpecs returns, by name, the specs of the sections that are each read into one struct.
var sectionSpecs = sync.OnceValue(func() map[string]*schema.Spec {
	eval := schema.MustOf(Eval{})
	eval.Open = true // nat-go reads only some of NAT's keys
	return map[string]*schema.Spec{
		"collator":   schema.MustOf(Collator{}),
		"dataset":    schema.MustOf(Dataset{}),
		"finetuning": schema.MustOf(Finetuning{}),
		"limits":     schema.MustOf(Limits{}),
		"eval":       eval,
	}
})

var pluginSpec = sync.OnceValue(func() *schema.Spec { return schema.MustOf(Plugin{}) })

// topLevel lists all keys that a file may have at the top level.
func topLevel() []string {
	all := slices.AppendSeq([]string{"base", "plugins"}, maps.Keys(natSections))
	all = slices.AppendSeq(all, maps.Keys(componentSections))
	return slices.Sorted(slices.Values(slices.AppendSeq(all, maps.Keys(sectionSpecs()))))
}

// of returns the component types of a section.
func (t *Types) of(section string) map[string]Component {
	return map[string]map[string]Component{
		"sources": t.Sources, "trajectory_builders": t.Builders, "trainers": t.Trainers, "trainer_adapters": t.Adapters,
	}[section]
}

func (c Component) spec(typ string) *schema.Spec {
	if c.Spec != nil {
		return c.Spec
	}
	if c.Config == nil {
		return &schema.Spec{Kind: schema.Object, Name: typ}
	}
	s := schema.MustOf(c.Config)
	s.Name = typ
	return s
}

// check checks the sections in file order and reads them into c.
func (l *loader) check(c *Config) {
	unknown := finding.Error
	if l.opt.Compat {
		unknown = finding.Warning
	}
	fill := map[string]any{
		"collator": &c.Collator, "dataset": &c.Dataset, "finetuning": &c.Finetuning, "limits": &c.Limits,
		"eval": &c.Eval,
	}
	for _, into := range fill {
		schema.Defaults(into)
	}
	var firstForeign *yaml.Node
	root := l.doc.Root
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, node := root.Content[i], root.Content[i+1]
		name := key.Value
		ptr := yamldoc.Pointer(name)
		c.present[name] = true
		switch {
		case natSections[name]:
			c.passed = append(c.passed, name)
			firstForeign = cmp.Or(firstForeign, key)
		case fill[name] != nil:
			opt := schema.Options{Pointer: ptr, At: key}
			if name == "finetuning" { // NAT also ignores unknown keys here
				opt.Unknown = unknown
			}
			l.add(sectionSpecs()[name].Decode(l.doc, node, fill[name], opt)...)
		case componentSections[name]:
			l.components(c, name, key, node, unknown)
		case name == "plugins":
			l.plugins(c, key, node)
		default:
			l.unknownSection(key, ptr)
		}
	}
	l.filter(c)
	c.Dataset.Split.ValidationSet = c.Has("dataset", "split", "validation")
	if firstForeign != nil {
		l.report(firstForeign, yamldoc.Pointer(firstForeign.Value), notice(finding.Note, codeForeign, "",
			"ignored NAT sections that nat-go does not use: %s", strings.Join(c.passed, ", ")))
	}
}

// filter checks dataset.where.
func (l *loader) filter(c *Config) {
	var wrong *where.Error
	if _, err := where.Parse(c.Dataset.Where, where.Fields); errors.As(err, &wrong) {
		key, section := yamldoc.LookupPair(l.doc.Root, "dataset")
		l.add(l.doc.Adopt(section, key, "/dataset", []finding.Finding{wrong.Finding()})...)
	}
}

func (l *loader) unknownSection(key *yaml.Node, ptr string) {
	if l.full() {
		l.add(finding.Finding{Severity: finding.Error})
		return
	}
	known := topLevel()
	f := newError(schema.CodeUnknownKey, "remove it; sections: "+strings.Join(known, ", "), "unknown section %q",
		key.Value)
	likely := likelySections[strings.ToLower(strings.ReplaceAll(key.Value, "-", "_"))]
	if f.Suggestion = cmp.Or(likely, finding.Nearest(key.Value, known)); f.Suggestion != "" {
		f.Fix = "write " + f.Suggestion + " instead of " + key.Value
	}
	l.report(key, ptr, f)
}

// likelySections maps wrong names that users give to sections, and settings that they expect at the top level, to the
// likely intended names.
var likelySections = map[string]string{
	"builders": "trajectory_builders", "builder": "trajectory_builders", "trajectory_builder": "trajectory_builders",
	"source": "sources", "input": "sources", "inputs": "sources", "data": "sources", "from": "sources",
	"trainer": "trainers", "adapter": "trainer_adapters", "adapters": "trainer_adapters",
	"trainer_adapter": "trainer_adapters",
	"datasets":        "dataset", "data_set": "dataset", "output": "dataset", "finetune": "finetuning",
	"fine_tuning": "finetuning",
	"training":    "finetuning", "run": "finetuning", "plugin": "plugins", "tokens": "collator", "batches": "collator",
	"format": "dataset.formats", "formats": "dataset.formats", "split": "dataset.split", "seed": "dataset.split.seed",
	"tokenizer": "collator.tokenizer", "model": "collator.tokenizer", "output_dir": "finetuning.output_dir",
	"extends": "base", "inherit": "base", "include": "base",
}

// entries calls each for every entry in a section, and reports a section or entry that isn't a mapping.
func (l *loader) entries(key, node *yaml.Node, what string, each func(key, node *yaml.Node, ptr string)) {
	ptr := yamldoc.Pointer(key.Value)
	if yamldoc.IsNull(node) {
		at := node
		if node.Value == "" {
			at = key
		}
		l.report(at, ptr, newError(schema.CodeNull, fmt.Sprintf("add %s, or remove `%s:`", what, key.Value),
			"the section %s is empty (null) but must be a mapping from names to %s", key.Value, what))
		return
	}
	if node.Kind != yaml.MappingNode {
		l.report(node, ptr, newError(schema.CodeType, fmt.Sprintf("write `%s: {my_name: {...}}`", key.Value),
			"the section %s must be a mapping from names to %s", key.Value, what))
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		k, v := node.Content[i], node.Content[i+1]
		if v.Kind != yaml.MappingNode {
			place := v
			if v.Kind == yaml.ScalarNode && v.Value == "" {
				place = k
			}
			l.report(place, ptr+yamldoc.Pointer(k.Value), newError(schema.CodeType,
				"write the settings on indented lines below the name", "%s.%s must be a mapping", key.Value, k.Value))
			continue
		}
		each(k, v, ptr+yamldoc.Pointer(k.Value))
	}
}

func (l *loader) plugins(c *Config, key, node *yaml.Node) {
	l.entries(key, node, "plugins", func(k, v *yaml.Node, ptr string) {
		p := Plugin{Name: k.Value}
		if strings.Contains(k.Value, "/") {
			l.report(k, ptr, newError(schema.CodePattern,
				"the slash separates plugin and builder: _type: plugin/builder",
				"a plugin's name can't contain a slash"))
		}
		l.add(pluginSpec().Decode(l.doc, v, &p, schema.Options{Pointer: ptr, At: k})...)
		p.Name = k.Value
		l.oneProgram(&p, v, ptr)
		c.Plugins = append(c.Plugins, p)
	})
}

// moduleName matches the name of a Python module, including its packages.
var moduleName = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$`)

// oneProgram checks that a plugin doesn't have both a path and a Python module, that the module has a valid name, and
// that a plugin with an interpreter also has a module.
func (l *loader) oneProgram(p *Plugin, v *yaml.Node, ptr string) {
	at := func(key string) *yaml.Node { return yamldoc.Lookup(v, key) }
	switch {
	case p.Python != "" && p.Path != "":
		l.report(at("python"), ptr+"/python", newError(codeTwoPrograms,
			"remove path or python; to choose the Python that runs the module, set interpreter",
			"plugins.%s has a path and a Python module", p.Name))
	case p.Python != "" && !moduleName.MatchString(p.Python):
		l.report(at("python"), ptr+"/python", newError(schema.CodePattern,
			"write the module's name as in an import statement: my_pkg.builders",
			"plugins.%s.python is %q, which is not a module name", p.Name, p.Python))
	case p.Python == "" && p.Interpreter != "":
		l.report(at("interpreter"), ptr+"/interpreter", newError(codeTwoPrograms, "add `python: my_pkg.builders`",
			"plugins.%s has an interpreter but no Python module", p.Name))
	}
}

func (l *loader) components(c *Config, section string, key, node *yaml.Node, unknown finding.Severity) {
	into := map[string]*[]Block{
		"sources": &c.Sources, "trajectory_builders": &c.Builders, "trainers": &c.Trainers,
		"trainer_adapters": &c.Adapters,
	}[section]
	if section == "sources" { // NAT doesn't have this section, so unknown keys needn't be accepted for compatibility
		unknown = finding.Error
	}
	l.entries(key, node, strings.ReplaceAll(section, "_", " "), func(k, v *yaml.Node, ptr string) {
		b := Block{Section: section, Name: k.Value, Type: typeOf(v), key: k, node: v, doc: l.doc, unknown: unknown}
		defer func() { *into = append(*into, b) }()
		typeNode := typeNodeOf(v)
		types := l.opt.Types.of(section)
		switch component, known := types[b.Type]; {
		case typeNode == nil || b.Type == "":
			l.noType(&b, ptr, types)
		case known:
			b.Spec = component.spec(b.Type)
			if component.Config != nil && component.Spec == nil {
				b.Config = newConfig(component.Config)
				l.add(b.Spec.Decode(l.doc, v, b.Config, b.options())...)
			} else {
				l.add(b.Spec.Check(l.doc, v, b.options())...)
			}
		case section == "trajectory_builders" && strings.Contains(b.Type, "/"):
			// the type belongs to a plugin; relate checks it when the whole plugins section is known
		default:
			l.unknownType(&b, typeNode, ptr, types)
		}
	})
}

func (l *loader) noType(b *Block, ptr string, types map[string]Component) {
	known := slices.Sorted(maps.Keys(types))
	f := newError(codeNoType, "add `_type: ...` to it; types: "+strings.Join(known, ", "), "%s.%s has no _type",
		b.Section, b.Name)
	if len(known) == 1 {
		f.Fix = "add `_type: " + known[0] + "` to it"
	}
	if l.doc.File(b.key) == finding.CommandLine { // a misspelt name in an override creates a new component
		var names []string
		section := yamldoc.Lookup(l.doc.Root, b.Section)
		for i := 0; i+1 < len(section.Content); i += 2 {
			if n := section.Content[i].Value; n != b.Name {
				names = append(names, n)
			}
		}
		if f.Suggestion = finding.Nearest(b.Name, names); f.Suggestion != "" {
			f.Fix = fmt.Sprintf("write %s.%s", b.Section, f.Suggestion)
		}
	}
	l.report(b.key, ptr, f)
}

// natTypes lists types of NAT's plugins that nat-go lacks.
var natTypes = set("openpipe_art_traj_builder", "openpipe_art_trainer", "openpipe_art_trainer_adapter")

func (l *loader) unknownType(b *Block, at *yaml.Node, ptr string, types map[string]Component) {
	known := slices.Sorted(maps.Keys(types))
	ptr += yamldoc.Pointer("_type")
	if natTypes[b.Type] && !l.selected(b.Section, b.Name) {
		l.report(at, ptr, notice(finding.Note, codeUnusedForeign, "",
			"%s is a NAT type that nat-go does not have; nothing uses %s", b.Type, b.Name))
		return
	}
	f := newError(codeUnknownType, "use one of "+strings.Join(known, ", "), "%s.%s has the unknown type %q", b.Section,
		b.Name, b.Type)
	if b.Section == "trajectory_builders" {
		f.Fix += "; a plugin's builder is written plugin/builder"
	}
	f.Suggestion = cmp.Or(finding.Nearest(b.Type, known), typeByFirstWord(b.Type, known))
	if f.Suggestion != "" {
		f.Fix = "write " + f.Suggestion
	}
	l.report(at, ptr, f)
}

// typeByFirstWord returns the type with the given first word (dpo for dpo_traj_builder), as --builder does. It
// returns "" unless there is exactly one.
func typeByFirstWord(written string, known []string) (found string) {
	for _, name := range known {
		if strings.HasPrefix(name, strings.ToLower(written)+"_") {
			if found != "" {
				return ""
			}
			found = name
		}
	}
	return found
}

func typeNodeOf(block *yaml.Node) *yaml.Node {
	for _, k := range typeKeys {
		if n := yamldoc.Lookup(block, k); n != nil && block.Kind == yaml.MappingNode {
			return n
		}
	}
	return nil
}

func typeOf(block *yaml.Node) string {
	n := typeNodeOf(block)
	if n == nil || n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		return ""
	}
	// NAT's long form is nat.plugins.MODULE/NAME.
	if module, name, ok := strings.Cut(n.Value, "/"); ok && strings.HasPrefix(module, "nat.plugins.") {
		return name
	}
	return n.Value
}
