package config

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/builders/yamldoc"
	"github.com/nat-go/nat-go/internal/secret"
)

// Override is the argument of one -o on the command line. It has the form PATH=VALUE, to which JoinOverrides also
// converts PATH VALUE.
type Override string

// JoinOverrides turns `-o PATH VALUE` into `-o PATH=VALUE`, so that a flag library that accepts one word per flag can
// read NAT's two-word form. Everything from "--" onwards is left unchanged.
func JoinOverrides(args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			return append(out, args[i:]...)
		}
		out = append(out, a)
		if a != "-o" && a != "--override" {
			continue
		}
		if i++; i >= len(args) {
			break
		}
		word := args[i]
		if !strings.Contains(word, "=") && i+1 < len(args) {
			i++
			word += "=" + args[i]
		}
		out = append(out, word)
	}
	return out
}

// override applies one override to the document. The positions of its findings refer to the words of the command
// line.
func (l *loader) override(o Override) {
	text := string(o)
	src := yamldoc.NewSource(text)
	dotted, value, ok := strings.Cut(text, "=")
	width := utf8.RuneCountInString(dotted)
	path := strings.Split(dotted, ".")
	if !ok || slices.Contains(path, "") {
		l.add(src.ReportAt(1, 1, width+1, "", newError(codeOverride,
			"write -o finetuning.num_epochs=5 or -o finetuning.num_epochs 5", "%q is not an override", dotted)))
		return
	}
	if slices.ContainsFunc(path, secret.Named) {
		src.HideFrom(width + 2)
	}
	spec, f := l.specAt(path)
	if f != nil {
		from := utf8.RuneCountInString(strings.Join(path[:f.Line], ".")) // start of the wrong step in the path
		if f.Line > 0 {
			from++
		}
		l.add(src.ReportAt(1, from+1, from+1+utf8.RuneCountInString(path[f.Line]), yamldoc.Pointer(path...), *f))
		return
	}
	node, f := overrideValue(spec, value, width+2)
	if f != nil {
		l.add(src.ReportAt(1, width+2, utf8.RuneCountInString(text)+1, yamldoc.Pointer(path...), *f))
		return
	}
	if spec != nil && spec.Secret {
		defer l.doc.Hide(node)
	}
	for i, p := range path { // if the file uses another name for the key, override the entry with that name
		if f := l.fieldAt(path[:i], p); f != nil && yamldoc.Lookup(l.doc.Root, path[:i+1]...) == nil {
			for _, name := range append([]string{f.Name}, f.Aliases...) {
				if yamldoc.Lookup(l.doc.Root, append(slices.Clone(path[:i]), name)...) != nil {
					path[i] = name
				}
			}
		}
	}
	if !l.doc.Set(path, node, src) {
		l.add(src.ReportAt(1, 1, width+1, yamldoc.Pointer(path...), newError(codeOverrideShape,
			"override the value itself", "cannot set %s: a value on its path does not have that entry", dotted)))
	}
}

// fieldAt returns the field that a key names in the object at a path, if any.
func (l *loader) fieldAt(path []string, key string) *schema.Field {
	if len(path) == 0 {
		return nil
	}
	s, f := l.specAt(path)
	if f != nil || s == nil {
		return nil
	}
	return s.Field(key)
}

// specAt returns the spec for a path, or nil if any value is allowed. If the path doesn't exist, specAt returns a
// finding whose Line is the index of the wrong step in the path.
func (l *loader) specAt(path []string) (*schema.Spec, *finding.Finding) {
	top := path[0]
	if natSections[top] {
		return nil, nil
	}
	section, ours := sectionSpecs()[top]
	if !ours && !componentSections[top] && top != "plugins" {
		known := topLevel()
		return nil, unknownStep(path, 0, known, finding.Nearest(top, known))
	}
	at := 1
	if !ours {
		if len(path) < 3 {
			return nil, nil
		}
		if top == "plugins" {
			section = pluginSpec()
		} else {
			if slices.Contains(typeKeys, path[2]) && len(path) == 3 {
				return &schema.Spec{Kind: schema.String}, nil
			}
			typ := typeOf(yamldoc.Lookup(l.doc.Root, path[:2]...))
			if c, ok := l.opt.Types.of(top)[typ]; ok {
				section = c.spec(typ)
			}
		}
		at = 2
	}
	for ; at < len(path) && section != nil; at++ {
		switch section.Kind {
		case schema.Object:
			f := section.Field(path[at])
			if f == nil && (section.Open || section.Formerly(path[at]) != nil) {
				return nil, nil
			}
			if f == nil {
				return nil, unknownStep(path, at, section.Names(), section.Nearest(path[at]))
			}
			section = f.Spec
		case schema.Map, schema.List:
			section = section.Elem
		case schema.Any, schema.Union:
			return nil, nil
		default:
			return nil, &finding.Finding{
				Line: at, Code: codeOverrideShape, Severity: finding.Error,
				Message: fmt.Sprintf("%s is a single value, so it cannot contain %q", strings.Join(path[:at], "."),
					path[at]), Fix: "override " + strings.Join(path[:at], "."),
			}
		}
	}
	return section, nil
}

func unknownStep(path []string, at int, known []string, meant string) *finding.Finding {
	f := &finding.Finding{
		Line: at, Code: codeOverridePath, Severity: finding.Error,
		Message: fmt.Sprintf("unknown setting %s", strings.Join(path[:at+1], ".")),
		Fix:     "known here: " + strings.Join(known, ", "),
	}
	if meant != "" {
		f.Suggestion = strings.Join(append(slices.Clone(path[:at]), meant), ".")
		f.Fix = "write " + f.Suggestion
	}
	return f
}

// overrideValue creates a node from text, typed by the spec. Strings are taken literally, lists may be written with
// commas as in NAT, and everything else is YAML.
func overrideValue(spec *schema.Spec, text string, column int) (*yaml.Node, *finding.Finding) {
	null := text == "null" || text == "~"
	if spec != nil && !(null && spec.Nullable) {
		switch spec.Kind {
		case schema.String, schema.Duration, schema.Bytes:
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Line: 1, Column: column}, nil
		case schema.List:
			if !strings.HasPrefix(strings.TrimSpace(text), "[") {
				return commaList(text, column), nil
			}
		}
	}
	const prefix = "v: "
	doc, fs := yamldoc.Parse(finding.CommandLine, []byte(prefix+text))
	value := (*yaml.Node)(nil)
	if doc != nil {
		value = yamldoc.Lookup(doc.Root, "v")
	}
	if value == nil || len(fs) > 0 {
		return nil, new(newError(codeOverride, `put quotes around text: '"a: b"'`, "the value is not YAML"))
	}
	shift(value, column-1-len(prefix))
	return value, nil
}

func commaList(text string, column int) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle, Line: 1, Column: column}
	for part := range strings.SplitSeq(text, ",") {
		lead := utf8.RuneCountInString(part) - utf8.RuneCountInString(strings.TrimLeft(part, " "))
		if v := strings.TrimSpace(part); v != "" {
			list.Content = append(list.Content, &yaml.Node{
				Kind: yaml.ScalarNode, Value: v, Line: 1, Column: column + lead,
			})
		}
		column += utf8.RuneCountInString(part) + 1
	}
	return list
}

func shift(n *yaml.Node, by int) {
	n.Column += by
	for _, c := range n.Content {
		shift(c, by)
	}
}
