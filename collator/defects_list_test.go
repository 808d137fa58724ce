package collator

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDefectsHaveTests checks that each defect on the page has a test named after it, here or, if it concerns the
// trainer, in examples/composite-trainer, and that each such test has a line on the page.
func TestDefectsHaveTests(t *testing.T) {
	named := regexp.MustCompile(`(?m)^func TestD(\d+)[A-Z]|^    def test_d(\d+)_`)
	have := map[string]bool{}
	for _, dir := range []string{".", "../examples/composite-trainer", "../builders/sdpo"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") && filepath.Base(path) != "test_trainer.py" {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range named.FindAllStringSubmatch(string(text), -1) {
				have[m[1]+m[2]] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile("DEFECTS.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| D(\d+) \|`).FindAllStringSubmatch(string(page), -1) {
		listed[m[1]] = true
	}
	if !maps.Equal(have, listed) {
		t.Errorf("there are tests of %v, and the page has %v", slices.Sorted(maps.Keys(have)),
			slices.Sorted(maps.Keys(listed)))
	}
}
