package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// nats are rows as NAT writes them: no rows.jsonl, no final newline. One prompt is on both sides.
const (
	natTraining = `{"prompt": "Your move?", "chosen_response": "the centre", "rejected_response": "a corner"}
{"prompt": "And now?", "chosen_response": "a fork", "rejected_response": "a side"}`
	natValidation = `{"prompt": "Your move?", "chosen_response": "the middle", "rejected_response": "a side"}`
)

func natFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"training_file.jsonl":   natTraining,
		"validation_file.jsonl": natValidation,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func command(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Program{}.Main(args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// TestRowFiles checks that every command that looks at rows also accepts a file of rows.
func TestRowFiles(t *testing.T) {
	file := filepath.Join(natFolder(t), "training_file.jsonl")
	for _, args := range [][]string{{"show", file}, {"stats", file}, {"verify", file}} {
		if code, stdout, stderr := command(append([]string{"dataset"}, args...)...); code != 0 {
			t.Errorf("%v: exit %d: %s%s", args, code, stdout, stderr)
		}
	}
	code, _, stderr := command("dataset", "convert", file, "--format", "trl")
	if code != 2 || !strings.Contains(stderr, "not a run's folder") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	code, _, stderr = command("dataset", "show", file, "--dropped", "tye")
	if code != 2 || !strings.Contains(stderr, "did you mean tie?") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

func TestDatasetCommands(t *testing.T) {
	dir := natFolder(t)
	file := filepath.Join(dir, "training_file.jsonl")
	base := filepath.Base(dir)
	for _, c := range []struct {
		args []string
		code int
		want string // in the output, or the error
	}{
		{[]string{"dataset", "verify", dir}, 1, base + "/validation_file.jsonl:1: error NG5004: " + base + "/training_file.jsonl:1 has the same prompt"},
		{[]string{"dataset", "verify", file}, 0, "sound\n"},
		{[]string{"dataset", "verify", filepath.Join(dir, "nothing")}, 2, "cannot find"},
		{[]string{"dataset", "stats", dir}, 0, "on both sides of the split: 1 prompt, 0 records, 0 examples"},
		{[]string{"dataset", "show", dir}, 0, "{+the centre+}"},
		{[]string{"dataset", "show", dir, "--row", "training_file.jsonl:2"}, 0, "[-side-]"},
		{[]string{"dataset", "show", dir, "--row", "training_file.jsonl:3"}, 1, "no row 3"},
		{[]string{"dataset", "show", dir, "--row", "training_file.jsonl"}, 1, "invalid row"},
		{[]string{"dataset", "show", dir, "--row", "x.jsonl:1"}, 1, "no file"},
		{[]string{"dataset", "show", dir, "--split", "test"}, 2, "train or validation"},
		{[]string{"dataset", "convert", dir, "--format", "trl"}, 2, "not a run's folder"},
		{[]string{"dataset", "convert", dir}, 2, "format"},
		{[]string{"formats"}, 0, "customizer  for NeMo Customizer v1; carries preference"},
		{[]string{"explain", "tie"}, 0, "What to do:"},
		{[]string{"explain"}, 0, "NG5001"},
		{[]string{"explain", "tye"}, 2, "did you mean tie?"},
	} {
		t.Run(c.want, func(t *testing.T) {
			code, out, errs := command(c.args...)
			if code != c.code || !strings.Contains(out+errs, c.want) {
				t.Errorf("%v: exit %d, want %d and %q\n%s%s", c.args, code, c.code, c.want, out, errs)
			}
		})
	}
}

func TestDatasetCommandsInJSON(t *testing.T) {
	dir := natFolder(t)
	for _, c := range []struct {
		args []string
		key  string
	}{
		{[]string{"dataset", "verify", dir, "--json"}, "findings"},
		{[]string{"dataset", "stats", dir, "--json"}, "stats"},
		{[]string{"dataset", "show", dir, "--json"}, "records"},
		{[]string{"explain", "--json"}, "codes"},
		{[]string{"formats", "--json"}, "formats"},
	} {
		t.Run(c.key, func(t *testing.T) {
			_, out, errs := command(c.args...)
			var got map[string]any
			if err := json.Unmarshal([]byte(out), &got); err != nil || got[c.key] == nil || errs != "" {
				t.Errorf("%v: %v\n%s%s", c.args, err, out, errs)
			}
		})
	}
}

func TestDatasetShowMistakes(t *testing.T) {
	for want, args := range map[string][]string{
		"cannot find nowhere":        {"nowhere", "--site", "0"},
		"cannot find elsewhere":      {"elsewhere", "--tokens", "0"},
		"[site tokens] were all set": {"nowhere", "--tokens", "0", "--site", "0"},
	} {
		t.Run(want, func(t *testing.T) {
			if code, _, stderr := command(append([]string{"dataset", "show"}, args...)...); code != 2 ||
				!strings.Contains(stderr, want) {
				t.Errorf("%v: exit code %d, %s", args, code, stderr)
			}
		})
	}
}
