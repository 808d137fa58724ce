package config

import (
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/yamldoc"
	"github.com/nat-go/nat-go/internal/secret"
)

// Values yields the effective values that the YAML sets in nat-go's sections, with references resolved, and bases and
// overrides merged. A path has one step per key or index, such as sources, runs, path, 0. Values may be secrets.
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

// idle lists the settings that don't affect a data set's bytes. These settings determine its destination and the speed
// of building it, or are the paths of files that are identified by their content. A server's timeout is listed, because
// a resumed run repeats the requests that timed out. plugins.*.timeout, memory and output are not listed, because a
// builder that exceeds such a limit drops its group. A * matches one step of a path, and a listed path includes the
// paths below it.
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
			serves := func(b Block) bool { return strings.HasPrefix(b.Type, path[1]+"/") }
			used = slices.ContainsFunc(c.Selected(), serves)
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

// Source returns the merged configuration of nat-go's sections, for the copy in the run folder. Bases and overrides are
// merged, variables remain references, and the contents of file:// paths are included. The copy doesn't contain
// secrets. A secret in the file is replaced by a reference to a variable, from which `resume` reads the secret.
// Comments at the top of the copy name these variables.
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
	// Use block style, in which ${NAME} doesn't need quotes. With quotes, the variable's value would always be text.
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

// scalar is a node in a document, usually a scalar, with the path that leads to it.
type scalar struct {
	node  *yaml.Node
	path  []string
	named bool // a key on the path is named like a secret, or the preceding list item is a flag that expects a secret
}

// below returns the i-th node in the content of a list or mapping. In a mapping, that node must be a value.
func (s scalar) below(i int) scalar {
	step, named := strconv.Itoa(i), s.named
	if of := s.node.Content; s.node.Kind == yaml.MappingNode {
		step = of[i-1].Value
		named = named || secret.Named(step)
	} else if i > 0 && of[i-1].Kind == yaml.ScalarNode {
		named = named || secret.Flag(of[i-1].Value)
	}
	return scalar{s.node.Content[i], append(s.path[:len(s.path):len(s.path)], step), named}
}

// eachScalar calls do for the scalars in a node, except the keys of mappings.
func eachScalar(s scalar, do func(scalar)) {
	if s.node.Kind == yaml.ScalarNode {
		do(s)
		return
	}
	for i := range s.node.Content {
		if s.node.Kind != yaml.MappingNode || i%2 == 1 {
			eachScalar(s.below(i), do)
		}
	}
}

// holdsSecret reports whether a scalar, as written, is or contains a secret.
func holdsSecret(doc *yamldoc.Document, known *secret.Values, s scalar) bool {
	written, _ := doc.Written(s.node)
	if written == "" || s.node.ShortTag() == "!!null" {
		return false
	}
	return doc.IsSecret(s.node) || s.named && !secret.Plain(written) || secret.Setting(written) ||
		known.Redact(written) != written
}

// minSecretLen is the minimum length at which a secret from one setting is searched for in others. Shorter secrets
// may occur in ordinary words.
const minSecretLen = 6

// gatherSecrets fills Options.Secrets with the values that must not be shown. These values are secrets, regardless of
// their origin, and the values of variables that the configuration grants to programs. It also adds values that are
// long enough to l.known, except the values of granted variables whose names don't suggest a secret.
func (l *loader) gatherSecrets() {
	l.known = new(secret.Values)
	add := func(values ...string) {
		if l.opt.Secrets != nil {
			l.opt.Secrets.Add(values...)
		}
		for _, v := range values {
			if len(v) >= minSecretLen {
				l.known.Add(v)
			}
		}
	}
	eachScalar(scalar{node: l.doc.Root}, func(s scalar) {
		value := s.node.Value
		switch written, _ := l.doc.Written(s.node); {
		case value == "":
		case l.doc.IsSecret(s.node) || s.named:
			if !secret.Plain(value) {
				add(append(secret.OfSetting("", value), value)...)
			}
		default:
			add(secret.OfSetting("", value)...)
			if written != value { // add the values of secret variables in the text
				add(l.variables(written)...)
			}
		}
		if n := len(s.path); n > 1 && s.path[n-2] == "env" {
			held, _ := l.opt.Getenv(value)
			switch granted := secret.Granted(value, held); {
			case secret.Named(value):
				add(granted...)
			case l.opt.Secrets != nil: // a granted value may be a secret, or only an ordinary word in the configuration
				l.opt.Secrets.Add(granted...)
			}
		}
	})
}

// withoutSecrets removes known secrets from messages that quote the file.
func (l *loader) withoutSecrets(found []finding.Finding) []finding.Finding {
	for i := range found {
		f := &found[i]
		f.Message, f.Fix, f.Suggestion = l.known.Redact(f.Message), l.known.Redact(f.Fix), l.known.Redact(f.Suggestion)
	}
	return found
}

// variables returns the values of the variables that written references, if their names suggest secrets.
func (l *loader) variables(written string) (values []string) {
	for _, m := range reference.FindAllStringSubmatch(written, -1) {
		if held, set := l.opt.Getenv(m[1]); set && secret.Named(m[1]) && !secret.Plain(held) {
			values = append(values, held)
		}
	}
	return values
}

// clearSecrets warns about secrets that are in a file or on the command line in the clear. The run folder doesn't
// contain them, so a resumed run needs them in a variable.
func (l *loader) clearSecrets() {
	eachScalar(scalar{node: l.doc.Root}, func(s scalar) {
		written, _ := l.doc.Written(s.node)
		if !holdsSecret(l.doc, l.known, s) || onlyReference.MatchString(written) || natSections[s.path[0]] {
			return
		}
		name := variableFor(written, s.path)
		l.report(s.node, yamldoc.Pointer(s.path...), notice(finding.Warning, codeClearSecret,
			"write ${VARIABLE} and set the variable",
			"%s is a secret in the clear; the run folder doesn't keep it, so resume, status, wait and cancel need %s to be set",
			strings.Join(s.path, "."), name))
	})
}

var (
	onlyReference = regexp.MustCompile(`^\$\{([^:{}$]+)(?::-)?\}$`)
	anyReference  = regexp.MustCompile(`^\$\{([^:{}$]+)(?::-[^}]*)?\}$`)
	notInName     = regexp.MustCompile(`[^A-Z0-9]+`)
)

// variableFor returns the variable that replaces a secret in the copy of a configuration. It is the variable that the
// setting refers to, or one named after the setting's path.
func variableFor(written string, path []string) string {
	if m := anyReference.FindStringSubmatch(written); m != nil {
		return m[1]
	}
	return "NATGO_" + notInName.ReplaceAllString(strings.ToUpper(strings.Join(path, "_")), "_")
}

// Under returns the findings about the block, and the findings without a pointer.
func (b *Block) Under(fs []finding.Finding) []finding.Finding {
	return slices.DeleteFunc(slices.Clone(fs), func(f finding.Finding) bool {
		return f.Pointer != "" && f.Pointer != b.Pointer() && !strings.HasPrefix(f.Pointer, b.Pointer()+"/")
	})
}
