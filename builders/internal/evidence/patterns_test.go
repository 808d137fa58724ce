package evidence

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// uses matches the name of a pattern where the code or another pattern uses it.
var uses = regexp.MustCompile(`(?:pattern\(|matches\([^\n]*?, )"(\w+)"\)|\{\{(\w+)\}\}`)

// TestPatterns checks that each name used in the code has a pattern that compiles, and that each pattern is used.
func TestPatterns(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, "patterns.txt")
	asked := map[string]bool{}
	for _, name := range documentMarks {
		asked[name] = true
		if patterns()[name] == "" {
			t.Errorf("no pattern %s", name)
		}
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range uses.FindAllStringSubmatch(string(text), -1) {
			name := m[1] + m[2]
			asked[name] = true
			expr := patterns()[name]
			if expr == "" {
				t.Errorf("%s: no pattern %s", f, name)
			}
			if _, err := regexp.Compile(expr); err != nil || strings.Contains(expr, "{{") {
				t.Errorf("%s: %v; %s", name, err, expr)
			}
		}
	}
	for name := range patterns() {
		if name != "" && !strings.HasPrefix(name, "#") && !asked[name] {
			t.Errorf("%s is not used", name)
		}
	}
}
