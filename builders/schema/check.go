package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/yamldoc"
	"github.com/nat-go/nat-go/internal/secret"
)

// Options change how a block is checked.
type Options struct {
	Pointer string           // the block's pointer, a prefix of the pointers of all findings
	At      *yaml.Node       // the block's key, at which missing keys are reported; nil means the block
	Unknown finding.Severity // severity of keys that the spec doesn't define; empty means Error
	Skip    []string         // keys of the block that the spec doesn't check, such as "_type"
}

// Document is the file that a node comes from.
type Document interface {
	// Report adds a node's pointer and position to a finding.
	Report(n *yaml.Node, pointer string, f finding.Finding) finding.Finding
	// Written returns the text of a scalar before variables in it were replaced, and whether any were.
	Written(n *yaml.Node) (text string, rewritten bool)
	// Hide removes a value from all later findings.
	Hide(n *yaml.Node)
}

// Check reports all problems with a block.
func (s *Spec) Check(doc Document, node *yaml.Node, opt Options) []finding.Finding {
	_, fs := s.Value(doc, node, opt)
	return fs
}

// JSON returns a block as canonical JSON - defaults filled in, keys sorted, durations and sizes as text - or nil if any
// finding is an error. It contains secrets in the clear, so it must go only to the plugin.
func (s *Spec) JSON(doc Document, node *yaml.Node, opt Options) ([]byte, []finding.Finding) {
	v, fs := s.Value(doc, node, opt)
	if finding.Failed(fs) {
		return nil, fs
	}
	out, err := json.Marshal(plainJSON(v))
	if err != nil {
		f := finding.Finding{Code: CodeType, Severity: finding.Error, Message: err.Error()}
		return nil, append(fs, doc.Report(node, opt.Pointer, f))
	}
	return asYAML(out), fs
}

