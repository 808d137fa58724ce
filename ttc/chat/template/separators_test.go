package template

import "testing"

// TestSeparators checks the separators of tojson, with which Kimi K2's template shows tools.
func TestSeparators(t *testing.T) {
	for src, want := range map[string]string{
		"{{ d|tojson(separators=(',', ':')) }}":           `{"a":[1,2],"b":{}}`,
		"{{ d|tojson(false, none, [',', ':']) }}":         `{"a":[1,2],"b":{}}`,
		"{{ d|tojson(separators=('', '')) }}":             `{"a"[12]"b"{}}`,
		"{{ d|tojson(indent=1, separators=(';', '=')) }}": "{\n \"a\"=[\n  1;\n  2\n ];\n \"b\"={}\n}",
		"{{ d|tojson(separators=none) }}":                 `{"a": [1, 2], "b": {}}`,
		"{{ 'x'|tojson(separators=(1, 2)) }}":             `"x"`,
	} {
		t.Run(src, func(t *testing.T) {
			tmpl, err := Compile("{% set d = {'a': [1, 2], 'b': {}} %}" + src)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := tmpl.Render(Input{}); err != nil || got.Text != want {
				t.Errorf("got %q (%v), want %q", got.Text, err, want)
			}
		})
	}
}
