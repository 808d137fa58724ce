package yamldoc

import (
	"maps"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/internal/secret"

	"github.com/nat-go/nat-go/builders/finding"
)

// Document is a YAML mapping whose nodes record their positions, in one file or in several merged ones. Aliases and
// merge keys are resolved at parse time, so every node has exactly one position.
type Document struct {
	Root    *yaml.Node
	origins map[*yaml.Node]origin
	secrets map[*yaml.Node]bool
}

type origin struct {
	src     *Source
	written string // text before Rewrite
	rewrote bool
}

// Merge merges over into d, recursively. Mappings in both are merged; otherwise, over's value takes precedence.
func (d *Document) Merge(over *Document) {
	maps.Copy(d.origins, over.origins)
	merge(d.Root, over.Root)
}

func merge(base, over *yaml.Node) {
	at := make(map[string]int, len(base.Content)/2)
	for i := len(base.Content) - 2; i >= 0; i -= 2 {
		at[base.Content[i].Value] = i
	}
	for i := 0; i+1 < len(over.Content); i += 2 {
		j, ok := at[over.Content[i].Value]
		switch {
		case !ok:
			base.Content = append(base.Content, over.Content[i], over.Content[i+1])
		case base.Content[j+1].Kind == yaml.MappingNode && over.Content[i+1].Kind == yaml.MappingNode:
			base.Content[j] = over.Content[i] // findings about the block refer to the file that the user named
			merge(base.Content[j+1], over.Content[i+1])
		default:
			base.Content[j], base.Content[j+1] = over.Content[i], over.Content[i+1]
		}
	}
}

func keyIndex(m *yaml.Node, key string) int {
	if m == nil || m.Kind != yaml.MappingNode {
		return -1
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// listIndex returns the index in a list that a step of a path specifies, or -1.
func listIndex(list *yaml.Node, step string) int {
	if i, err := strconv.Atoi(step); err == nil && i < len(list.Content) {
		return max(i, -1)
	}
	return -1
}

// Lookup follows keys and list indices down from a node; it returns nil if the path doesn't exist.
func Lookup(n *yaml.Node, path ...string) *yaml.Node {
	_, v := LookupPair(n, path...)
	return v
}

// LookupPair is like Lookup but also returns the key node of the last step, which is nil for a list index.
func LookupPair(n *yaml.Node, path ...string) (key, value *yaml.Node) {
	for _, p := range path {
		key = nil
		switch {
		case n == nil:
			return nil, nil
		case n.Kind == yaml.MappingNode:
			i := keyIndex(n, p)
			if i < 0 {
				return nil, nil
			}
			key, n = n.Content[i], n.Content[i+1]
		case n.Kind == yaml.SequenceNode:
			i := listIndex(n, p)
			if i < 0 {
				return nil, nil
			}
			n = n.Content[i]
		default:
			return nil, nil
		}
	}
	return key, n
}

// Rewrite replaces a scalar's text, for example with a variable's value. The written text is kept, and an unquoted
// scalar gets the type of its new text.
func (d *Document) Rewrite(n *yaml.Node, text string) {
	o := d.origins[n]
	if !o.rewrote {
		o.written, o.rewrote = n.Value, true
	}
	d.origins[n] = o
	n.Value = text
	if n.Style&^yaml.FlowStyle == 0 {
		n.Tag = ""
	}
}

// Written returns the text of a scalar as written in the file, and whether Rewrite has replaced it.
func (d *Document) Written(n *yaml.Node) (string, bool) {
	if o := d.origins[n]; o.rewrote {
		return o.written, true
	}
	return n.Value, false
}

// File returns the name of the source that a node comes from.
func (d *Document) File(n *yaml.Node) string {
	if s := d.origins[n].src; s != nil {
		return s.Name
	}
	return ""
}

// IsSecret reports whether a scalar was hidden.
func (d *Document) IsSecret(n *yaml.Node) bool { return d.secrets[n] }

// Hide masks a value in every snippet created afterwards.
func (d *Document) Hide(n *yaml.Node) {
	for _, c := range n.Content {
		d.Hide(c)
	}
	if n.Kind != yaml.ScalarNode {
		return
	}
	if d.secrets == nil {
		d.secrets = map[*yaml.Node]bool{}
	}
	d.secrets[n] = true
	src := d.origins[n].src
	if written, _ := d.Written(n); src == nil || n.Line == 0 || secret.IsReference(written) {
		return
	}
	for line := n.Line; line <= len(src.lines); line++ {
		from, to := 1, utf8.RuneCountInString(src.lines[line-1])+1
		if line == n.Line {
			from = n.Column
			if _, end := src.span(n, d.origins[n]); end > n.Column+1 || n.Style == 0 {
				to = end
			}
		} else if !src.continues(n, line) {
			break
		}
		src.masks = append(src.masks, mask{line, from, to})
		if n.Style == 0 || to <= utf8.RuneCountInString(src.lines[line-1]) {
			break
		}
	}
}

// Report attaches a finding to a node and fills in its pointer and position. For an unknown node, the position remains
// empty.
func (d *Document) Report(n *yaml.Node, ptr string, f finding.Finding) finding.Finding {
	if d.origins[n].src == nil {
		f.Pointer = ptr
		return f
	}
	return d.origins[n].src.reportAs(n, d.origins[n], ptr, f)
}

// ReportText is like Report, for part of a scalar's text.
func (d *Document) ReportText(n *yaml.Node, piece, ptr string, f finding.Finding) finding.Finding {
	line, col := d.find(n, piece)
	if line == 0 {
		return d.Report(n, ptr, f)
	}
	return d.origins[n].src.ReportAt(line, col, col+utf8.RuneCountInString(piece), ptr, f)
}

// reportWithin is like Report, for a finding whose snippet is a line of the scalar's text, to which its columns refer.
func (d *Document) reportWithin(n *yaml.Node, ptr string, f finding.Finding) finding.Finding {
	from, to := f.Column-1, f.EndColumn-1
	whole := []rune(f.Snippet)
	line, col := d.find(n, f.Snippet)
	if line == 0 || to > len(whole) {
		return d.ReportText(n, string(whole[min(from, len(whole)):min(to, len(whole))]), ptr, f)
	}
	return d.origins[n].src.ReportAt(line, col+from, col+to, ptr, f)
}

// find returns the position where part of a scalar's text was written. Line 0 means that the file doesn't contain it
// verbatim.
func (d *Document) find(n *yaml.Node, piece string) (line, col int) {
	src := d.origins[n].src
	if src == nil || n.Line < 1 || n.Line > len(src.lines) {
		return 0, 0
	}
	written, _ := d.Written(n)
	// maximum length of the scalar, including escapes
	most := len(`\u0000`)*utf8.RuneCountInString(written) + 64
	for line = n.Line; line <= len(src.lines); line++ {
		text := src.line(line)
		from := 0
		if line == n.Line {
			from = min(max(n.Column-1, 0), len(text))
		} else if !src.continues(n, line) {
			break
		}
		within := string(text[from:min(len(text), from+most)]) // the file may be a single line
		if i := strings.Index(within, piece); i >= 0 {
			return line, from + utf8.RuneCountInString(within[:i]) + 1
		}
	}
	return 0, 0
}

// Set puts a value at a path, creating mappings as needed, and records that it was written in src, at the nodes' own
// lines and columns. It returns false if the path leads through a scalar or past the end of a list.
func (d *Document) Set(path []string, value *yaml.Node, src *Source) bool {
	d.own(value, src)
	at := d.Root
	for i, key := range path {
		last := i == len(path)-1
		var j int
		switch at.Kind {
		case yaml.SequenceNode:
			if j = listIndex(at, key); j < 0 {
				return false
			}
		case yaml.MappingNode:
			if j = keyIndex(at, key) + 1; j == 0 {
				k := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key, Line: 1, Column: 1}
				d.own(k, src)
				at.Content = append(at.Content, k, &yaml.Node{})
				j = len(at.Content) - 1
			}
			if !last && IsNull(at.Content[j]) {
				at.Content[j] = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1, Column: 1}
				d.own(at.Content[j], src)
			}
		default:
			return false
		}
		if last {
			at.Content[j] = value
			return true
		}
		at = at.Content[j]
	}
	return false
}

