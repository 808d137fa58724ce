package schema

import (
	"testing"

	"gopkg.in/yaml.v3"
)

// TestDefaultsAreYAML checks that defaults read without a parser equal the parser's result.
func TestDefaultsAreYAML(t *testing.T) {
	for _, text := range []string{
		"0", "12", "0.5", "1.", ".5", "1e5", "0x1f", "010", "true", "false", "yes", "null", "word", "10s", "2.5m", ".inf",
		".nan", ".", "a.b", "-1", "5e-5", "64MiB", "[a]", "{}", "~", "'1'", "a b",
	} {
		got, err := defaultNode(text, Int)
		if err != nil {
			t.Fatal(err)
		}
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		if want := doc.Content[0]; got.Kind != want.Kind || got.Tag != want.Tag || got.Value != want.Value {
			t.Errorf("%s: got %s %q, want %s %q", text, got.Tag, got.Value, want.Tag, want.Value)
		}
	}
}
