package inspect

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
)

// checked returns the findings about a configuration: severity, place, message and fix. In the configuration, IN is the
// path of an input with the given text.
func checked(t *testing.T, input, text string) (got []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(path, []byte(input), 0o600); err != nil {
		t.Fatal(err)
	}
	text = strings.ReplaceAll(text, "IN", path)
	loaded, found := config.Parse("c.yml", []byte(text), config.Options{Types: builtin.Types()})
	if loaded == nil || finding.Failed(found) {
		t.Fatal(found)
	}
	for _, f := range Check(context.Background(), loaded) {
		got = append(got, strings.ReplaceAll(string(f.Severity)+" "+f.Pointer+": "+f.Message+"; "+f.Fix, path, "IN"))
	}
	return got
}

const (
	candidatesOf = "sources: {s: {_type: candidates, path: IN}}\ntrajectory_builders: {x: {_type: dpo_traj_builder}}\n" +
		"finetuning: {trajectory_builder: x}\n"
	tracesOf = "sources: {s: {_type: traces, path: IN}}\ntrajectory_builders: {x: {_type: sft_traj_builder}}\n" +
		"finetuning: {trajectory_builder: x}\ndataset: {formats: [customizer, messages]}\n"
)

// many returns what format makes of many numbers: more entries than are read.
func many(format string) string {
	var b strings.Builder
	for i := range 200 {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestContent checks what is reported of the beginning of an input. What goes wrong beyond it is left to the run.
func TestContent(t *testing.T) {
	pair := `{"prompt": "p", "output": "x", "score": 1} {"prompt": "p", "output": "y", "score": 0} `
	calls := `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": null, "tool_calls":` +
		` [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},` +
		` {"role": "tool", "tool_call_id": "c", "content": "r"}, {"role": "assistant", "content": "a"}]}`
	picture := `{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]},` +
		` {"role": "assistant", "content": "a"}]}`
	for name, c := range map[string]struct {
		input, config string
		want          []string // parts of the findings, in order
	}{
		"sound":                  {pair, candidatesOf, nil},
		"a broken end":           {many(`{"prompt": "p%d", "output": "x", "score": 1} {"prompt": "p%[1]d", "output": "y", "score": 0} `) + "{", candidatesOf, nil},
		"another key":            {strings.ReplaceAll(pair, "output", "reply"), candidatesOf, []string{"error /sources/s/path: nothing at the beginning of the input \"IN\" can be used as candidates: 2 no_output (no_output: output is null or missing; the keys are: prompt, reply, score); write output_key: reply"}},
		"broken":                 {`{"prompt": "p", `, candidatesOf, []string{"can't be read as candidates: line 1: the input ends inside an object"}},
		"an unusable score":      {pair + `{"prompt": "p", "output": "z", "score": "good"}`, candidatesOf, []string{"warning /sources/s/path: part of the beginning of the input \"IN\" would be omitted: 1 bad_score"}},
		"nothing to compare":     {`{"prompt": "p", "output": "x", "score": 1}`, candidatesOf, []string{"error /trajectory_builders/x/_type: dpo_traj_builder makes no record from sources.s (1 example): 1 single_candidate; write _type: sft_traj_builder, which makes 1 record from the same examples"}},
		"nothing to compare yet": {many(`{"prompt": "p%d", "output": "x", "score": 1} `), candidatesOf, []string{"warning /trajectory_builders/x/_type: dpo_traj_builder makes no record from sources.s (beginning, 100 examples)"}},
		"a picture":              {picture, tracesOf, []string{"warning /dataset/formats/0: in the part of the input that was read, customizer carries 0 of 1 records: a message of role user has a part of type \"image_url\"; remove the format", "/dataset/formats/1"}},
		"calls":                  {calls, tracesOf, nil},
		"a secret":               {pair + `{"prompt": "p", "output": "z", "score": "sk-ant-api03-` + strings.Repeat("a1B2", 24) + `"}`, candidatesOf, []string{"1 bad_score"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := checked(t, c.input, c.config)
			if len(got) != len(c.want) {
				t.Errorf("findings:\n%s\nwant %d", strings.Join(got, "\n"), len(c.want))
			}
			all := strings.Join(got, "\n")
			for _, part := range c.want {
				if !strings.Contains(all, part) {
					t.Errorf("%q is not in\n%s", part, all)
				}
			}
			if strings.Contains(all, "a1B2a1B2") {
				t.Errorf("a secret is shown: %s", all)
			}
		})
	}
}

// TestContentLeavesInputsAlone: validate changes nothing, and waits for no pipe.
func TestContentLeavesInputsAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "in.jsonl")
	if err := os.WriteFile(path, []byte(`{"prompt": "p", "output": "x", "score": 1}`), 0o400); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe.jsonl")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	state := func() (all []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, info.Name()+info.Mode().String()+info.ModTime().Format(time.RFC3339Nano))
		}
		return all
	}
	before := state()
	text := "sources: {s: {_type: candidates, path: [" + path + ", " + pipe + ", s3://bucket/x.jsonl, '-']}}\n"
	loaded, _ := config.Parse("c.yml", []byte(text), config.Options{Types: builtin.Types()})
	if found := Check(context.Background(), loaded); len(found) > 0 {
		t.Error(found)
	}
	if diff := cmp.Diff(before, state()); diff != "" {
		t.Error(diff)
	}
}
