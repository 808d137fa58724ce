package exec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDetail checks that whatever an error repeats of a program's output contains no value of a granted variable, and
// no control characters.
func TestDetail(t *testing.T) {
	t.Setenv("NATGO_TEST_TOKEN", "canary123")
	t.Setenv("NATGO_TEST_WORKERS", "4")
	path := filepath.Join(t.TempDir(), outputFile)
	if err := os.WriteFile(path, []byte("first\n\x1b[31mtoken canary123\x00 of 4\r\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := &Config{Env: []string{"NATGO_TEST_TOKEN", "NATGO_TEST_WORKERS"}}
	if got, want := lastLines(path, 1, c.secrets()), `token ***\u0000 of 4`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDetailHidesPartsOfValues checks a value of several lines, one that is set, and one of which only the end is in
// the part that is read.
func TestDetailHidesPartsOfValues(t *testing.T) {
	key := "first line of the key\nsecond line of the key\nthird line of the key"
	t.Setenv("NATGO_TEST_KEY", key)
	c := &Config{Env: []string{"NATGO_TEST_KEY"}, Set: map[string]string{"OPENAI_KEY": "plainvalue", "MODE": "fast"}}
	for name, text := range map[string]string{
		"whole":        "x\n" + key + "\n",
		"cut":          key + strings.Repeat(".", tailBytes-30) + "\n",
		"one line":     "bad: second line of the key!\n",
		"set":          "OPENAI says plainvalue is wrong, mode fast\n",
		"by its shape": "--token hunter2x9\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), outputFile)
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			got := lastLines(path, 5, c.secrets())
			for _, part := range []string{"line of the key", "third line", "of the key", "plainvalue", "hunter2x9"} {
				if strings.Contains(got, part) {
					t.Errorf("%s: %q is in %.300q", name, part, got)
				}
			}
			if name == "set" && !strings.Contains(got, "mode fast") {
				t.Errorf("%q hides what is not a secret", got)
			}
		})
	}
}
