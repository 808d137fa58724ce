package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/builders/yamldoc"
)

// maxExpanded bounds what one scalar may grow to by its variables or its file.
const maxExpanded = 1 << 20

// expandAll expands references in the sections that are ours. Blocks that fine-tuning doesn't select only warn about
// unset variables: a data set can be made without the credentials of a service that it isn't sent to.
func (l *loader) expandAll() {
	l.broken = map[string]bool{}
	l.expandUnder(yamldoc.Lookup(l.doc.Root, "finetuning"), "/finetuning", finding.Error)
	for i := 0; i+1 < len(l.doc.Root.Content); i += 2 {
		name, section := l.doc.Root.Content[i].Value, l.doc.Root.Content[i+1]
		switch {
		case name == "finetuning" || natSections[name]:
		case componentSections[name] && name != "sources" && section.Kind == yaml.MappingNode:
			for j := 0; j+1 < len(section.Content); j += 2 {
				severity := finding.Error
				if !l.selected(name, section.Content[j].Value) {
					severity = finding.Warning
				}
				l.expandUnder(section.Content[j+1], yamldoc.Pointer(name, section.Content[j].Value), severity)
			}
		default:
			severity := finding.Error
			if name == "eval" { // --from names an input without it
				severity = finding.Warning
			}
			l.expandUnder(section, yamldoc.Pointer(name), severity)
		}
	}
}

var selectors = map[string]string{"trajectory_builders": "trajectory_builder", "trainers": "trainer", "trainer_adapters": "trainer_adapter"}

// selected reports whether finetuning names a component.
func (l *loader) selected(section, name string) bool {
	v := yamldoc.Lookup(l.doc.Root, "finetuning", selectors[section])
	if v == nil {
		return false
	}
	return v.Value == name || slices.ContainsFunc(v.Content, func(e *yaml.Node) bool { return e.Value == name })
}

func (l *loader) expandUnder(n *yaml.Node, ptr string, severity finding.Severity) {
	if n == nil {
		return
	}
	switch n.Kind {
	case yaml.ScalarNode:
		l.expandScalar(n, ptr, severity)
	case yaml.SequenceNode:
		for i, c := range n.Content {
			l.expandUnder(c, ptr+"/"+strconv.Itoa(i), severity)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			l.expandUnder(n.Content[i+1], ptr+yamldoc.Pointer(n.Content[i].Value), severity)
		}
	}
}

// reference matches an escaped $${, a ${NAME} or ${NAME:-default}, or a ${ that is neither.
var reference = regexp.MustCompile(`\$\$\{|\$\{([^:{}$]+)(?::-([^}]*))?\}|\$\{[^}]*\}?`)

// natReference is NAT's own pattern, which knows no escape.
var natReference = regexp.MustCompile(`\$\{([^:}]+)(?::-([^}]*))?\}`)

// Expand replaces the references of a text that was a scalar of a configuration, as a run folder's config.yml keeps them. ok is
// false where a variable is not set and has no default.
func Expand(written string, getenv func(string) (string, bool)) (text string, ok bool) {
	ok = true
	text = reference.ReplaceAllStringFunc(written, func(ref string) string {
		m := reference.FindStringSubmatch(ref)
		switch value, set := getenv(m[1]); {
		case ref == "$${":
			return "${"
		case m[1] != "" && set:
			return value
		case m[1] == "" || !strings.Contains(ref, ":-"):
			ok = false
			return ref
		}
		return m[2]
	})
	return text, ok
}

// expandScalar replaces a scalar's references, then the file that it names. A value is never expanded again: what a
// variable holds is data.
func (l *loader) expandScalar(n *yaml.Node, ptr string, severity finding.Severity) {
	if n.Kind == yaml.ScalarNode && strings.Contains(n.Value, "${") {
		text, ok := l.substitute(n, ptr, severity)
		if !ok && l.broken != nil {
			l.broken[ptr] = true
		}
		if text != n.Value {
			l.doc.Rewrite(n, text)
		}
	}
	if n.Kind == yaml.ScalarNode && strings.HasPrefix(n.Value, "file://") {
		l.readValue(n, ptr)
	}
}

func (l *loader) substitute(n *yaml.Node, ptr string, severity finding.Severity) (string, bool) {
	pattern, ok := reference, true
	if l.opt.Compat {
		pattern = natReference
	}
	written := n.Value
	text := pattern.ReplaceAllStringFunc(written, func(ref string) string {
		if ref == "$${" {
			return "${"
		}
		m := pattern.FindStringSubmatch(ref)
		if strings.TrimSpace(m[1]) == "" {
			ok = false
			l.add(l.doc.ReportText(n, ref, ptr, finding.Finding{
				Code: codeReference, Severity: finding.Error,
				Message: "a reference to a variable has no end or no name: " + ref, Fix: "write ${NAME} or ${NAME:-default}; for a literal ${ write $${",
			}))
			return ref
		}
		value, set := l.opt.Getenv(m[1])
		switch {
		case set:
			return value
		case strings.Contains(ref, ":-"):
			return m[2]
		case l.opt.Compat: // as NAT does
			return ""
		}
		ok = false
		l.add(l.doc.ReportText(n, ref, ptr, finding.Finding{
			Code: codeUnset, Severity: severity,
			Message: fmt.Sprintf("the variable %s is not set", m[1]), Fix: fmt.Sprintf("set %s, or write ${%s:-default}", m[1], m[1]),
		}))
		return ""
	})
	if len(text) > maxExpanded || !utf8.ValidString(text) {
		l.report(n, ptr, finding.Finding{Code: codeReference, Message: "the variable's value is no UTF-8 text or larger than " + schema.Size(maxExpanded).String(), Fix: "check what the variable holds"})
		return "", false
	}
	return text, ok
}

// fileExtensions are those that NAT reads.
var fileExtensions = []string{".txt", ".md", ".j2", ".jinja2", ".jinja", ".prompt", ".tpl", ".template"}

// readValue replaces file://PATH by the file's text.
func (l *loader) readValue(n *yaml.Node, ptr string) {
	path := strings.TrimPrefix(n.Value, "file://")
	fail := func(msg, fix string) {
		if l.broken != nil {
			l.broken[ptr] = true
		}
		l.report(n, ptr, finding.Finding{Code: codeFileValue, Message: msg, Fix: fix})
	}
	if !slices.Contains(fileExtensions, strings.ToLower(filepath.Ext(path))) {
		fail("file:// names a file of another kind than text", "use one of the extensions "+strings.Join(fileExtensions, " "))
		return
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(l.doc.File(n)), path)
	}
	f, err := os.Open(path)
	if err != nil {
		fail("the file can't be read: "+reason(err), "the path is relative to the configuration file")
		return
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxExpanded+1))
	switch {
	case err != nil:
		fail("the file can't be read: "+reason(err), "check the path")
	case len(text) > maxExpanded:
		fail("the file is larger than "+schema.Size(maxExpanded).String(), "shorten it")
	case !utf8.Valid(text):
		fail("the file is not UTF-8 text", "save it as UTF-8")
	default:
		l.doc.Rewrite(n, string(text))
		n.Tag = "!!str"
	}
}
