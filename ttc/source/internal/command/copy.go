package command

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// ours lists the sections that `nat eval` doesn't know, or that contain types unknown to it.
var ours = []string{
	"base", "sources", "plugins", "collator", "dataset", "trajectory_builders", "trainers", "trainer_adapters",
	"finetuning",
}

const (
	maxBytes = 4 << 20
	maxNodes = 200_000
	maxBases = 16
)

// writeCopy returns NAT's configuration in a form that `nat eval` accepts, with the output folder set. It returns an
// error if the output would be useless; see check. Variables remain references.
func writeCopy(ctx context.Context, path, outputDir string, stepTypes []string) ([]byte, error) {
	root, err := merged(ctx, path, nil)
	if err != nil {
		return nil, err
	}
	for _, name := range ours {
		remove(root, name)
	}
	output := mapping(root, "eval", "general", "output")
	if err := check(path, root, output, stepTypes); err != nil {
		return nil, err
	}
	set(output, "dir", scalar("!!str", outputDir))
	set(output, "cleanup", scalar("!!bool", "false"))
	remove(output, "job_management")
	return yaml.Marshal(root)
}

// check returns an error if `nat eval` would write nothing, omit the steps of a required type, or omit ids and steps.
// Checking first avoids spending hours on such a run.
func check(path string, root, output *yaml.Node, stepTypes []string) error {
	refuse := func(what, help string) error { return source.Failure(path, what, help, nil) }
	filter := get(output, "workflow_output_step_filter")
	line := fmt.Sprintf("Set eval.general.output.workflow_output_step_filter: [%s]", strings.Join(stepTypes, ", "))
	switch {
	case filter == nil || filter.Tag == "!!null":
		return refuse("`nat eval` would omit all steps except LLM_END and TOOL_END", line)
	case filter.Kind != yaml.SequenceNode:
		return refuse("expected workflow_output_step_filter to be a list", line)
	case len(filter.Content) > 0: // an empty list keeps all steps
		var kept []string
		for _, n := range filter.Content {
			kept = append(kept, n.Value)
		}
		for _, want := range stepTypes {
			if !slices.Contains(kept, want) {
				return refuse(fmt.Sprintf("`nat eval` would omit %s steps: workflow_output_step_filter keeps %s", want, strings.Join(kept, ", ")), line)
			}
		}
	}
	if n := get(root, "eval", "evaluators"); n == nil || len(n.Content) == 0 {
		return refuse("without an evaluator `nat eval` writes nothing, and still reports success", "Add one under eval.evaluators")
	}
	if n := get(root, "eval", "general", "dataset", "structure", "disable"); n != nil && n.Value == "true" {
		return refuse("with structure.disable `nat eval` writes answers without ids and steps", "Remove eval.general.dataset.structure.disable")
	}
	return nil
}

// merged reads a configuration and merges it into its base, over which it takes precedence.
func merged(ctx context.Context, path string, seen []string) (*yaml.Node, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if slices.Contains(seen, abs) || len(seen) == maxBases {
		files := strings.Join(append(seen, abs), " -> ")
		return nil, source.Failure(path, "inherits from itself, or via too many files: "+files, "", nil)
	}
	root, err := parse(ctx, path)
	if err != nil {
		return nil, err
	}
	absolute(root, filepath.Dir(abs))
	base := get(root, "base")
	if base == nil || base.Value == "" {
		return root, nil
	}
	from := base.Value
	if !filepath.IsAbs(from) {
		from = filepath.Join(filepath.Dir(abs), from)
	}
	under, err := merged(ctx, from, append(seen, abs))
	if err != nil {
		return nil, err
	}
	over(under, root)
	return under, nil
}

func parse(ctx context.Context, path string) (*yaml.Node, error) {
	text, err := source.ReadFile(ctx, path, maxBytes)
	if err != nil {
		return nil, fmt.Errorf("cannot read nat_config: %w", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, source.Failure(path, err.Error(), "", err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, source.Failure(path, "is not a YAML mapping", "", nil)
	}
	left := maxNodes
	root, err := expandAliases(doc.Content[0], &left, 0)
	if err != nil {
		return nil, source.Failure(path, err.Error(), "", nil)
	}
	return root, nil
}

// expandAliases copies a node with its aliases expanded, so that its parts can be removed independently.
func expandAliases(n *yaml.Node, left *int, depth int) (*yaml.Node, error) {
	if *left--; *left < 0 || depth > 100 {
		return nil, errors.New("too many values after expanding aliases, or values nested too deeply")
	}
	if n.Kind == yaml.AliasNode {
		return expandAliases(n.Alias, left, depth+1)
	}
	c := *n
	c.Anchor, c.Content = "", nil
	for _, child := range n.Content {
		x, err := expandAliases(child, left, depth+1)
		if err != nil {
			return nil, err
		}
		c.Content = append(c.Content, x)
	}
	return &c, nil
}

// absolute makes file:// references independent of the copy's location.
func absolute(n *yaml.Node, dir string) {
	if rest, ok := strings.CutPrefix(n.Value, "file://"); ok && n.Kind == yaml.ScalarNode && !filepath.IsAbs(rest) {
		n.Value = "file://" + filepath.Join(dir, rest)
	}
	for _, c := range n.Content {
		absolute(c, dir)
	}
}

// get returns the node at a path of keys, or nil.
func get(n *yaml.Node, path ...string) *yaml.Node {
	for _, key := range path {
		if n == nil || n.Kind != yaml.MappingNode {
			return nil
		}
		i := indexOf(n, key)
		if i < 0 {
			return nil
		}
		n = n.Content[i+1]
	}
	return n
}

// indexOf returns the index of a key in a mapping's content, before its value's, or -1.
func indexOf(n *yaml.Node, key string) int {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return i
		}
	}
	return -1
}

func set(n *yaml.Node, key string, v *yaml.Node) {
	if i := indexOf(n, key); i >= 0 {
		n.Content[i+1] = v
		return
	}
	n.Content = append(n.Content, scalar("!!str", key), v)
}

func remove(n *yaml.Node, key string) {
	if i := indexOf(n, key); i >= 0 {
		n.Content = slices.Delete(n.Content, i, i+2)
	}
}

// mapping returns the mapping at a path, creating mappings wherever the path is missing or leads to something else.
func mapping(n *yaml.Node, path ...string) *yaml.Node {
	for _, key := range path {
		next := get(n, key)
		if next == nil || next.Kind != yaml.MappingNode {
			next = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
			set(n, key, next)
		}
		n = next
	}
	return n
}

// over merges heir, a derived configuration, into its base: mappings are merged, and everything else is replaced.
func over(base, heir *yaml.Node) {
	for i := 0; i+1 < len(heir.Content); i += 2 {
		key, v := heir.Content[i].Value, heir.Content[i+1]
		if have := get(base, key); have != nil && have.Kind == yaml.MappingNode && v.Kind == yaml.MappingNode {
			over(have, v)
			continue
		}
		set(base, key, v)
	}
}

func scalar(tag, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
}
