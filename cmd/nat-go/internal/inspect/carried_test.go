package inspect_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
)

const (
	question = `{"role": "user", "content": "q"}`
	answer   = `{"role": "assistant", "content": "a"}`
	context0 = `{"role": "assistant", "content": "not sampled", "weight": 0}`
)

func conversation(messages ...string) string {
	return `{"messages": [` + strings.Join(messages, ", ") + "]}\n"
}

func looked(t *testing.T, text string) *inspect.Report {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := inspect.Look(context.Background(), inspect.Options{Paths: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestLosses checks that what the chosen format has no place for is reported before a run, turn by turn, with the
// format that has a place for it and what that costs.
func TestLosses(t *testing.T) {
	r := looked(t, conversation(question, answer)+conversation(question, answer, question, context0, question, answer))
	if diff := cmp.Diff([]string{"trl"}, r.Choice.Formats); diff != "" {
		t.Error(diff)
	}
	if got := r.Losses(); got != nil {
		t.Errorf("the format that was chosen loses: %q", got)
	}
	r.Choice.Formats = []string{"messages"}
	want := []string{"messages carries 2 of 3 turns: its trainers train every turn, so a row ends before the first that is " +
		"context only; trl carries 3, in 1.3 times the text of the conversations (dataset.formats)"}
	if diff := cmp.Diff(want, r.Losses()); diff != "" {
		t.Error(diff)
	}
}

// TestDefaultFormat: the format that carries most turns is chosen, unless its rows repeat too much.
func TestDefaultFormat(t *testing.T) {
	long := []string{question, answer, question, context0}
	for range 10 {
		long = append(long, question, answer)
	}
	for name, c := range map[string]struct{ text, want string }{
		"nothing masked": {conversation(question, answer, question, answer), "messages"},
		"a masked turn":  {conversation(question, answer, question, context0, question, answer), "trl"},
		"long":           {conversation(long...), "messages"},
		"long, and messages would have nothing": {
			conversation(slices.Concat([]string{question, context0}, long)...), "trl",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := looked(t, c.text)
			if diff := cmp.Diff([]string{c.want}, r.Choice.Formats); diff != "" {
				t.Error(diff)
			}
			if name == "long" && !strings.Contains(r.Line(), "trl carries 11, in ") {
				t.Errorf("the line doesn't say what is lost: %s", r.Line())
			}
		})
	}
}
