//go:build tokenizers

package collator

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
)

// askPython runs a script from testdata on one thread, passing a question as JSON on standard input and reading the
// answer from standard output.
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
