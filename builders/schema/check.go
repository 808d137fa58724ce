package schema

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Options change how a block is checked.
type Options struct {
	Pointer string     // the block's own pointer, put before those of its findings
	At      *yaml.Node // the key that names the block: where missing keys are reported; nil: the block itself
	Unknown Severity   // of keys the spec doesn't know; empty: Error
	Skip    []string   // keys of the block that are not the spec's to judge: "_type"
}

// Check reports all that is wrong with a block.
func (s *Spec) Check(doc *Document, node *yaml.Node, opt Options) []Finding {
	_, fs := s.Value(doc, node, opt)
	return fs
}

// JSON returns a block as canonical JSON - defaults filled in, keys sorted, durations and sizes as text - or nil where a
// finding is an error. It holds secrets in clear: it is what a plugin gets, and nothing else may.
func (s *Spec) JSON(doc *Document, node *yaml.Node, opt Options) ([]byte, []Finding) {
	v, fs := s.Value(doc, node, opt)
	if Failed(fs) {
		return nil, fs
	}
	out, err := json.Marshal(plainJSON(v))
	if err != nil {
		return nil, append(fs, doc.Report(node, opt.Pointer, Finding{Code: CodeType, Severity: Error, Message: err.Error()}))
	}
	return asYAML(out), fs
}

// asYAML escapes the characters that JSON has in the clear and YAML has not, so that the text can be read as either.
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

// plainJSON writes durations as text; the other types of a Value encode themselves.
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
// filled in. What has an error is left out.
func (s *Spec) Value(doc *Document, node *yaml.Node, opt Options) (any, []Finding) {
	w := walker{doc: doc, unknown: opt.Unknown, skip: opt.Skip, top: node, steps: new(int)}
	if w.unknown == "" {
		w.unknown = Error
	}
	at := opt.At
	if at == nil {
		at = node
	}
	v, _ := w.value(s, node, at, opt.Pointer)
	return v, w.findings
}

// walker checks nodes against specs and gathers findings.
type walker struct {
	doc      *Document
	unknown  Severity
	skip     []string
	top      *yaml.Node
	steps    *int // values looked at so far, by those who try the choices of a union too
	findings []Finding
}

// maxSteps bounds a check: a plugin's schema may nest unions so that the choices multiply.
const maxSteps = 400_000

func (w *walker) report(n *yaml.Node, ptr string, f Finding) {
	if f.Severity == "" {
		f.Severity = Error
	}
	w.findings = append(w.findings, w.doc.Report(n, ptr, f))
}

