package traces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// TestShapes: what is read from entries in other tools' shapes, as "role: text" for each message.
func TestShapes(t *testing.T) {
	split := func(c *Config) { c.Transcripts = "split" }
	for name, c := range map[string]struct {
		text string
		set  func(*Config)
		want []string
	}{
		"Anthropic's blocks": {
			text: `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": [
				{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "So"},
				{"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}}]},
				{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "no", "is_error": true},
				{"type": "text", "text": "go on"}]}]}`,
			want: []string{"user: q", `assistant: So (hm) f({"a": 1})`, "tool: no failed", "user: go on"},
		},
		"Hermes' tags in ShareGPT": {
			text: `{"messages": [{"from": "human", "value": "q"}, {"from": "gpt", "weight": 1, "value":
				"So\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n<tool_call>{\"name\": \"g\"}</tool_call>"},
				{"from": "tool", "value": "<tool_response>x</tool_response>\n<tool_response>y</tool_response>"},
				{"from": "gpt", "value": "<tool_call>{</tool_call>"}, {"from": "gpt", "value": "<tool_call>{}</tool_call> a"},
				{"from": "human", "value": "<tool_call>{}</tool_call>"}]}`,
			want: []string{
				"user: q", `assistant: So f({"a": 1}) g()`, "tool: x", "tool: y", "assistant: <tool_call>{</tool_call>",
				"assistant: <tool_call>{}</tool_call> a", "user: <tool_call>{}</tool_call>",
			},
		},
		"Google's parts": {
			text: `{"systemInstruction": {"parts": [{"text": "s"}]}, "messages": [
				{"role": "user", "parts": [{"text": "q"}]}, {"role": "model", "parts": [{"text": "a"}, {"text": "b"}]}]}`,
			want: []string{"system: s", "user: q", "assistant: ab"},
		},
		"texts said in turn": {
			text: `{"messages": ["q", "a", "r"]}`,
			want: []string{"user: q", "assistant: a", "user: r"},
		},
		"speakers": {
			text: `{"messages": [{"speaker": "User", "utterance": "q"}, {"sender": "bot", "text": "a"}]}`,
			want: []string{"user: q", "assistant: a"},
		},
		"a role and a text": {
			text: `{"messages": [{"role": "USER", "text": "q"}, {"role": "model", "text": "a"}]}`,
			want: []string{"user: q", "assistant: a"},
		},
		"roles and contents as named": {
			text: `{"messages": [{"by": "customer", "role": "x", "words": "q"}, {"by": "agent", "words": "a", "content": 3}]}`,
			set:  func(c *Config) { c.RoleKey, c.ContentKey = "by", "words" },
			want: []string{"user: q", "assistant: a"},
		},
		"items of the Responses API": {
			text: `{"messages": [{"role": "user", "content": "q"}, {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]},
				{"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
				{"type": "function_call_output", "call_id": "1", "output": "no"},
				{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}]}`,
			want: []string{"user: q", "assistant:  (hm) f({})", "tool: no", "assistant: a"},
		},
		"pydantic-ai": {
			text: `{"messages": [{"kind": "request", "parts": [{"part_kind": "system-prompt", "content": "s"},
				{"part_kind": "user-prompt", "content": ["q", "r"]}]},
				{"kind": "response", "parts": [{"part_kind": "thinking", "content": "hm"}, {"part_kind": "text", "content": "So"},
				{"part_kind": "tool-call", "tool_name": "f", "args": {"a": 1}, "tool_call_id": "1"}]},
				{"kind": "request", "parts": [{"part_kind": "retry-prompt", "content": "bad", "tool_name": "f", "tool_call_id": "1"}]},
				{"kind": "response", "parts": [{"part_kind": "text", "content": "a"}]}]}`,
			want: []string{"system: s", "user: q\nr", `assistant: So (hm) f({"a": 1})`, "tool: bad failed", "assistant: a"},
		},
		"inspect-ai": {
			text: `{"messages": [{"id": "1", "role": "user", "content": "q"}, {"role": "assistant", "content": "",
				"tool_calls": [{"id": "1", "function": "bash", "arguments": {"cmd": "ls"}, "type": "function"}]},
				{"role": "tool", "content": "x", "tool_call_id": "1", "function": "bash"}]}`,
			want: []string{"user: q", `assistant:  bash({"cmd": "ls"})`, "tool: x"},
		},
		"who said": {
			text: `{"messages": [{"who": "client", "said": "q"}, {"who": "support", "said": "a"}]}`,
			want: []string{"user: q", "assistant: a"},
		},
		"capitals": {
			text: `{"messages": [{"from": "User", "value": "q"}, {"from": "CLAUDE", "value": "a"}]}`,
			want: []string{"user: q", "assistant: a"},
		},
		"a list": {
			text: `[[{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]]`,
			want: []string{"user: q", "assistant: a"},
		},
		"a transcript": {
			text: `{"messages": "Human: q\n\nAssistant: a"}`, set: split,
			want: []string{"user: q", "assistant: a"},
		},
		"earlier turns": {
			text: `{"system": "s", "prompt": "q", "response": "a", "history": [["p", "b"], ["r", "c"]]}`,
			want: []string{
				"system: s", "user: p", "assistant: b", "user: r", "assistant: c", "user: q", "assistant: a",
			},
		},
		"earlier messages, as text": {
			text: `{"prompt": "q", "response": "a", "history": "[{\"role\": \"user\", \"content\": \"p\"}]"}`,
			want: []string{"user: p", "user: q", "assistant: a"},
		},
		"no earlier turns": {
			text: `{"prompt": "q", "response": "a", "history": [], "": "z"}`,
			want: []string{"user: q", "assistant: a"},
		},
		"Capybara": {
			text: `{"system": "s", "conversation": [{"input": "q", "output": "a"}]}`,
			set:  func(c *Config) { c.Shape = "capybara" },
			want: []string{"system: s", "user: q", "assistant: a"},
		},
		"xLAM": {
			text: `{"query": "q", "tools": "[]", "answers": "[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]"}`,
			set:  func(c *Config) { c.Shape = "xlam" },
			want: []string{"user: q", `assistant:  f({"a": 1})`},
		},
		"a wrapped list": {
			text: `{"n": 1, "rows": [{"prompt": "q", "response": "a"}]}`,
			set:  func(c *Config) { c.EntriesKey = "rows" },
			want: []string{"user: q", "assistant: a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, spoken(t, c.text, c.set)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTranscribedPair: the part with which both transcripts begin is the prompt.
func TestTranscribedPair(t *testing.T) {
	src := open(t, `{"chosen": "\n\nHuman: q\n\nAssistant: a", "rejected": "\n\nHuman: q\n\nAssistant: b"}`,
		func(c *Config) { c.Transcripts = "split" })
	ex, _, err := src.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range ex.Candidates {
		got = append(got, c.Prompt.Messages[0].Role+": "+c.Prompt.Messages[0].Text+" -> "+c.Output)
	}
	if diff := cmp.Diff([]string{"user: q -> a", "user: q -> b"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestBesidePrompt: the prompt of a pair, or of a state that several models answered, includes the keys beside it.
func TestBesidePrompt(t *testing.T) {
	beside := `"system": "s", "prompt": "q", "input": "x", "history": [["p", "b"]], `
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"a pair": {
			text: "{" + beside + `"chosen": "a", "rejected": "c"}`,
			want: []string{"system: s", "user: p", "assistant: b", "user: q\n\nx"},
		},
		"answers": {
			text: "{" + beside + `"answers": [{"content": "a", "score": 1}, {"content": "c", "score": 0}]}`,
			want: []string{"system: s", "user: p", "assistant: b", "user: q\n\nx"},
		},
		"a prompt with a system message": {
			text: `{"system": "s", "prompt": [{"role": "system", "content": "t"}, {"role": "user", "content": "q"}],
				"chosen": "a", "rejected": "c"}`,
			want: []string{"system: t", "user: q"},
		},
		"a conversation and two ways to go on": {
			text: `{"system": "s", "messages": [{"from": "human", "value": "q"}],
				"chosen": {"from": "gpt", "value": "a"}, "rejected": {"from": "gpt", "value": "c"}}`,
			want: []string{"system: s", "user: q"},
		},
		"a nested pair": {
			text: `{"system": "s", "dpo_pairs": [{"prompt": "q", "input": "x", "history": [["p", "b"]],
				"chosen": "a", "rejected": "c"}], "messages": [{"role": "user", "content": "z"}]}`,
			want: []string{"system: s", "user: p", "assistant: b", "user: q\n\nx"},
		},
		"no prompt": {text: `{"system": "s", "history": [["p", "b"]], "chosen": "a", "rejected": "c"}`},
		"sides with the prompt": {
			text: `{"system": "s",
				"chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
				"rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "b"}]}`,
			want: []string{"system: s", "user: q"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ex, _, err := open(t, c.text, func(c *Config) { c.ContextKey = "input" }).Next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			for _, cand := range ex.Candidates {
				var got []string
				for _, m := range cand.Prompt.Messages {
					got = append(got, m.Role+": "+m.Text)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
			}
			if len(ex.Candidates) != 2 {
				t.Errorf("%d candidates", len(ex.Candidates))
			}
		})
	}
}

// TestUnreadHistory: earlier turns of an unknown shape are reported, and the rest is read.
func TestUnreadHistory(t *testing.T) {
	for _, history := range []string{`{"a": 1}`, `[["p"]]`, `[["p", 1]]`, `"once upon a time"`, `7`} {
		t.Run(history, func(t *testing.T) {
			text := `{"prompt": "q", "response": "a", "history": ` + history + `}`
			if diff := cmp.Diff([]string{"history"}, unread(t, text)); diff != "" {
				t.Errorf("%s: %s", text, diff)
			}
		})
	}
}

// TestUnreadBesidePrompt: keys beside a prompt that can't be added to it are reported as unread.
func TestUnreadBesidePrompt(t *testing.T) {
	const sides = `"chosen": "a", "rejected": "b"`
	const messages = `[{"role": "user", "content": "q"}]`
	for text, want := range map[string][]string{
		`{"prompt": "q", "input": 1, "system": {"a": 1}, ` + sides + `}`:                           {"system", "input"},
		`{"prompt": ` + messages + `, "input": "x", "history": [["p", "b"]], ` + sides + `}`:       {"input", "history"},
		`{"prompt": ` + messages + `, "input": "", "history": [], "system": "", ` + sides + `}`:    nil,
		`{"prompt": "q", "response": "a", "system": ["s"]}`:                                        {"system"},
		`{"messages": ` + messages + `, "history": [["p", "b"]]}`:                                  {"history"},
		`{"messages": ` + messages + `, "history": []}`:                                            nil,
		`{"prompt": "q", "input": null, "history": null, "system": null, ` + sides + `, "": "no"}`: nil,
	} {
		t.Run(text, func(t *testing.T) {
			if diff := cmp.Diff(want, unread(t, text)); diff != "" {
				t.Errorf("%s: %s", text, diff)
			}
		})
	}
}

// TestUnreadOfShape: what a shape leaves unread is reported, and an entry that doesn't have the shape is dropped.
func TestUnreadOfShape(t *testing.T) {
	src := open(t, `{"question": "q", "context": "c", "answers": {"text": ["a", "b"]}, "reward": 1, "hint": "h"}
		{"question": "q", "context": "c", "answers": {"text": []}}`, func(c *Config) { c.Shape = "squad" })
	var told, dropped []string
	src.Tally.Tell = func(d ledger.Drop) { told = append(told, d.Detail) }
	if _, _, err := src.Next(context.Background()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"answers: texts after the first", "hint"}, told); diff != "" {
		t.Error(diff)
	}
	src.Tally.Tell = func(d ledger.Drop) { dropped = append(dropped, string(d.Reason)) }
	if _, _, err := src.Next(context.Background()); err != io.EOF {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"bad_example"}, dropped); diff != "" {
		t.Error(diff)
	}
}

// TestToolsOfShape: the tools are those under the key that the user named, or else under the shape's own.
func TestToolsOfShape(t *testing.T) {
	const capybara = `"conversation": [{"input": "q", "output": "a"}], "tools": [{"name": "f"}]`
	const xlam = `"query": "q", "answers": [{"name": "f", "arguments": {}}], "tools": [{"name": "f", "parameters": {}}]`
	for name, c := range map[string]struct{ shape, key, text, want string }{
		"the usual key":        {"capybara", "tools", capybara, "f"},
		"a given key":          {"capybara", "offered", capybara + `, "offered": [{"name": "g"}]`, "g"},
		"the shape's own":      {"xlam", "tools", xlam, "f"},
		"a given key, missing": {"xlam", "offered", xlam, "f"},
	} {
		t.Run(name, func(t *testing.T) {
			src := open(t, "{"+c.text+"}", func(cfg *Config) { cfg.Shape, cfg.ToolsKey = c.shape, c.key })
			ex, _, err := src.Next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if len(ex.Tools) != 1 || ex.Tools[0].Name != c.want {
				t.Errorf("%+v", ex.Tools)
			}
		})
	}
}

// unread returns the keys of the first entry that are reported as unread.
func unread(t *testing.T, text string) (keys []string) {
	t.Helper()
	src := open(t, text, func(c *Config) { c.ContextKey = "input" })
	src.Tally.Tell = func(d ledger.Drop) { keys = append(keys, d.Detail) }
	if _, _, err := src.Next(context.Background()); err != nil {
		t.Fatal(err)
	}
	return keys
}

func open(t *testing.T, text string, set func(*Config)) *Source {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var cfg Config
	schema.Defaults(&cfg)
	cfg.Path = []string{path}
	if set != nil {
		set(&cfg)
	}
	src, err := Open(context.Background(), cfg, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { src.Close() })
	return src
}

// spoken returns the messages of all examples.
func spoken(t *testing.T, text string, set func(*Config)) (out []string) {
	t.Helper()
	src := open(t, text, set)
	for {
		ex, _, err := src.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range ex.Graph.Nodes {
			parts := []string{n.Message.Role + ": " + n.Message.Text}
			if n.Message.Reasoning != "" {
				parts = append(parts, "("+n.Message.Reasoning+")")
			}
			for _, call := range n.Message.ToolCalls {
				parts = append(parts, call.Name+"("+call.Arguments+")")
			}
			if n.Error != nil && *n.Error {
				parts = append(parts, "failed")
			}
			out = append(out, strings.Join(parts, " "))
		}
	}
}

// TestIDsBeside checks that token ids beside the messages belong to the answers, if there is a list for each answer.
func TestIDsBeside(t *testing.T) {
	const two = `"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"},
		{"role": "user", "content": "r"}, {"role": "assistant", "content": "b"}]`
	for beside, want := range map[string]string{
		`"completion_token_ids": [[1, 2], [3]], "completion_logprobs": [[-1, -2], [-3]]`: "[1 2] [-1 -2] [3] [-3]",
		`"completion_token_ids": [[1, 2], [3]]`:                                          "[1 2] [] [3] []",
		`"completion_token_ids": [1, 2, 3]`:                                              "[] [] [] [] completion_token_ids",
		`"completion_token_ids": [[1], [2]], "prompt_token_ids": [[0], [0]]`:             "[1] [] [2] [] prompt_token_ids",
		`"completion_token_ids": [[1], [2]], "logprobs": [[-1]]`:                         "[] [] [] [] completion_token_ids logprobs",
		`"completion_token_ids": [[1], [2]], "logprobs": [[-1], []]`:                     "dropped",
	} {
		src := open(t, "{"+two+", "+beside+"}", nil)
		var told []string
		src.Tally.Tell = func(d ledger.Drop) { told = append(told, d.Detail) }
		ex, _, err := src.Next(context.Background())
		got := "dropped"
		if err == nil {
			got = fmt.Sprint(ex.Graph.Nodes[1].TokenIDs, ex.Graph.Nodes[1].LogProbs, ex.Graph.Nodes[3].TokenIDs,
				ex.Graph.Nodes[3].LogProbs)
			for _, key := range told {
				got += " " + key
			}
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", beside, got, want)
		}
	}
}
