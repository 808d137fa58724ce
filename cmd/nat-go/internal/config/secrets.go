package config

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/yamldoc"
	"github.com/nat-go/nat-go/internal/secret"
)

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

// minSecretLen is the minimum length at which a secret from one setting is searched for in others. Shorter ones occur
// inside ordinary words.
const minSecretLen = 6

// gatherSecrets fills Options.Secrets with the values that must not be shown: secrets, regardless of how they entered
// the configuration, and the values of variables that the configuration grants to programs. It also adds values that
// are long enough to l.known, except those of granted variables whose names don't suggest a secret.
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
			case l.opt.Secrets != nil: // a granted value may be a secret, or just an ordinary word in the configuration
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

// clearSecrets warns about secrets that are in a file or on the command line in the clear. The run folder doesn't keep
// them, so a resumed run needs them in a variable.
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

// variableFor returns the variable that replaces a secret in the copy of a configuration: the one that the setting
// refers to, or one named after the setting's path.
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
