package config

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/builders/yamldoc"
	"github.com/nat-go/nat-go/internal/durable"
)

// maxExpanded limits the size of one scalar after its variables or its file have been expanded.
const maxExpanded = 1 << 20

// maxExpandedAll limits the total expanded size of a configuration's scalars.
const maxExpandedAll = 16 << 20

// expandAll expands the references in the sections that nat-go reads. An unset variable in eval, or in a builder,
// trainer or adapter that finetuning doesn't select, only causes a warning, so that a data set can be built without
// credentials for services that the run doesn't use.
func (l *loader) expandAll() {
	l.broken = map[string]bool{}
	if f := yamldoc.Lookup(l.doc.Root, "finetuning"); f != nil {
		l.expandUnder(f, finding.Error, "finetuning")
	}
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
				l.expandUnder(section.Content[j+1], severity, name, section.Content[j].Value)
			}
		default:
			severity := finding.Error
			if name == "eval" { // --from may name the input instead
				severity = finding.Warning
			}
			l.expandUnder(section, severity, name)
		}
	}
}

var selectors = map[string]string{
	"trajectory_builders": "trajectory_builder",
	"trainers":            "trainer",
	"trainer_adapters":    "trainer_adapter",
}

// selected reports whether finetuning names a component.
func (l *loader) selected(section, name string) bool {
	v := yamldoc.Lookup(l.doc.Root, "finetuning", selectors[section])
	if v == nil {
		return false
	}
	return v.Value == name || slices.ContainsFunc(v.Content, func(e *yaml.Node) bool { return e.Value == name })
}

func (l *loader) expandUnder(n *yaml.Node, severity finding.Severity, path ...string) {
	eachScalar(scalar{node: n, path: path}, func(s scalar) {
		l.expandScalar(s.node, yamldoc.Pointer(s.path...), severity)
	})
}

// reference matches an escaped $${, a ${NAME} or ${NAME:-default}, or a ${ that is neither.
var reference = regexp.MustCompile(`\$\$\{|\$\{([^:{}$]+)(?::-([^}]*))?\}|\$\{[^}]*\}?`)

// natReference is NAT's own pattern, which doesn't support escapes.
var natReference = regexp.MustCompile(`\$\{([^:}]+)(?::-([^}]*))?\}`)

// Expand replaces the references in a scalar of a configuration, as stored in a run folder's config.yml. ok is false
// if a reference is malformed, a variable without a default is not set, or the text becomes too long.
func Expand(written string, getenv func(string) (string, bool)) (text string, ok bool) {
	ok = true
	text, fits := replaceReferences(reference, written, maxExpanded, func(ref, name, fallback string) string {
		switch value, set := getenv(name); {
		case name != "" && set:
			return value
		case name == "" || !strings.Contains(ref, ":-"):
			ok = false
			return ref
		}
		return fallback
	})
	return text, ok && fits
}

// expandScalar replaces a scalar's references and then, if the result is file://PATH, reads that file. References
// inside variables' values are not replaced, because those values are data.
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
	pattern := reference
	if l.opt.Compat {
		pattern = natReference
	}
	if l.expanded > maxExpandedAll { // already reported
		return "", false
	}
	said, ok := map[string]bool{}, true
	fail := func(ref string, f finding.Finding) {
		if ok = false; said[ref] { // report each variable once, even if the text refers to it a thousand times
			return
		}
		said[ref] = true
		if !l.full() {
			f = l.doc.ReportText(n, ref, ptr, f)
		}
		l.add(f)
	}
	text, fits := replaceReferences(pattern, n.Value, maxExpanded, func(ref, name, fallback string) string {
		if strings.TrimSpace(name) == "" {
			fail(ref, newError(codeReference, "write ${NAME} or ${NAME:-default}; for a literal ${ write $${",
				"unterminated or unnamed variable reference: %s", ref))
			return ref
		}
		value, set := l.opt.Getenv(name)
		switch {
		case set:
			return value
		case strings.Contains(ref, ":-"):
			return fallback
		case l.opt.Compat: // in NAT, an unset variable is empty
			return ""
		}
		fail(ref, finding.Finding{
			Code: codeUnset, Severity: severity, Message: fmt.Sprintf("the variable %s is not set", name),
			Fix: fmt.Sprintf("set %s, or write ${%s:-default}", name, name),
		})
		return ""
	})
	if !fits || !utf8.ValidString(text) {
		l.report(n, ptr, newError(codeReference, "check the variable's value",
			"the variable's value is not UTF-8 text, or is larger than %s", schema.Size(maxExpanded).String()))
		return "", false
	}
	if !l.spend(n, ptr, len(text)) {
		return "", false
	}
	return text, ok
}

// spend adds size to the total size of expanded variables and files. It returns false if the total exceeds the limit,
// because a short file can refer to a long variable a hundred thousand times.
func (l *loader) spend(n *yaml.Node, ptr string, size int) bool {
	before := l.expanded
	if l.expanded += size; l.expanded <= maxExpandedAll {
		return true
	}
	if before <= maxExpandedAll { // report this error only once
		l.report(n, ptr, newError(codeReference,
			"check the variables' values, or give the path of a file where a setting accepts one", "%s",
			"the values of variables and files are larger than "+schema.Size(maxExpandedAll).String()+" in all"))
	}
	return false
}

// replaceReferences replaces the matches of a pattern in text. It returns false if the result would be longer than
// maxLen.
func replaceReferences(
	pattern *regexp.Regexp, text string, maxLen int, value func(ref, name, fallback string) string,
) (_ string, fits bool) {
	var b strings.Builder
	at := 0
	for _, m := range pattern.FindAllStringSubmatchIndex(text, -1) {
		group := func(i int) string {
			if m[2*i] < 0 {
				return ""
			}
			return text[m[2*i]:m[2*i+1]]
		}
		b.WriteString(text[at:m[0]])
		if at = m[1]; group(0) == "$${" {
			b.WriteString("${")
		} else {
			b.WriteString(value(group(0), group(1), group(2)))
		}
		if b.Len() > maxLen {
			return "", false
		}
	}
	b.WriteString(text[at:])
	return b.String(), b.Len() <= maxLen
}

// fileExtensions lists the file extensions that NAT accepts.
var fileExtensions = []string{".txt", ".md", ".j2", ".jinja2", ".jinja", ".prompt", ".tpl", ".template"}

// readValue replaces file://PATH with the file's text.
func (l *loader) readValue(n *yaml.Node, ptr string) {
	path := strings.TrimPrefix(n.Value, "file://")
	fail := func(msg, fix string) {
		if l.broken != nil {
			l.broken[ptr] = true
		}
		l.report(n, ptr, newError(codeFileValue, fix, "%s", msg))
	}
	if !slices.Contains(fileExtensions, strings.ToLower(filepath.Ext(path))) {
		fail("file:// refers to a file whose extension is not that of a text file",
			"use one of the extensions "+strings.Join(fileExtensions, " "))
		return
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(l.doc.File(n)), path)
	}
	text, err := durable.ReadInput(path, maxExpanded)
	switch {
	case err != nil:
		fail("the file can't be read: "+reason(err),
			"use a text file of at most 1 MiB; the path is relative to the configuration file")
	case !utf8.Valid(text):
		fail("the file is not UTF-8 text", "save it as UTF-8")
	case l.spend(n, ptr, len(text)):
		l.doc.Rewrite(n, string(text))
		n.Tag = "!!str"
	}
}
