package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nat-go/nat-go/internal/terminal"
)

// hostile has every kind of text that controls a terminal: colours, the title, the cursor, the writing direction, and
// bytes that aren't UTF-8.
const hostile = "h\x1b[31m\x1b]0;t\x07\r\x08\x7f\u009b2J\u202e\u2066\u200b\u2028\xff\xc3"

// leaves returns the commands that do something.
func leaves(c *cobra.Command) (all []*cobra.Command) {
	for _, sub := range c.Commands() {
		all = append(all, leaves(sub)...)
	}
	if c.Runnable() && !c.HasSubCommands() {
		all = append(all, c)
	}
	return all
}

// TestNoCommandControlsTheTerminal runs every command with hostile text in each argument, in each flag, and in the name
// and content of each file that it can be given.
func TestNoCommandControlsTheTerminal(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	files := map[string]string{
		"f" + strings.ToValidUTF8(hostile, "") + ".yml": "a\x1b[31m: 1\n",
		"b.yml":     "trajectory_builders: {\"x\u202e\": {_type: \"t\u202e\\e[2J\", \"k\\e[2J\": \"v\\a\"}}\nfinetuning: {enabled: true, trainer: \"\\e[2J\"}\n\"\\e[2J\": 1\n",
		"c.jsonl":   "{\"id\": \"\\u001b[2J\", \"prompt\": \"\\u202e\", \"output\": \"\\u009b\", \"score\": 1}\n{\x1b[31m\n",
		"o.json":    "[{\"id\": \"\\u001b[2J\", \"question\": \"\\u202e\", \"intermediate_steps\": [{\"payload\": {\"event_type\": \"\\u001b[2J\"}}]}]",
		"t.jinja":   "{{ raise_exception(messages[0].content) }}",
		"m.jsonl":   "{\"messages\": [{\"role\": \"user\", \"content\": \"\\u001b[2J\\u202e\"}]}\n",
		"bad.jinja": "{% \x1b[31m %}",
	}
	run := filepath.Join("out", "r\u202e\x1b[2J")
	if err := os.MkdirAll(run, 0o755); err != nil {
		t.Fatal(err)
	}
	files[filepath.Join(run, "manifest.json")] = `{"run_id": "\u001b[2J", "status": "\u202e", "nat_go": "\u009b"}`
	files[filepath.Join(run, "job.json")] = `{"version": 1, "run_id": "\u001b[2J", "adapter": "\u202e", "phase": "\u009b", "job": {"job_id": "\u0007"}, "status": {"status": "\u001b[2J", "message": "\u202e"}}`
	var names []string
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	values := append([]string{hostile, run}, names...)
	calls := 0
	call := func(args []string) {
		calls++
		var out, errs bytes.Buffer
		Program{}.Main(args, strings.NewReader(files["m.jsonl"]+hostile+"\n"), &out, &errs)
		for where, b := range map[string][]byte{"standard output": out.Bytes(), "standard error": errs.Bytes()} {
			if at := controlAt(b); at >= 0 {
				t.Errorf("nat-go %q: %s has %q", args, where, b[max(0, at-60):min(len(b), at+20)])
			}
		}
	}
	call([]string{hostile})
	call([]string{"--" + hostile})
	for _, c := range leaves(newRootCmd(Program{})) {
		path := strings.Fields(c.CommandPath())[1:]
		// These either accept no text or run for minutes.
		if c.Hidden || slices.Contains([]string{"bench", "completion", "help", "kernels"}, c.Name()) ||
			path[0] == "completion" {
			continue
		}
		call(append(slices.Clone(path), "--"+hostile))
		call(append(slices.Clone(path), hostile, hostile, hostile))
		for _, v := range values {
			call(append(slices.Clone(path), v))
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" || f.Name == "help" {
				return
			}
			for _, v := range append([]string{hostile, run + "=" + hostile}, names...) {
				call(append(slices.Clone(path), "--"+f.Name+"="+v))
				call(append(slices.Clone(path), "--"+f.Name+"="+v, run))
			}
		})
	}
	for _, args := range [][]string{
		{"validate", "b.yml", "--report", "github"},
		{"validate", "b.yml", "--report", "sarif"},
		{"validate", "b.yml", "--report", "json"},
		{"finetune", "run", "--config-file", "b.yml", "--from", "o.json"},
		{"finetune", "run", "--from", "c.jsonl", "--builder", "dpo", "--dry-run", "--json"},
		{"finetune", "run", "--from", "c.jsonl", "--builder", hostile},
		{"finetune", "run", "--from", "c.jsonl", "--builder", "dpo", "--run-id", hostile},
		{"finetune", "run", "--config-file", "b.yml", "-o", hostile + "=" + hostile},
		{"finetune", "status", run, "--json"},
		{"finetune", "list", "--json"},
		{"chat", "render", "--template", "t.jinja", "--input", "m.jsonl"},
		{"chat", "render", "--template", "bad.jinja", "--input", "m.jsonl"},
		{"chat", "mask", "--template", "t.jinja", "--input", "m.jsonl"},
		{"init", "--from", "c.jsonl"},
		{"init", "--from", "o.json"},
	} {
		call(args)
	}
	if calls < 500 {
		t.Errorf("only %d calls", calls)
	}
	t.Logf("%d calls", calls)
}

// controlAt returns where a text moves the cursor, changes colours or direction, or hides something, or -1 if nowhere.
func controlAt(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 || r != '\n' && r != '\t' && (unicode.IsControl(r) || !terminal.Safe(r)) {
			return i
		}
		i += n
	}
	return -1
}
