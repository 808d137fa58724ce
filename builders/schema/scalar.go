package schema

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
)

// scalar reads a scalar as the spec's kind. Quoted numbers and YAML 1.1's words for true and false are accepted, as
// in NAT. A number in place of text, however, is a finding.
func (w *walker) scalar(s *Spec, n *yaml.Node, ptr string) (any, bool) {
	var raw any
	if n.Decode(&raw) != nil || strings.HasPrefix(n.Tag, "!!binary") {
		return w.wrongType(s, n, ptr)
	}
	text := strings.TrimSpace(n.Value)
	switch s.Kind {
	case String:
		if _, is := raw.(string); !is && n.ShortTag() != "!!timestamp" && !w.rewritten(n) {
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
				return w.nonFinite(n, ptr, "write a number")
			}
			return f, true
		}
	case Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			fix := `write a number and a unit: "10s", "5m", "1h30m"`
			if _, err := strconv.ParseFloat(text, 64); err == nil && !w.rewritten(n) {
				fix = "add a unit: " + text + "s"
			}
			return w.refuse(n, ptr, codeDuration,
				fmt.Sprintf("%s is not a duration: %s", label(ptr), w.display(s, n)), fix)
		}
		return d, true
	case Bytes:
		size, err := ParseSize(text)
		if err != nil {
			return w.refuse(n, ptr, codeSize, fmt.Sprintf("%s is not a size: %s", label(ptr), w.display(s, n)),
				`write a number and a unit: "512MiB", "1GiB"`)
		}
		return size, true
	}
	return w.wrongType(s, n, ptr)
}