func (d *Document) own(n *yaml.Node, src *Source) {
	d.origins[n] = origin{src: src}
	for _, c := range n.Content {
		d.own(c, src)
	}
}

// Adopt attaches findings whose pointers are relative to block, such as a plugin's. If a finding also has a position
// within the text at its pointer, that position is used. at is block's own pointer. fallback is the node to use for a
// pointer that doesn't exist.
func (d *Document) Adopt(block, fallback *yaml.Node, at string, fs []finding.Finding) []finding.Finding {
	out := make([]finding.Finding, len(fs))
	for i, f := range fs {
		path := SplitPointer(f.Pointer)
		node := fallback
		for n := len(path); n > 0; n-- { // find the longest prefix of the path that exists
			if key, v := LookupPair(block, path[:n]...); v != nil {
				if node = v; v.Kind != yaml.ScalarNode && key != nil {
					node = key
				}
				break
			}
		}
		if f.File == "" && f.Line > 0 && node.Kind == yaml.ScalarNode && node != fallback {
			out[i] = d.reportWithin(node, at+f.Pointer, f)
		} else {
			out[i] = d.Report(node, at+f.Pointer, f)
		}
	}
	return out
}

// IsNull reports whether a node is null or missing.
func IsNull(n *yaml.Node) bool {
	return n.Kind == 0 || (n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null")
}

// Describe names the kind of a node's value, without revealing the value.
func Describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.ShortTag() {
	case "!!null":
		return "empty"
	case "!!bool":
		return "true or false"
	case "!!int", "!!float":
		return "a number"
	case "!!timestamp":
		return "a date"
	}
	return "a text"
}
