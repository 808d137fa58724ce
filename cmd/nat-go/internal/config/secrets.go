package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/yamldoc"
	"github.com/nat-go/nat-go/internal/secret"
)

// scalar is a scalar of a document with what leads to it.
type scalar struct {
	node  *yaml.Node
	path  []string
	named bool // a key above is named after a secret, or the word before it is a flag that takes one
}

// eachScalar walks the values below a node.
func eachScalar(n *yaml.Node, path []string, named bool, do func(scalar)) {
	if n.Kind == yaml.ScalarNode {
		do(scalar{n, path, named})
		return
	}
	for i, child := range n.Content {
		step, is := fmt.Sprint(i), named
		switch {
		case n.Kind != yaml.MappingNode:
			is = is || i > 0 && n.Content[i-1].Kind == yaml.ScalarNode && secret.Flag(n.Content[i-1].Value)
		case i%2 == 0:
			continue
		default:
			step = n.Content[i-1].Value
			is = is || secret.Named(step)
		}
		eachScalar(child, append(path[:len(path):len(path)], step), is, do)
	}
}

// holdsSecret reports whether a scalar, as it was written, is a secret or has one in it.
func holdsSecret(doc *yamldoc.Document, s scalar) bool {
	written, _ := doc.Written(s.node)
	if written == "" || s.node.ShortTag() == "!!null" {
		return false
	}
	return doc.IsSecret(s.node) || s.named && !secret.Plain(written) || secret.Setting(written)
}

// gatherSecrets tells whoever asked of every value that must not be shown: secrets, however they came into the configuration,
// and what the variables hold that it grants to programs.
func (l *loader) gatherSecrets() {
	if l.opt.Secrets == nil {
		return
	}
	eachScalar(l.doc.Root, nil, false, func(s scalar) {
		value := s.node.Value
		switch written, _ := l.doc.Written(s.node); {
		case value == "":
		case l.doc.IsSecret(s.node) || s.named:
			if !secret.Plain(value) {
				l.opt.Secrets.Add(value)
			}
		default:
			l.opt.Secrets.Add(secret.OfSetting("", value)...)
			if written != value { // a variable within a text: what it holds
				l.gatherVariables(written)
			}
		}
		if n := len(s.path); n > 1 && s.path[n-2] == "env" {
			held, _ := l.opt.Getenv(value)
			l.opt.Secrets.Add(secret.Granted(value, held)...)
		}
	})
}

// gatherVariables adds what the variables of a text hold, where their names say that it is a secret.
func (l *loader) gatherVariables(written string) {
	for _, m := range reference.FindAllStringSubmatch(written, -1) {
		if held, set := l.opt.Getenv(m[1]); set && secret.Named(m[1]) && !secret.Plain(held) {
			l.opt.Secrets.Add(held)
		}
	}
}

// clearSecrets warns about secrets that stand in a file or on the command line in clear: the run folder doesn't keep them, so
// that whoever comes back to the run has to have them in a variable.
func (l *loader) clearSecrets() {
	eachScalar(l.doc.Root, nil, false, func(s scalar) {
		written, _ := l.doc.Written(s.node)
		if !holdsSecret(l.doc, s) || onlyReference.MatchString(written) || natSections[s.path[0]] {
			return
		}
		name := variableFor(written, s.path)
		l.report(s.node, yamldoc.Pointer(s.path...), finding.Finding{
			Code: codeClearSecret, Severity: finding.Warning,
			Message: fmt.Sprintf("%s is a secret and stands here in clear; the run folder doesn't keep it, so resume, status, wait and cancel need %s to be set", strings.Join(s.path, "."), name),
			Fix:     "write ${VARIABLE} and set the variable",
		})
	})
}

var (
	onlyReference = regexp.MustCompile(`^\$\{([^:{}$]+)(?::-)?\}$`)
	anyReference  = regexp.MustCompile(`^\$\{([^:{}$]+)(?::-[^}]*)?\}$`)
	notInName     = regexp.MustCompile(`[^A-Z0-9]+`)
)

// variableFor is the variable that the copy of a configuration has in place of a secret: its own, or one named after the
// setting's path.
func variableFor(written string, path []string) string {
	if m := anyReference.FindStringSubmatch(written); m != nil {
		return m[1]
	}
	return "NATGO_" + notInName.ReplaceAllString(strings.ToUpper(strings.Join(path, "_")), "_")
}

// Under keeps the findings that are about a block, or about no place of the file.
func (b *Block) Under(fs []finding.Finding) []finding.Finding {
	return slices.DeleteFunc(slices.Clone(fs), func(f finding.Finding) bool {
		return f.Pointer != "" && f.Pointer != b.Pointer() && !strings.HasPrefix(f.Pointer, b.Pointer()+"/")
	})
}
