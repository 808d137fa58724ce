package collator

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDefectsHaveTests: each known defect of the reference collator and trainer, D1 to D28, has a test of its name, here or,
// where it is the trainer's, in examples/composite-trainer.
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
	for d := 1; d <= 28; d++ {
		if !have[fmt.Sprint(d)] {
			t.Errorf("no test is named for D%d", d)
		}
	}
}
