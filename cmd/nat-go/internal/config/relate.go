package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/builders/yamldoc"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/secret"
)

// newConfig creates a new value of a prototype's struct type.
func newConfig(prototype any) any {
	t := reflect.TypeOf(prototype)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return reflect.New(t).Interface()
}

// relate checks the rules between sections.
func (l *loader) relate(c *Config) {
	l.pluginTypes(c)
	l.formats(c)
	f := &c.Finetuning
	if !f.Enabled {
		l.notEnabled()
		return
	}
	if f.TrainerAdapter == filesAdapter && find(c.Adapters, f.TrainerAdapter) == nil {
		f.TrainerAdapter = ""
	}
	l.incomplete(c)
	l.named("trainer", f.Trainer, c.Trainers, "trainers")
	l.named("trainer_adapter", f.TrainerAdapter, c.Adapters, "trainer_adapters")
	for i, name := range f.TrajectoryBuilder {
		l.named("trajectory_builder", name, c.Builders, "trajectory_builders")
		if slices.Contains(f.TrajectoryBuilder[:i], name) {
			l.report(l.nameNode("trajectory_builder", name, i), "/finetuning/trajectory_builder",
				newError(codeNamedTwice, "name it once", "the builder %q is named twice", name))
		}
	}
	l.stepFilter(c)
	t := c.Trainer()
	if _, v := yamldoc.LookupPair(l.doc.Root, "finetuning", "num_epochs"); v != nil && t != nil &&
		t.Type == "nemo_customizer_trainer" && c.Finetuning.NumEpochs != 1 {
		l.report(v, "/finetuning/num_epochs", notice(finding.Warning, codeNoEffect,
			"set hyperparameters.epochs of the trainer adapter",
			"nemo_customizer_trainer does not read finetuning.num_epochs"))
	}
	l.idleTeacher(c)
}

func (l *loader) notEnabled() {
	severity := finding.Note
	if l.opt.Run {
		severity = finding.Error
	}
	_, value := yamldoc.LookupPair(l.doc.Root, "finetuning", "enabled")
	what := finding.Finding{
		Code: codeNotEnabled, Severity: severity, Message: "fine-tuning is not enabled, so `nat-go run` refuses this configuration",
		Fix: "set finetuning.enabled: true, or run with -o finetuning.enabled=true",
	}
	switch section, _ := yamldoc.LookupPair(l.doc.Root, "finetuning"); {
	case section == nil:
		what.Message = "the section finetuning is missing, so `nat-go run` refuses this configuration"
		what.Fix = "add `finetuning: {enabled: true, trainer: ..., trajectory_builder: ...}`"
		l.report(l.doc.Root, "/finetuning", what)
	case value == nil:
		l.report(section, "/finetuning/enabled", what)
	default:
		// If the value is invalid and not false, it has already been reported.
		if slices.ContainsFunc(l.findings, func(f finding.Finding) bool { return f.Pointer == "/finetuning/enabled" }) {
			return
		}
		l.report(value, "/finetuning/enabled", what)
	}
}

// incomplete reports missing parts of enabled fine-tuning. NAT requires all three names. Here, a missing
// trainer_adapter means that the data set is written as files, and a missing trainers section means the defaults of
// NAT's only trainer.
func (l *loader) incomplete(c *Config) {
	f := &c.Finetuning
	section, _ := yamldoc.LookupPair(l.doc.Root, "finetuning")
	missing := func(key string, blocks []Block, in string) {
		if l.has("finetuning", key) { // the key's value is invalid, which has already been reported
			return
		}
		what := newError(codeIncomplete, "", "fine-tuning is enabled, but finetuning.%s is missing", key)
		switch len(blocks) {
		case 0:
			what.Fix = fmt.Sprintf("add `%s: NAME` under finetuning, and NAME under %s", key, in)
		case 1:
			what.Fix = fmt.Sprintf("add `%s: %s` under finetuning", key, blocks[0].Name)
		default:
			what.Fix = fmt.Sprintf("add `%s: NAME` under finetuning, where NAME is one of %s", key,
				strings.Join(names(blocks), ", "))
		}
		if key == "trainer" && f.TrainerAdapter == "" {
			what.Fix += " (trainer_adapter may be omitted; the data set is then written as files)"
		}
		l.report(section, "/finetuning/"+key, what)
	}
	if f.Trainer == "" && c.present["trainers"] {
		missing("trainer", c.Trainers, "trainers")
	}
	if len(f.TrajectoryBuilder) == 0 {
		missing("trajectory_builder", c.Builders, "trajectory_builders")
	}
}

// has reports whether a path has a non-empty value.
func (l *loader) has(path ...string) bool {
	n := yamldoc.Lookup(l.doc.Root, path...)
	return n != nil && (len(n.Content) > 0 || n.Kind == yaml.ScalarNode && n.Value != "" && n.ShortTag() != "!!null")
}

func names(blocks []Block) []string { return lists.Map(blocks, func(b Block) string { return b.Name }) }

// named checks that a name used in finetuning exists.
func (l *loader) named(key, name string, blocks []Block, in string) {
	section := yamldoc.Lookup(l.doc.Root, in)
	// A section that is not a mapping has already been reported.
	if name == "" || yamldoc.Lookup(section, name) != nil || section != nil && section.Kind != yaml.MappingNode {
		return
	}
	f := newError(codeNoSuchName, "", "finetuning.%s names %q, which is not under %s", key, name, in)
	f.Suggestion = finding.Nearest(name, names(blocks))
	switch {
	case f.Suggestion != "":
		f.Fix = "write " + f.Suggestion
	case len(blocks) > 0:
		f.Fix = fmt.Sprintf("use one of %s, or add %s under %s", strings.Join(names(blocks), ", "), name, in)
	default:
		f.Fix = fmt.Sprintf("add %s under %s", name, in)
	}
	l.report(l.nameNode(key, name, 0), "/finetuning/"+key, f)
}

