package config

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

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
