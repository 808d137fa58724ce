package evidence

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPatterns checks that each name that the code asks for has a pattern that compiles, and that each pattern is asked
// for.
func TestPatterns(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]bool{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`pattern\("(\w+)"\)`).FindAllStringSubmatch(string(text), -1) {
			asked[m[1]] = true
			expr := patterns()[m[1]]
			if expr == "" {
				t.Errorf("%s: no pattern %s", f, m[1])
			}
			if _, err := regexp.Compile(expr); err != nil {
				t.Errorf("%s: %v", m[1], err)
			}
		}
	}
	for name := range patterns() {
		if name != "" && !strings.HasPrefix(name, "#") && !asked[name] {
			t.Errorf("%s is not used", name)
		}
	}
}
