package config

import (
	"iter"
	"slices"
	"strings"
)

// Values yields the effective values that the YAML sets in our sections: references are resolved, and bases and
// overrides are merged. A path has one step per key or index, such as sources, runs, path, 0. Values may be secrets.
func (c *Config) Values() iter.Seq2[[]string, string] {
	return func(yield func([]string, string) bool) {
		more := true
		eachScalar(scalar{node: c.doc.Root}, func(s scalar) {
			if !natSections[s.path[0]] && s.node.ShortTag() != "!!null" { // null is treated as absent
				more = more && yield(s.path, s.node.Value)
			}
		})
	}
}

// idle lists the settings that don't affect a data set's bytes: where it is written or sent, how fast it is built, and
// the paths of files that are identified by their content. A server's timeout is listed, because a resumed run repeats
// the requests that timed out. plugins.*.timeout, memory and output aren't, because a builder that exceeds one of them
// drops its group. A * matches one step of a path; a listed path includes the paths below it.
var idle = []string{
	"trainer_adapters", "finetuning.enabled", "finetuning.output_dir", "finetuning.trainer",
	"finetuning.trainer_adapter",
	"finetuning.num_epochs", "finetuning.run_configuration", "trainers.*.wait_for_completion", "trainers.*._type",
	"plugins.*.path", "plugins.*.python", "plugins.*.interpreter",
	"plugins.*.sha256", "plugins.*.instances", "plugins.*.start_timeout",
	"collator.tokenizer", "collator.template", "collator.reference.path", "collator.teacher.concurrency",
	"collator.teacher.timeout",
	"collator.teacher.logits.memory", "collator.teacher.logits.timeout", "collator.teacher.logits.start_timeout",
	"sources.*.concurrency", "sources.*.timeout", "sources.*.stop_timeout", "eval.general.max_concurrency",
}

// Decides reports whether a value at a path affects the bytes of the data set. It returns false for idle values, for
// builders, trainers and plugins that finetuning doesn't select, and for everything in eval except general.
func (c *Config) Decides(path []string) bool {
	used := true
	if len(path) > 1 {
		switch path[0] {
		case "trajectory_builders":
			used = find(c.Selected(), path[1]) != nil
		case "trainers":
			used = path[1] == c.Finetuning.Trainer
		case "plugins":
			used = c.usesPlugin(path[1])
		case "eval":
			used = path[1] == "general"
		}
	}
	return used && !slices.ContainsFunc(idle, func(pattern string) bool {
		return under(strings.Split(pattern, "."), path)
	})
}

func (c *Config) usesPlugin(name string) bool {
	return slices.ContainsFunc(c.Selected(), func(b Block) bool {
		plugin, _, ok := strings.Cut(b.Type, "/")
		return ok && plugin == name
	})
}

func under(pattern, path []string) bool {
	if len(path) < len(pattern) {
		return false
	}
	for i, step := range pattern {
		if step != "*" && step != path[i] {
			return false
		}
	}
	return true
}
