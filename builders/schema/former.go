package schema

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/yamldoc"
)

// Former is a setting of an earlier version, with one of its values and that value's current form.
type Former struct{ Key, Value, Now string }

func (f Former) String() string { return f.Key + "=" + f.Value + ":" + f.Now }

// formers reads a list of "key=value:now".
func formers(list []string) (out []Former, err error) {
	for _, text := range list {
		old, now, ok := strings.Cut(text, ":")
		key, value, also := strings.Cut(old, "=")
		if !ok || !also || key == "" || now == "" {
			return nil, fmt.Errorf("was %q is not key=value:now", text)
		}
		out = append(out, Former{key, value, now})
	}
	return out, nil
}

// Formerly returns the field that has replaced the setting with the given name, or nil if none has.
func (s *Spec) Formerly(key string) *Field {
	for i := range s.Fields {
		if slices.ContainsFunc(s.Fields[i].Former, func(was Former) bool { return was.Key == key }) {
			return &s.Fields[i]
		}
	}
	return nil
}

// former reads a setting that field f replaced and reports its current form. It returns the value that f gets, or "" if
// the setting has no effect. rank is the setting's index in f.Former, of which the lowest takes precedence.
func (w *walker) former(f *Field, key, val *yaml.Node, ptr string) (now string, rank int) {
	written, _ := w.doc.Written(val)
	found := finding.Finding{
		Code: codeFormer, Severity: finding.Warning, Suggestion: f.Name,
		Message: fmt.Sprintf("%s has been replaced by %s, and %[1]s: %[3]s has no effect", key.Value, f.Name, written),
		Fix:     "remove it",
	}
	rank = len(f.Former)
	for i, was := range f.Former {
		if was.Key != key.Value {
			continue
		}
		if val.Kind == yaml.ScalarNode && val.Value == was.Value {
			now, rank = was.Now, i
			found.Message = fmt.Sprintf("%s: %s is now %s: %s", key.Value, was.Value, f.Name, now)
			found.Fix = fmt.Sprintf("write `%s: %s` instead", f.Name, now)
		}
	}
	if now == "" && (val.Kind != yaml.ScalarNode || val.ShortTag() != "!!bool") {
		found.Severity, found.Message = finding.Error, fmt.Sprintf("%s has been replaced by %s", key.Value, f.Name)
		found.Fix = "write " + f.Name + ": " + f.Spec.expects()
	}
	w.report(key, ptr+"/"+yamldoc.Escape(key.Value), found)
	return now, rank
}

// formerly applies settings that others have replaced. Setting both the old and the new form is an error.
func (w *walker) formerly(n *yaml.Node, ptr string, s *Spec, byField map[string]*yaml.Node, out map[string]any) {
	ranks := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		f := s.Formerly(key.Value)
		if f == nil || s.Field(key.Value) != nil {
			continue
		}
		if first := byField[f.Name]; first != nil {
			w.twice(f, first, key, ptr+"/"+yamldoc.Escape(key.Value))
			continue
		}
		now, rank := w.former(f, key, val, ptr)
		if before, set := ranks[f.Name]; now != "" && (!set || rank < before) {
			out[f.Name], ranks[f.Name] = now, rank
		}
	}
}