// asYAML escapes the characters that JSON allows unescaped and YAML doesn't, so that the text can be parsed as
// either.
func asYAML(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		if (r >= 0x7f && r < 0xa0) || r == 0xfeff || r == 0xfffe || r == 0xffff {
			out = fmt.Appendf(out, `\u%04x`, r)
			continue
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

// plainJSON writes durations as text; the other types in a Value encode themselves.
func plainJSON(v any) any {
	switch v := v.(type) {
	case time.Duration:
		return v.String()
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = plainJSON(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = plainJSON(e)
		}
		return out
	}
	return v
}

// Value returns a block as map[string]any, []any, string, int64, float64, bool, time.Duration and Size, with defaults
// filled in. Values with an error are omitted.
func (s *Spec) Value(doc Document, node *yaml.Node, opt Options) (any, []finding.Finding) {
	if s.typ == nil || s.Kind != Object {
		return s.walk(doc, node, opt)
	}
	return s.decode(doc, node, reflect.New(s.typ), opt)
}

// walk performs the checks that need only the nodes: keys, types and, if the spec comes from a JSON Schema, its
// keywords.
func (s *Spec) walk(doc Document, node *yaml.Node, opt Options) (any, []finding.Finding) {
	unknown := cmp.Or(opt.Unknown, finding.Error)
	w := walker{doc: doc, unknown: unknown, skip: opt.Skip, top: node, steps: new(int)}
	v, _ := w.value(s, node, cmp.Or(opt.At, node), opt.Pointer)
	return v, w.findings
}

// walker checks nodes against specs and collects findings.
type walker struct {
	doc      Document
	unknown  finding.Severity
	skip     []string
	top      *yaml.Node
	steps    *int // values examined so far, shared with the walkers that try the choices of a union
	findings []finding.Finding
}

// maxSteps bounds a check, because in a plugin's schema, nested unions may multiply the number of choices.
const maxSteps = 300_000

func (w *walker) report(n *yaml.Node, ptr string, f finding.Finding) {
	f.Severity = cmp.Or(f.Severity, finding.Error)
	switch {
	case len(w.findings) == yamldoc.MaxFindings:
		f = yamldoc.More("")
	case len(w.findings) > yamldoc.MaxFindings:
		return
	}
	w.findings = append(w.findings, w.doc.Report(n, ptr, f))
}

func (w *walker) rewritten(n *yaml.Node) bool {
	_, is := w.doc.Written(n)
	return is
}

// refuse reports why a value can't be used.
func (w *walker) refuse(n *yaml.Node, ptr, code, message, fix string) (any, bool) {
	w.report(n, ptr, finding.Finding{Code: code, Message: message, Fix: fix})
	return nil, false
}

// value returns the value of a node, and whether it is usable. Missing keys are reported at the node at.
func (w *walker) value(s *Spec, n, at *yaml.Node, ptr string) (any, bool) {
	if s == nil {
		s = &Spec{Kind: Any, Nullable: true}
	}
	if *w.steps++; *w.steps > maxSteps {
		if *w.steps == maxSteps+1 {
			w.refuse(n, ptr, yamldoc.CodeTooMany, "the schema has too many choices to check this value",
				"shorten the value, or report the schema to the plugin's author")
		}
		return nil, false
	}
	if s.Secret {
		w.doc.Hide(n)
	}
	if yamldoc.IsNull(n) && !(s.Kind == String && !s.Nullable && w.rewritten(n)) {
		return w.null(s, n, at, ptr)
	}
	switch s.Kind {
	case Any:
		return w.any(n, ptr)
	case Object:
		return w.object(s, n, at, ptr)
	case Map:
		return w.mapping(s, n, ptr)
	case List:
		return w.list(s, n, at, ptr)
	case Union:
		return w.union(s, n, at, ptr)
	}
	if n.Kind != yaml.ScalarNode {
		return w.wrongType(s, n, ptr)
	}
	v, ok := w.scalar(s, n, ptr)
	return v, ok && w.bounds(s, n, ptr, v)
}

func (w *walker) null(s *Spec, n, at *yaml.Node, ptr string) (any, bool) {
	if s.Nullable {
		return s.Default, true
	}
	if n.Value == "" { // the empty value of `key:` has no position
		n = at
	}
	fix := "write " + s.expects() + ", or remove the key"
	if d := s.DefaultText(); d != "" {
		fix += " to use the default " + d
	}
	return w.refuse(n, ptr, CodeNull, fmt.Sprintf("%s is empty (null) but must be %s", label(ptr), s.expects()), fix)
}

func label(ptr string) string {
	if ptr == "" {
		return "the configuration"
	}
	return yamldoc.Dotted(ptr)
}

// plainWords matches words that don't need quotes in a list.
var plainWords = regexp.MustCompile(`^[\w./-]+(\s+[\w./-]+)*$`)

// asList converts a string found where a list of strings is expected, such as a command, to a YAML list of its words.
// It returns "" for other values, and for words that need quotes.
func (w *walker) asList(s *Spec, n *yaml.Node) string {
	if s.Kind != List || s.Elem == nil || s.Elem.Kind != String || s.Elem.Secret || n.Kind != yaml.ScalarNode {
		return ""
	}
	written, rewrote := w.doc.Written(n)
	const longest = 100
	if rewrote || len(written) > longest || secret.Setting(written) || !plainWords.MatchString(written) {
		return ""
	}
	return "[" + strings.Join(strings.Fields(written), ", ") + "]"
}

func (w *walker) wrongType(s *Spec, n *yaml.Node, ptr string) (any, bool) {
	fix := "write " + s.expects()
	if s.Kind == String && n.Kind == yaml.ScalarNode && !s.Secret {
		if written, rewrote := w.doc.Written(n); !rewrote {
			fix = "put quotes around it: " + strconv.Quote(written)
		}
	}
	if list := w.asList(s, n); list != "" {
		fix = "write " + list
	}
	if d := s.DefaultText(); d != "" && s.Kind != String {
		fix += fmt.Sprintf(" (default %s)", d)
	}
	return w.refuse(n, ptr, CodeType,
		fmt.Sprintf("%s must be %s, got %s", label(ptr), s.expects(), w.display(s, n)), fix)
}

// display describes a value for a message, as written in the file. It never shows a secret or the value of a variable.
func (w *walker) display(s *Spec, n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || s.Secret {
		return yamldoc.Describe(n)
	}
	written, rewrote := w.doc.Written(n)
	if secret.Setting(written) {
		return yamldoc.Describe(n)
	}
	if r := []rune(written); len(r) > 40 {
		written = string(r[:40]) + "..."
	}
	switch {
	case rewrote && written == "":
		return yamldoc.Describe(n)
	case rewrote:
		return "the value of " + written + " (" + yamldoc.Describe(n) + ")"
	case yamldoc.Describe(n) == "a text" || n.Style != 0:
		return "the text " + strconv.Quote(written)
	}
	return written
}

func (w *walker) object(s *Spec, n, at *yaml.Node, ptr string) (any, bool) {
	if n.Kind != yaml.MappingNode {
		return w.wrongType(s, n, ptr)
	}
	out := map[string]any{}
	byField := map[string]*yaml.Node{} // the key node that set each field
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		child := ptr + "/" + yamldoc.Escape(key.Value)
		f := s.Field(key.Value)
		if f == nil {
			if !(n == w.top && slices.Contains(w.skip, key.Value)) && s.Formerly(key.Value) == nil {
				w.unknownKey(s, key, val, ptr)
			}
			continue
		}
		if first := byField[f.Name]; first != nil {
			w.twice(f, first, key, child)
			continue
		}
		byField[f.Name] = key
		if v, ok := w.value(f.Spec, val, key, child); ok && v != nil {
			out[f.Name] = v
		}
	}
	w.formerly(n, ptr, s, byField, out)
	for i := range s.Fields {
		f := &s.Fields[i]
		if byField[f.Name] != nil || out[f.Name] != nil {
			continue
		}
		if f.Required {
			if s.typ == nil { // otherwise the validator reports it
				w.report(at, ptr+yamldoc.Pointer(f.Name), f.missing(ptr))
			}
			continue
		}
		if v := f.Spec.fallback(); v != nil {
			out[f.Name] = v
		}
	}
	return out, true
}

// fallback returns the value of an absent key: its default or, for an object, its fields' defaults.
func (s *Spec) fallback() any {
	if s.Default != nil || s.Kind != Object || s.Nullable {
		return s.Default
	}
	out := map[string]any{}
	for _, f := range s.Fields {
		if v := f.Spec.fallback(); v != nil {
			out[f.Name] = v
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// twice reports that a field is set under two of its names.
func (w *walker) twice(f *Field, first, again *yaml.Node, ptr string) {
	w.refuse(again, ptr, codeTwice,
		fmt.Sprintf("%q and %q are the same setting, and both are set", first.Value, again.Value), "keep "+f.Name)
}

func (w *walker) unknownKey(s *Spec, key, val *yaml.Node, ptr string) {
	// suggesting a key for each of so many findings would take too long
	if len(w.findings) > yamldoc.MaxFindings {
		w.doc.Hide(val)
		return
	}
	meant := s.Nearest(key.Value)
	severity := w.unknown
	if s.Open { // unknown keys are allowed here, so report only a likely typo
		if s.Field(meant) == nil {
			return
		}
		severity = finding.Warning
	}
	if f := s.Field(meant); f != nil && f.Spec.Secret {
		w.doc.Hide(val)
	}
	where := cmp.Or(s.Name, label(ptr))
	f := finding.Finding{
		Code: CodeUnknownKey, Severity: severity, Suggestion: meant,
		Message: fmt.Sprintf("%s has no key %q", where, key.Value),
	}
	switch other := s.elsewhere()[key.Value]; {
	case other != "":
		f.Fix, f.Suggestion = other, ""
	case meant != "":
		f.Fix = "write " + meant + " instead of " + key.Value
	case len(s.Fields) == 0:
		f.Fix = "remove it"
	default:
		f.Fix = "remove it; known keys: " + strings.Join(s.Names(), ", ")
	}
	w.report(key, ptr+"/"+yamldoc.Escape(key.Value), f)
}

// elsewhere returns advice, by key, for keys that belong to another program. A struct with such keys has an Elsewhere
// method.
func (s *Spec) elsewhere() map[string]string {
	if s.typ != nil {
		if known, ok := reflect.Zero(s.typ).Interface().(interface{ Elsewhere() map[string]string }); ok {
			return known.Elsewhere()
		}
	}
	return nil
}

// missing returns the finding for an object at ptr that lacks key f.
func (f *Field) missing(ptr string) finding.Finding {
	fix := fmt.Sprintf("add `%s: %s`", f.Name, f.Spec.example())
	if ptr != "" {
		fix += " under " + label(ptr)
	}
	if f.Spec.Doc != "" {
		fix += ": " + f.Spec.Doc
	}
	ptr += yamldoc.Pointer(f.Name)
	return finding.Finding{Code: CodeMissing, Message: label(ptr) + " is missing", Fix: fix}
}

func (w *walker) mapping(s *Spec, n *yaml.Node, ptr string) (any, bool) {
	if n.Kind != yaml.MappingNode {
		return w.wrongType(s, n, ptr)
	}
	out := map[string]any{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if v, ok := w.value(s.Elem, n.Content[i+1], key, ptr+"/"+yamldoc.Escape(key.Value)); ok {
			out[key.Value] = v
		}
	}
	return out, w.length(s, n, ptr, len(out))
}

func (w *walker) list(s *Spec, n, at *yaml.Node, ptr string) (any, bool) {
	if n.Kind != yaml.SequenceNode {
		if !s.Single {
			return w.wrongType(s, n, ptr)
		}
		if n.Kind != yaml.ScalarNode && s.Elem != nil && s.Elem.Kind <= Bool && s.Elem.Kind >= String {
			return w.wrongType(s, n, ptr)
		}
		v, ok := w.value(s.Elem, n, at, ptr)
		return []any{v}, ok
	}
	out := []any{}
	for i, e := range n.Content {
		if v, ok := w.value(s.Elem, e, e, ptr+"/"+strconv.Itoa(i)); ok {
			out = append(out, v)
		}
	}
	return out, w.length(s, n, ptr, len(out))
}

// union uses the first spec that fits. If none does, it reports the findings for the closest one.
func (w *walker) union(s *Spec, n, at *yaml.Node, ptr string) (any, bool) {
	var closest []finding.Finding
	for _, o := range s.OneOf {
		try := walker{doc: w.doc, unknown: w.unknown, steps: w.steps}
		v, ok := try.value(o, n, at, ptr)
		if ok && !finding.Failed(try.findings) {
			w.findings = append(w.findings, try.findings...)
			return v, true
		}
		if o.fitsShape(n) && (closest == nil || len(try.findings) < len(closest)) {
			closest = try.findings
		}
	}
	if closest == nil {
		return w.wrongType(s, n, ptr)
	}
	w.findings = append(w.findings, closest...)
	return nil, false
}

// fitsShape reports whether a node is the right kind of value for a spec, regardless of its content.
func (s *Spec) fitsShape(n *yaml.Node) bool {
	switch s.Kind {
	case Any:
		return true
	case Object, Map:
		return n.Kind == yaml.MappingNode
	case List:
		return n.Kind == yaml.SequenceNode
	case Int, Float:
		return n.Kind == yaml.ScalarNode && (n.ShortTag() == "!!int" || n.ShortTag() == "!!float")
	case Bool:
		return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool"
	}
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str"
}
