package columns

import "testing"

func TestFit(t *testing.T) {
	for _, c := range []struct {
		line    string
		columns int
		want    string
	}{
		{"short", 10, "short"},
		{"exactly", 7, "exactly"},
		{"longer than that", 7, "longer…"},
		{"世界世界", 8, "世界世界"},
		{"世界世界", 7, "世界世…"},
		{"世界世界", 6, "世界…"},
		{"👩‍👧👩‍👧", 3, "👩‍👧…"},
		{"anything", 0, ""},
	} {
		t.Run(c.line, func(t *testing.T) {
			if got := Fit(c.line, c.columns); got != c.want || Width(got) > c.columns {
				t.Errorf("%q in %d columns: got %q, want %q", c.line, c.columns, got, c.want)
			}
		})
	}
	if got := Pad("世", 4) + "|"; got != "世  |" {
		t.Errorf("%q", got)
	}
}
