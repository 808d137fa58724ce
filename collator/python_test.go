//go:build tokenizers

package collator

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// needPython skips the test where python3 lacks the modules ("jinja2, tokenizers"), or fails it where NATGO_REQUIRE names
// python. unchecked says what is not checked then.
func needPython(t *testing.T, modules, unchecked string) {
	t.Helper()
	if err := exec.Command("python3", "-c", "import "+modules).Run(); err != nil {
		if slices.Contains(strings.Split(os.Getenv("NATGO_REQUIRE"), ","), "python") {
			t.Fatalf("python3 with %s is required (NATGO_REQUIRE): %v", modules, err)
		}
		t.Skipf("SKIPPED: no python3 with %s, so %s", modules, unchecked)
	}
}

// askPython runs a script of testdata on one thread, with a question as JSON on standard input and an answer on standard output.
func askPython(t testing.TB, python, script string, question, answer any) {
	t.Helper()
	data, err := json.Marshal(question)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-B", "testdata/"+script)
	cmd.Env = append(os.Environ(), "TOKENIZERS_PARALLELISM=false", "RAYON_NUM_THREADS=1")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(data), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, answer); err != nil {
		t.Fatal(err)
	}
}
