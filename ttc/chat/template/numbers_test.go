package template

import "testing"

// TestIntOfOddBases converts texts with bases that Python refuses: like Jinja, the filter then reads them as floats.
func TestIntOfOddBases(t *testing.T) {
	for src, want := range map[string]string{
		"{{ '7'|int(3, []) }}":       "7",
		"{{ 'x'|int(3, []) }}":       "3",
		"{{ '7'|int(3, none) }}":     "7",
		"{{ '10'|int(3, true) }}":    "10",
		"{{ '10'|int(3, 16) }}":      "16",
		"{{ '7'|int(3, 10**30) }}":   "7",
		"{{ '7'|int(base=nosuch) }}": "7",
	} {
		t.Run(src, func(t *testing.T) {
			tmpl, err := Compile(src)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := tmpl.Render(Input{}); err != nil || got.Text != want {
				t.Errorf("got %q (%v), want %q", got.Text, err, want)
			}
		})
	}
}
