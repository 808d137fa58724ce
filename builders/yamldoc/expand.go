package yamldoc

import (
	"fmt"
	"slices"
	"strconv"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
)

// expander copies a parsed tree into a document. It replaces aliases with copies, merges merge keys and finds
// duplicates.
type expander struct {
	doc      *Document
	src      *Source
	nodes    int
	text     int
	stopped  bool
	open     map[*yaml.Node]bool // aliased nodes currently being expanded
	guarded  bool
	findings []finding.Finding
}

func (x *expander) fail(n *yaml.Node, ptr, code, msg, fix string) {
	switch {
	case len(x.findings) < MaxFindings:
		x.findings = append(x.findings, x.src.reportAs(n, origin{}, ptr, problem(code, msg, fix)))
	case len(x.findings) == MaxFindings:
		x.findings = append(x.findings, More(x.src.Name))
	}
}

// MaxFindings limits the findings for one document or one block, because each shows its line and a line may be long.
const MaxFindings = 500

// More returns the finding for a file whose findings are not all shown.
func More(file string) finding.Finding {
	f := problem(CodeMore, fmt.Sprintf("more than %d findings; the rest are not shown", MaxFindings),
		"correct these first")
	f.File = file
	return f
}

func problem(code, message, fix string) finding.Finding {
	return finding.Finding{Code: code, Severity: finding.Error, Message: message, Fix: fix}
}

// expand returns a copy of n. If the value is unusable, it returns nil and reports a finding.
func (x *expander) expand(n *yaml.Node, ptr string, depth int) *yaml.Node {
	if x.stopped {
		return nil
	}
	stop := func(code, message, fix string) *yaml.Node {
		x.stopped = true
		x.fail(n, ptr, code, message, fix)
		return nil
	}
	x.nodes++
	x.text += len(n.Value)
	switch {
	case x.nodes > maxValues:
		return stop(CodeTooMany, fmt.Sprintf("more than %d values once aliases are resolved", maxValues),
			"write the values out instead of aliasing aliases")
	case x.text > maxText:
		return stop(CodeTooMany, fmt.Sprintf("more than %d bytes of values once aliases are resolved", maxText),
			"use a file instead of repeating a long text")
	case depth > maxDepth:
		return stop(CodeTooDeep, fmt.Sprintf("values are nested more than %d deep", maxDepth),
			"flatten the configuration")
	}
	if n.Kind == yaml.AliasNode {
		if x.open[n.Alias] {
			x.fail(n, ptr, codeSelfAlias, "the alias *"+n.Value+" contains itself", "write the value out")
			return nil
		}
		x.open[n.Alias] = true
		defer delete(x.open, n.Alias)
		return x.expand(n.Alias, ptr, depth+1)
	}
	if n.Anchor != "" && !x.open[n] {
		x.open[n] = true
		defer delete(x.open, n)
	}
	c := &yaml.Node{Kind: n.Kind, Style: n.Style, Tag: n.Tag, Value: n.Value, Line: n.Line, Column: n.Column}
	x.doc.origins[c] = origin{src: x.src}
	if x.guarded {
		c.Value = unguard(c.Value)
	}
	switch n.Kind {
	case yaml.SequenceNode:
		for i, e := range n.Content {
			if v := x.expand(e, ptr+"/"+strconv.Itoa(i), depth+1); v != nil {
				c.Content = append(c.Content, v)
			}
		}
	case yaml.MappingNode:
		x.mapping(n, c, ptr, depth)
	}
	return c
}

func (x *expander) mapping(n, c *yaml.Node, ptr string, depth int) {
	seen := map[string]*yaml.Node{}
	at := map[string]int{} // index of each key's pair in c
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if x.guarded {
			key.Value = unguard(key.Value)
		}
		if key.Kind != yaml.ScalarNode {
			x.fail(n.Content[i], ptr, codeBadKey, "a key must be plain text, got "+Describe(key),
				"write `name: value`")
			continue
		}
		child := ptr + "/" + Escape(key.Value)
		if key.ShortTag() == "!!merge" {
			merged = append(merged, x.merge(n.Content[i+1], ptr, depth)...)
			continue
		}
		if first := seen[key.Value]; first != nil { // the last one wins, as in PyYAML
			x.fail(n.Content[i], child, CodeDuplicate,
				fmt.Sprintf("%q is set twice: first on line %d", key.Value, first.Line), "remove one of them")
			if j, ok := at[key.Value]; ok {
				c.Content[j], c.Content[j+1] = nil, nil
			}
		}
		seen[key.Value] = key
		k, v := x.expand(key, child, depth+1), x.expand(n.Content[i+1], child, depth+1)
		if delete(at, key.Value); k != nil && v != nil {
			at[key.Value] = len(c.Content)
			c.Content = append(c.Content, k, v)
		}
	}
	c.Content = slices.DeleteFunc(c.Content, func(n *yaml.Node) bool { return n == nil })
	for i := 0; i+1 < len(merged); i += 2 { // the mapping's own keys take precedence, then the first merged mapping
		if seen[merged[i].Value] == nil {
			seen[merged[i].Value] = merged[i]
			c.Content = append(c.Content, merged[i], merged[i+1])
		}
	}
}

// merge returns the pairs that a merge key `<<` contributes.
func (x *expander) merge(n *yaml.Node, ptr string, depth int) []*yaml.Node {
	v := x.expand(n, ptr, depth+1)
	switch {
	case v == nil:
		return nil
	case v.Kind == yaml.MappingNode:
		return v.Content
	case v.Kind == yaml.SequenceNode:
		var pairs []*yaml.Node
		for _, e := range v.Content {
			if e.Kind != yaml.MappingNode {
				x.fail(e, ptr, codeBadMerge, "`<<` merges mappings, got "+Describe(e), "use an anchor of a mapping")
			} else {
				pairs = append(pairs, e.Content...)
			}
		}
		return pairs
	}
	x.fail(n, ptr, codeBadMerge, "`<<` merges mappings, got "+Describe(v), "use an anchor of a mapping")
	return nil
}