func (w *walker) text(s *Spec, n *yaml.Node, ptr string) (any, bool) {
	if s.typ == nil && len(s.Enum) > 0 && !slices.Contains(s.Enum, n.Value) {
		w.report(n, ptr, s.notInEnum(ptr, n.Value, w.display(s, n)))
		return nil, false
	}
	if s.Pattern != nil && !s.Pattern.MatchString(n.Value) {
		return w.refuse(n, ptr, CodePattern, fmt.Sprintf("%s has the wrong form: %s", label(ptr), w.display(s, n)),
			"write text that matches "+s.Pattern.String())
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
			return w.nonFinite(n, ptr, "write a whole number")
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
	return w.refuse(n, ptr, CodeRange, label(ptr)+" is larger than any whole number this program can hold",
		"write a smaller number")
}

// nonFinite reports NaN or an infinity where a number is expected.
func (w *walker) nonFinite(n *yaml.Node, ptr, fix string) (any, bool) {
	return w.refuse(n, ptr, CodeNonFinite, label(ptr)+" must be a finite number", fix)
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

// floatOf reads a float from a number, or from text in the usual notation.
func floatOf(raw any, text string) (float64, bool) {
	if _, isText := raw.(string); !isText {
		return number(raw)
	}
	if strings.ContainsAny(text, "xXpP_") {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

// number returns a value of any numeric type as a float.
func number(v any) (float64, bool) {
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return float64(r.Int()), true
	case r.CanUint():
		return float64(r.Uint()), true
	case r.CanFloat():
		return r.Float(), true
	}
	return 0, false
}

// any returns a node's value, built from JSON types.
func (w *walker) any(n *yaml.Node, ptr string) (any, bool) {
	switch n.Kind {
	case yaml.MappingNode:
		return w.mapping(&Spec{Kind: Map}, n, ptr)
	case yaml.SequenceNode:
		return w.list(&Spec{Kind: List}, n, n, ptr)
	}
	var raw any
	if n.Decode(&raw) != nil {
		return n.Value, true
	}
	switch v := raw.(type) {
	case nil, bool, string, int64, uint64:
		return v, true
	case int:
		return int64(v), true
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return w.nonFinite(n, ptr, "write a number, or text in quotes")
		}
		return v, true
	}
	return n.Value, true
}

// notInEnum reports that a string is not one of the allowed values.
func (s *Spec) notInEnum(ptr, text, shown string) finding.Finding {
	f := finding.Finding{
		Code:    CodeEnum,
		Message: fmt.Sprintf("%s can't be %s", label(ptr), shown),
		Fix:     "write one of " + quoteAll(s.Enum),
	}
	if f.Suggestion = finding.Nearest(text, s.Enum); f.Suggestion != "" {
		f.Fix = fmt.Sprintf("write %s; allowed: %s", f.Suggestion, quoteAll(s.Enum))
	}
	return f
}

// length checks a string, list or mapping against the limits in a JSON Schema. The validator checks the limits in tags.
func (w *walker) length(s *Spec, n *yaml.Node, ptr string, size int) bool {
	if s.typ != nil || (s.MinLen == nil || size >= *s.MinLen) && (s.MaxLen == nil || size <= *s.MaxLen) {
		return true
	}
	w.report(n, ptr, s.wrongLength(ptr, size))
	return false
}

// wrongLength reports that a string, list or mapping is too short or too long.
func (s *Spec) wrongLength(ptr string, size int) finding.Finding {
	unit := "entries"
	if s.Kind == String {
		unit = "characters"
	}
	if size == 0 && s.MinLen != nil && *s.MinLen == 1 {
		return finding.Finding{Code: codeLength, Message: label(ptr) + " is empty", Fix: "write " + s.expects()}
	}
	var rule string
	switch {
	case s.MinLen != nil && s.MaxLen != nil && *s.MinLen == *s.MaxLen:
		rule = fmt.Sprintf("exactly %d", *s.MinLen)
	case s.MinLen != nil && size < *s.MinLen:
		rule = fmt.Sprintf("at least %d", *s.MinLen)
	case s.MaxLen != nil:
		rule = fmt.Sprintf("at most %d", *s.MaxLen)
	}
	return finding.Finding{
		Code: codeLength, Message: fmt.Sprintf("%s has %d %s but must have %s", label(ptr), size, unit, rule),
		Fix: "write " + rule + " " + unit,
	}
}

// bounds checks a number, duration or size against the range of its Go type, or against the limits in a JSON Schema.
// The validator checks the limits in tags.
func (w *walker) bounds(s *Spec, n *yaml.Node, ptr string, v any) bool {
	x, ok := number(v)
	if !ok {
		return true
	}
	inRange := s.Min.satisfied(x, -1) && s.Max.satisfied(x, 1)
	if s.typ != nil {
		inRange = holds(s.typ, v)
	}
	if !inRange {
		w.report(n, ptr, s.outOfRange(ptr, w.display(s, n)))
	}
	return inRange
}

// satisfied reports whether x satisfies a bound; side is -1 for a minimum and 1 for a maximum.
func (b *Bound) satisfied(x, side float64) bool {
	return b == nil || x*side < b.Value*side || x == b.Value && !b.Exclusive
}

// holds reports whether a value fits a Go type.
func holds(t reflect.Type, v any) bool {
	zero := reflect.Zero(t)
	switch v := v.(type) {
	case int64:
		return zero.CanInt() && !zero.OverflowInt(v) || zero.CanUint() && v >= 0 && !zero.OverflowUint(uint64(v))
	case time.Duration:
		return v >= 0
	}
	return true
}

// outOfRange reports that a number, duration or size is too small or too large.
func (s *Spec) outOfRange(ptr, shown string) finding.Finding {
	rule := s.rangeText()
	fix := "write a value that is " + rule
	if d := s.DefaultText(); d != "" {
		fix += " (default " + d + ")"
	} else if s.Nullable {
		fix += ", or remove the key"
	}
	message := fmt.Sprintf("%s must be %s, got %s", label(ptr), rule, shown)
	return finding.Finding{Code: CodeRange, Message: message, Fix: fix}
}

// rangeText describes a range, as in "at least 1" or "above 0 and at most 1".
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
