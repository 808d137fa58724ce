package python_test

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestExtrasAreTheSame: what `pip install -e` of a checkout brings is what the wheel brings.
func TestExtrasAreTheSame(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var checkout, wheel []string
	lines := regexp.MustCompile(`(?m)^(\w+) = \[(".*")\]$`)
	for _, line := range lines.FindAllStringSubmatch(read("pyproject.toml"), -1) {
		for _, p := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(line[2], -1) {
			checkout = append(checkout, line[1]+": "+p[1])
		}
	}
	requires := regexp.MustCompile(`(?m)^Requires-Dist: (.*); extra == "(\w+)"$`)
	for _, m := range requires.FindAllStringSubmatch(read("../../cmd/dist/METADATA"), -1) {
		wheel = append(wheel, m[2]+": "+m[1])
	}
	checkout = slices.DeleteFunc(checkout, func(s string) bool { // other lists of the same form
		return !regexp.MustCompile(`^(numpy|torch|datasets|trl|builder): `).MatchString(s)
	})
	slices.Sort(checkout)
	slices.Sort(wheel)
	if len(wheel) < 5 || !slices.Equal(checkout, wheel) {
		t.Errorf("pyproject.toml has %q, the wheel %q", checkout, wheel)
	}
}
