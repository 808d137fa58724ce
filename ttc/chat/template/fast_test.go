package template

import "testing"

// TestShortcuts: anything compiled to something quicker than its parts gives the same result as Jinja, at the edges
// where it could differ.
func TestShortcuts(t *testing.T) {
	for src, want := range map[string]string{
		"{{ 1 if 'a'|length > 0 else 2 }}":                                          "1",
		"{{ 1 if ''|length > 0 else 2 }}":                                           "2",
		"{{ ''|length == 0 }} {{ []|length == 0 }}":                                 "True True",
		"{% if x|length > 0 %}y{% else %}n{% endif %}":                              "n",
		"{{ range(3)|length > 0 }}{{ {}|length > 0 }}":                              "TrueFalse",
		"{% set a = [1, 2, 3] %}{{ a[0] }}{{ a[-1] }}{{ a[1:] }}{{ a[7] }}":         "13[2, 3]",
		"{{ 'abc'[1] }}{{ {0: 5}[0] }}{{ [1, 2, 3][1:][1:][0] }}{{ (1, 2)[:1] }}":   "b53(1,)",
		"{{ 'a' + 'b' + 'c' }}{{ 'x' ~ 'y' }}{{ 1 + 2 }}{{ 'a' }}{{ 'b' }}c":        "abcxy3abc",
		"{% set d = {'items': 1, 'k': {'n': [4]}} %}{{ d['items'] }}{{ d.k.n[0] }}": "14",
		"{% set d = {'items': 1} %}{{ d.items is mapping }}{{ d.k is defined }}":    "FalseFalse",
		"{{ 1 < 2 }}{{ 2 <= 2 }}{{ 3 > 4 }}{{ 4 >= 4 }}{{ 1 != 2 }}":                "TrueTrueFalseTrueTrue",
		"{% set m = {'a': 'x', 'b': ['y', 'z']} %}" +
			"{{ 1 if m.a == 'w' or m.a == 'x' or m.a == 'y' else 2 }}" +
			"{{ 1 if m.a != 'w' and m.a != 'x' else 2 }}{{ 1 if m.a != 'w' and m.a != 'y' else 2 }}" +
			"{{ 1 if m.a == 'y' or m.b == 'x' else 2 }}{{ 1 if m.b[0] == 'x' or m.b[1] == 'z' else 2 }}" +
			"{{ 1 if m.a == 'x' and m.a == 'y' else 2 }}{{ 1 if m.a != 'x' or m.a == 'x' else 2 }}" +
			"{{ 1 if m.a == 'v' or m.a == 'w' and m.a == 'x' else 2 }}{{ 1 if m.c == 'v' or m.c == 'w' else 2 }}" +
			"{{ 1 if m.a != 'x' and (m.a == 'x' or m.a == 'y') else 2 }}" +
			"{{ 1 if m.a != 'x' or m.a == 'y' else 2 }}{{ 1 if m.a == 'x' and m.a != 'y' else 2 }}": "121212122221",
		"{% set m = {'items': 'x'} %}{{ 1 if m.items == 'x' or m['items'] == 'y' else 2 }}" +
			"{{ 1 if m.items == 'y' or m['items'] == 'x' else 2 }}": "21",
		"{% set m = {'a': 'x'} %}{% set n = {'a': 'y'} %}{{ 1 if m.a == 'y' or n.a == 'z' or n.a == 'x' else 2 }}": "2",
	} {
		t.Run(src, func(t *testing.T) {
			tmpl, err := Compile(src)
			if err != nil {
				t.Fatalf("%s: %v", src, err)
			}
			if got, err := tmpl.Render(Input{}); err != nil || got.Text != want {
				t.Errorf("%s: got %q (%v), want %q", src, got.Text, err, want)
			}
		})
	}
}