// value returns the value of a node, and whether it could be had. at is where to report what is missing.
func (w *walker) value(s *Spec, n, at *yaml.Node, ptr string) (any, bool) {
	if s == nil {
		s = &Spec{Kind: Any, Nullable: true}
	}
	if *w.steps++; *w.steps > maxSteps {
		if *w.steps == maxSteps+1 {
			w.report(n, ptr, Finding{Code: CodeTooMany, Message: "the schema has too many choices to check this value", Fix: "shorten the value, or report the schema to the plugin's author"})
		}
		return nil, false
	}
	if s.Secret {
		w.doc.Hide(n)
	}
	if isNull(n) && !w.emptyText(s, n) {
		return w.null(s, n, at, ptr)
	}
	switch s.Kind {
	case Any:
		return w.any(n, ptr)
	case Object:
		return w.object(s, n, at, ptr)
	case Map:
		return w.mapping(s, n, at, ptr)
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

// emptyText reports whether a null is a variable's empty value where a text is expected.
func (w *walker) emptyText(s *Spec, n *yaml.Node) bool {
	return s.Kind == String && !s.Nullable && w.doc.origins[n].rewrote
}

func (w *walker) null(s *Spec, n, at *yaml.Node, ptr string) (any, bool) {
	if s.Nullable {
		return s.Default, true
	}
	if n.Value == "" { // `key:` has no place of its own
		n = at
	}
	fix := "write " + s.expects() + ", or remove the key"
	if d := s.defaultText(); d != "" {
		fix += " to use the default " + d
	}
	w.report(n, ptr, Finding{Code: CodeNull, Message: fmt.Sprintf("%s is empty (null), it must be %s", label(ptr), s.expects()), Fix: fix})
	return nil, false
}

func label(ptr string) string {
	if ptr == "" {
		return "the configuration"
	}
	return Dotted(ptr)
}

func (w *walker) wrongType(s *Spec, n *yaml.Node, ptr string) (any, bool) {
	fix := "write " + s.expects()
	if s.Kind == String && n.Kind == yaml.ScalarNode && !s.Secret {
		if written, rewrote := w.doc.Written(n); !rewrote {
			fix = "put quotes around it: " + strconv.Quote(written)
		}
	}
	if d := s.defaultText(); d != "" && s.Kind != String {
		fix += fmt.Sprintf(" (default %s)", d)
	}
	w.report(n, ptr, Finding{Code: CodeType, Message: fmt.Sprintf("%s must be %s, this is %s", label(ptr), s.expects(), w.shown(s, n)), Fix: fix})
	return nil, false
}

// shown describes a value for a message: as written in the file, never a secret nor what a variable holds.
func (w *walker) shown(s *Spec, n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || s.Secret {
		return describe(n)
	}
	written, rewrote := w.doc.Written(n)
	if urlPassword.MatchString(written) {
		return describe(n)
	}
	if r := []rune(written); len(r) > 40 {
		written = string(r[:40]) + "..."
	}
	switch {
	case rewrote && written == "":
		return describe(n)
	case rewrote:
		return "the value of " + written + " (" + describe(n) + ")"
	case describe(n) == "a text" || n.Style != 0:
		return "the text " + strconv.Quote(written)
	}
	return written
}

func (w *walker) object(s *Spec, n, at *yaml.Node, ptr string) (any, bool) {
	if n.Kind != yaml.MappingNode {
		return w.wrongType(s, n, ptr)
	}
	out := map[string]any{}
	byField := map[string]*yaml.Node{} // key node that set a field
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		child := ptr + "/" + escape(key.Value)
		f := s.Field(key.Value)
		if f == nil {
			if !(n == w.top && contains(w.skip, key.Value)) {
				w.unknownKey(s, key, val, ptr)
			}
			continue
		}
		if first := byField[f.Name]; first != nil {
			w.report(key, child, Finding{Code: CodeTwice,
				Message: fmt.Sprintf("%q and %q are the same setting, and both are set", first.Value, key.Value), Fix: "keep " + f.Name})
			continue
		}
		byField[f.Name] = key
		if v, ok := w.value(f.Spec, val, key, child); ok {
			if v != nil {
				out[f.Name] = v
			}
		}
	}
	for i := range s.Fields {
		f := &s.Fields[i]
		if byField[f.Name] != nil {
			continue
		}
		if f.Required {
			w.missing(f, at, ptr)
			continue
		}
		if v := f.Spec.fallback(); v != nil {
			out[f.Name] = v
		}
	}
	return out, true
}

// fallback is the value of an absent key: its default, or for an object the defaults of what is in it.
func (s *Spec) fallback() any {
	if s.Default != nil || s.Kind != Object || s.Nullable {
		return s.Default
	}
	out := map[string]any{}
	for i := range s.Fields {
		if v := s.Fields[i].Spec.fallback(); v != nil {
			out[s.Fields[i].Name] = v
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func (w *walker) unknownKey(s *Spec, key, val *yaml.Node, ptr string) {
	meant := s.Nearest(key.Value)
	severity := w.unknown
	if s.Open { // what others may add to; only a likely slip is worth a word
		if s.Field(meant) == nil {
			return
		}
		severity = Warning
	}
	if f := s.Field(meant); f != nil && f.Spec.Secret {
		w.doc.Hide(val)
	}
	where := s.Name
	if where == "" {
		where = label(ptr)
	}
	f := Finding{Code: CodeUnknownKey, Severity: severity, Suggestion: meant,
		Message: fmt.Sprintf("%s has no key %q", where, key.Value)}
	switch {
	case meant != "":
		f.Fix = "write " + meant + " instead of " + key.Value
	case len(s.Fields) == 0:
		f.Fix = "remove it"
	default:
		f.Fix = "remove it; known keys: " + strings.Join(s.Names(), ", ")
	}
	w.report(key, ptr+"/"+escape(key.Value), f)
}

func (w *walker) missing(f *Field, at *yaml.Node, ptr string) {
	fix := fmt.Sprintf("add `%s: %s`", f.Name, f.Spec.example())
	if ptr != "" {
		fix += " under " + label(ptr)
	}
	if f.Spec.Doc != "" {
		fix += ": " + f.Spec.Doc
	}
	w.report(at, ptr+"/"+escape(f.Name), Finding{Code: CodeMissing, Message: fmt.Sprintf("%s is missing", label(ptr+"/"+escape(f.Name))), Fix: fix})
}

func (w *walker) mapping(s *Spec, n, at *yaml.Node, ptr string) (any, bool) {
	if n.Kind != yaml.MappingNode {
		return w.wrongType(s, n, ptr)
	}
	out := map[string]any{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if v, ok := w.value(s.Elem, n.Content[i+1], key, ptr+"/"+escape(key.Value)); ok {
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

// union takes the first spec that fits; where none does it reports what the closest one says.
func (w *walker) union(s *Spec, n, at *yaml.Node, ptr string) (any, bool) {
	var closest []Finding
	for _, o := range s.OneOf {
		try := walker{doc: w.doc, unknown: w.unknown, steps: w.steps}
		v, ok := try.value(o, n, at, ptr)
		if ok && !Failed(try.findings) {
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

// fitsShape reports whether a node is of the right sort for a spec, whatever is inside.
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

// scalar reads a scalar as the spec's kind. Quoted numbers and the YAML 1.1 words for true and false are taken as what they
// say, as NAT does; the reverse, a number where a text belongs, is a finding.
func (w *walker) scalar(s *Spec, n *yaml.Node, ptr string) (any, bool) {
	var raw any
	if n.Decode(&raw) != nil || strings.HasPrefix(n.Tag, "!!binary") {
		return w.wrongType(s, n, ptr)
	}
	text := strings.TrimSpace(n.Value)
	switch s.Kind {
	case String:
		if _, is := raw.(string); !is && n.ShortTag() != "!!timestamp" && !w.doc.origins[n].rewrote {
			return w.wrongType(s, n, ptr)
		}
		return w.text(s, n, ptr)
	case Bool:
		if b, ok := boolOf(raw, text); ok {
			return b, true
		}
	case Int:
		return w.integer(s, n, ptr, raw, text)
	case Float:
		if f, ok := floatOf(raw, text); ok {
			if math.IsNaN(f) || math.IsInf(f, 0) {
				w.report(n, ptr, Finding{Code: CodeNonFinite, Message: label(ptr) + " must be a finite number", Fix: "write a number"})
				return nil, false
			}
			return f, true
		}
	case Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			fix := `write a number and a unit: "10s", "5m", "1h30m"`
			if _, err := strconv.ParseFloat(text, 64); err == nil && !w.doc.origins[n].rewrote {
				fix = "add a unit: " + text + "s"
			}
			w.report(n, ptr, Finding{Code: CodeDuration, Message: fmt.Sprintf("%s is no duration: %s", label(ptr), w.shown(s, n)), Fix: fix})
			return nil, false
		}
		return d, true
	case Bytes:
		size, err := ParseSize(text)
		if err != nil {
			w.report(n, ptr, Finding{Code: CodeSize, Message: fmt.Sprintf("%s is no size: %s", label(ptr), w.shown(s, n)), Fix: `write a number and a unit: "512MiB", "1GiB"`})
			return nil, false
		}
		return size, true
	}
	return w.wrongType(s, n, ptr)
}

func (w *walker) text(s *Spec, n *yaml.Node, ptr string) (any, bool) {
	if len(s.Enum) > 0 && !contains(s.Enum, n.Value) {
		f := Finding{Code: CodeEnum, Message: fmt.Sprintf("%s can't be %s", label(ptr), w.shown(s, n)), Fix: "write one of " + quoteAll(s.Enum)}
		if f.Suggestion = Nearest(n.Value, s.Enum); f.Suggestion != "" {
			f.Fix = fmt.Sprintf("write %s; allowed: %s", f.Suggestion, quoteAll(s.Enum))
		}
		w.report(n, ptr, f)
		return nil, false
	}
	if s.Pattern != nil && !s.Pattern.MatchString(n.Value) {
		w.report(n, ptr, Finding{Code: CodePattern, Message: fmt.Sprintf("%s has the wrong form: %s", label(ptr), w.shown(s, n)),
			Fix: "write a text that matches " + s.Pattern.String()})
		return nil, false
	}
	return n.Value, w.length(s, n, ptr, utf8.RuneCountInString(n.Value))
}

func (w *walker) integer(s *Spec, n *yaml.Node, ptr string, raw any, text string) (any, bool) {
	switch v := raw.(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	case uint64:
		return w.tooBig(n, ptr)
	case float64:
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			w.report(n, ptr, Finding{Code: CodeNonFinite, Message: label(ptr) + " must be a finite number", Fix: "write a whole number"})
			return nil, false
		case v != math.Trunc(v):
			return w.wrongType(s, n, ptr)
		case math.Abs(v) >= 1<<63:
			return w.tooBig(n, ptr)
		}
		return int64(v), true
	case string:
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return i, true
		}
		if f, err := strconv.ParseFloat(text, 64); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f), true
		}
	}
	return w.wrongType(s, n, ptr)
}

func (w *walker) tooBig(n *yaml.Node, ptr string) (any, bool) {
	w.report(n, ptr, Finding{Code: CodeRange, Message: label(ptr) + " is larger than any whole number this program can hold", Fix: "write a smaller number"})
	return nil, false
}

func boolOf(raw any, text string) (value, ok bool) {
	switch v := raw.(type) {
	case bool:
		return v, true
	case int:
		return v == 1, v == 0 || v == 1
	case string:
		switch strings.ToLower(text) {
		case "true", "yes", "on", "t", "y", "1":
			return true, true
		case "false", "no", "off", "f", "n", "0":
			return false, true
		}
	}
	return false, false
}

func floatOf(raw any, text string) (float64, bool) {
	switch v := raw.(type) {
	case float64:
		return v, true
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case uint64:
		return float64(v), true
	case string:
		if strings.ContainsAny(text, "xXpP_") {
			return 0, false
		}
		f, err := strconv.ParseFloat(text, 64)
		return f, err == nil
	}
	return 0, false
}

// any turns a node into values of JSON types.
func (w *walker) any(n *yaml.Node, ptr string) (any, bool) {
	switch n.Kind {
	case yaml.MappingNode:
		return w.mapping(&Spec{Kind: Map}, n, n, ptr)
	case yaml.SequenceNode:
		return w.list(&Spec{Kind: List}, n, n, ptr)
	}
	var raw any
	if n.Decode(&raw) != nil {
		return n.Value, true
	}
	switch v := raw.(type) {
	case nil, bool, string:
		return v, true
	case int:
		return int64(v), true
	case int64, uint64:
		return v, true
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			w.report(n, ptr, Finding{Code: CodeNonFinite, Message: label(ptr) + " must be a finite number", Fix: "write a number, or a text in quotes"})
			return nil, false
		}
		return v, true
	}
	return n.Value, true
}

func (w *walker) length(s *Spec, n *yaml.Node, ptr string, size int) bool {
	unit := "entries"
	if s.Kind == String {
		unit = "characters"
	}
	var rule string
	switch {
	case s.MinLen != nil && size < *s.MinLen:
		rule = fmt.Sprintf("at least %d", *s.MinLen)
	case s.MaxLen != nil && size > *s.MaxLen:
		rule = fmt.Sprintf("at most %d", *s.MaxLen)
	default:
		return true
	}
	if s.MinLen != nil && size == 0 && *s.MinLen == 1 {
		w.report(n, ptr, Finding{Code: CodeLength, Message: label(ptr) + " is empty", Fix: "write " + s.expects()})
		return false
	}
	w.report(n, ptr, Finding{Code: CodeLength, Message: fmt.Sprintf("%s has %d %s, it must have %s", label(ptr), size, unit, rule),
		Fix: "write " + rule + " " + unit})
	return false
}

// bounds checks a number, duration or size against its range.
func (w *walker) bounds(s *Spec, n *yaml.Node, ptr string, v any) bool {
	var x float64
	switch v := v.(type) {
	case int64:
		x = float64(v)
	case float64:
		x = v
	case time.Duration:
		x = float64(v)
	case Size:
		x = float64(v)
	default:
		return true
	}
	low := s.Min != nil && (x < s.Min.Value || (s.Min.Exclusive && x == s.Min.Value))
	high := s.Max != nil && (x > s.Max.Value || (s.Max.Exclusive && x == s.Max.Value))
	if !low && !high {
		return true
	}
	rule := s.rangeText()
	fix := "write a value that is " + rule
	if d := s.defaultText(); d != "" {
		fix += " (default " + d + ")"
	} else if s.Nullable {
		fix += ", or remove the key"
	}
	w.report(n, ptr, Finding{Code: CodeRange, Message: fmt.Sprintf("%s must be %s, this is %s", label(ptr), rule, w.shown(s, n)), Fix: fix})
	return false
}

// rangeText writes a range: "at least 1", "above 0 and at most 1".
func (s *Spec) rangeText() string {
	var parts []string
	if s.Min != nil {
		parts = append(parts, map[bool]string{true: "above ", false: "at least "}[s.Min.Exclusive]+s.boundText(s.Min))
	}
	if s.Max != nil {
		parts = append(parts, map[bool]string{true: "below ", false: "at most "}[s.Max.Exclusive]+s.boundText(s.Max))
	}
	return strings.Join(parts, " and ")
}

func (s *Spec) boundText(b *Bound) string {
	switch s.Kind {
	case Duration:
		return time.Duration(b.Value).String()
	case Bytes:
		return Size(b.Value).String()
	}
	return strconv.FormatFloat(b.Value, 'f', -1, 64)
}