// nameNode returns the node where finetuning names a component. In a list, it is the first such node at or after index
// from.
func (l *loader) nameNode(key, name string, from int) *yaml.Node {
	v := yamldoc.Lookup(l.doc.Root, "finetuning", key)
	if v == nil {
		return l.doc.Root
	}
	for i, e := range v.Content {
		if e.Value == name && i >= from {
			return e
		}
	}
	return v
}

// pluginTypes checks that a plugin exists for each builder whose type is plugin/builder.
func (l *loader) pluginTypes(c *Config) {
	for i := range c.Builders {
		b := &c.Builders[i]
		plugin, _, ok := strings.Cut(b.Type, "/")
		if !ok || b.Spec != nil || slices.ContainsFunc(c.Plugins, func(p Plugin) bool { return p.Name == plugin }) ||
			(l.opt.Types.HasPlugin != nil && l.opt.Types.HasPlugin(plugin)) ||
			yamldoc.Lookup(l.doc.Root, "plugins", plugin) != nil {
			continue
		}
		known := lists.Map(c.Plugins, func(p Plugin) string { return p.Name })
		f := newError(codeUnknownPlugin,
			fmt.Sprintf("add `plugins: {%s: {path: ...}}` or `{python: ...}`, or put nat-go-builder-%s on PATH", plugin, plugin),
			"trajectory_builders.%s needs the plugin %q, which was not found", b.Name, plugin)
		if f.Suggestion = finding.Nearest(plugin, known); f.Suggestion != "" {
			f.Suggestion += strings.TrimPrefix(b.Type, plugin)
			f.Fix = "write " + f.Suggestion
		}
		l.report(typeNodeOf(b.node), b.Pointer()+"/_type", f)
	}
}

func (l *loader) formats(c *Config) {
	if l.opt.Types.Formats == nil {
		return
	}
	for i, name := range c.Dataset.Formats {
		if slices.Contains(l.opt.Types.Formats, name) {
			continue
		}
		node := yamldoc.Lookup(l.doc.Root, "dataset", "formats")
		if node.Kind == yaml.SequenceNode && i < len(node.Content) {
			node = node.Content[i]
		}
		shown := fmt.Sprintf("%q", name)
		if secret.Setting(name) {
			shown = "(not shown, because it looks like a secret)"
		}
		f := newError(schema.CodeEnum, "use one of "+strings.Join(l.opt.Types.Formats, ", "),
			"unknown row format %s", shown)
		if f.Suggestion = finding.Nearest(name, l.opt.Types.Formats); f.Suggestion != "" {
			f.Fix = "write " + f.Suggestion
		}
		l.report(node, fmt.Sprintf("/dataset/formats/%d", i), f)
	}
}

// stepFilter warns if NAT would filter out steps that a selected builder needs.
func (l *loader) stepFilter(c *Config) {
	out := c.Eval.General.Output
	key, _ := yamldoc.LookupPair(l.doc.Root, "eval", "general")
	if key == nil {
		return
	}
	for _, b := range c.Selected() {
		for _, step := range l.opt.Types.of(b.Section)[b.Type].Steps {
			path := []string{"eval", "general", "output", "workflow_output_step_filter"}
			at, filter := yamldoc.LookupPair(l.doc.Root, path...)
			if filter != nil &&
				(out == nil || filter.Kind == yaml.SequenceNode && len(out.StepFilter) < len(filter.Content)) {
				return // the filter is invalid, which has already been reported
			}
			if filter != nil && filter.Kind == yaml.SequenceNode &&
				(len(filter.Content) == 0 || slices.Contains(out.StepFilter, step)) {
				continue
			}
			if filter == nil {
				for n := len(path) - 1; at == nil; n-- {
					at, _ = yamldoc.LookupPair(l.doc.Root, path[:n]...)
				}
			}
			l.report(at, yamldoc.Pointer(path...), notice(finding.Warning, codeStepFilter,
				fmt.Sprintf("set eval.general.output.workflow_output_step_filter: [%s]", step),
				"with these settings, NAT omits %s steps from workflow_output.json, but the builder %s needs them", step,
				b.Name))
			return
		}
	}
}

// noTeacherBuilders lists the built-in builders that don't produce hints. collator.teacher can score only the
// rollouts among their records.
var noTeacherBuilders = []string{"divergence_traj_builder", "dpo_traj_builder", "sft_traj_builder", "grpo_traj_builder"}

// idleTeacher warns about a teacher that is never used. Teachers score only hints and, if collator.teacher.rollouts is
// set, rollouts.
func (l *loader) idleTeacher(c *Config) {
	section, value := yamldoc.LookupPair(l.doc.Root, "collator", "teacher")
	if section == nil || value == nil || c.Collator.Teacher == nil || len(c.Selected()) == 0 {
		return
	}
	rollouts := false
	for _, b := range c.Selected() {
		if !slices.Contains(noTeacherBuilders, b.Type) {
			return
		}
		rollouts = rollouts || b.Type == "grpo_traj_builder"
	}
	what := notice(finding.Warning, codeNoEffect, "add an sdpo_traj_builder, or remove collator.teacher",
		"collator.teacher is never used: none of the builders produces error sites with hints")
	switch {
	case rollouts && c.Collator.Teacher.Rollouts:
		return
	case rollouts:
		what.Message += ", and a teacher scores rollouts only if collator.teacher.rollouts is set"
		what.Fix = "set collator.teacher.rollouts: true, or remove collator.teacher"
	}
	l.report(value, "/collator/teacher", what)
}
