package config

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
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
			used = slices.ContainsFunc(c.Selected(), func(b Block) bool { return strings.HasPrefix(b.Type, path[1]+"/") })
		case "eval":
			used = path[1] == "general"
		}
	}
	return used && !slices.ContainsFunc(idle, func(pattern string) bool {
		return under(strings.Split(pattern, "."), path)
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

// Source returns the merged configuration of our sections, for the copy in the run folder: bases and overrides are
// merged, variables remain references, and the contents of file:// paths are included. It doesn't contain secrets: a
// secret in the file is replaced by a reference to a variable, from which `resume` reads it. Comments at the top of the
// copy name these variables.
func (c *Config) Source() ([]byte, error) {
	s := sourceWriter{c: c}
	root := &yaml.Node{Kind: yaml.MappingNode}
	for i := 0; i+1 < len(c.doc.Root.Content); i += 2 {
		key, value := c.doc.Root.Content[i], c.doc.Root.Content[i+1]
		if natSections[key.Value] {
			continue
		}
		root.Content = append(root.Content, s.copy(scalar{node: key}),
			s.copy(scalar{node: value, path: []string{key.Value}}))
	}
	var b strings.Builder
	if len(c.passed) > 0 {
		fmt.Fprintf(&b, "# omitted, not used by nat-go: %s\n", strings.Join(c.passed, ", "))
	}
	for _, line := range s.notes {
		b.WriteString("# " + line + "\n")
	}
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return nil, fmt.Errorf("cannot write the configuration: %w", err)
	}
	return []byte(b.String()), enc.Close()
}

type sourceWriter struct {
	c     *Config
	notes []string
}

// copy copies a node as written.
func (s *sourceWriter) copy(from scalar) *yaml.Node {
	n := from.node
	// In block style, ${NAME} needs no quotes; with quotes, the variable's value would always be text.
	out := &yaml.Node{Kind: n.Kind, Style: n.Style &^ yaml.FlowStyle, Tag: n.Tag, Value: n.Value}
	if n.Kind == yaml.ScalarNode {
		written, rewrote := s.c.doc.Written(n)
		switch {
		case holdsSecret(s.c.doc, s.c.known, from):
			out.Tag, out.Style, out.Value = "!!str", 0, s.reference(written, from.path)
		case rewrote && strings.Contains(written, "${"):
			out.Value = written
			if n.Tag == "" {
				out.Style = 0
			}
		}
		if strings.Contains(out.Value, "\n") { // the YAML library can't parse some of the block scalars that it writes
			out.Style = yaml.DoubleQuotedStyle
		}
		return out
	}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			out.Content = append(out.Content, s.copy(scalar{node: child, path: from.path}))
		} else {
			out.Content = append(out.Content, s.copy(from.below(i)))
		}
	}
	return out
}

// reference replaces a secret with a variable, without its default.
func (s *sourceWriter) reference(written string, path []string) string {
	name := variableFor(written, path)
	if !anyReference.MatchString(written) {
		s.notes = append(s.notes, fmt.Sprintf("%s was written in the clear in the configuration: set %s to continue this run", strings.Join(path, "."), name))
	}
	return "${" + name + "}"
}
