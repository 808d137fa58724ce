package rows

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	natjson "github.com/nat-go/nat-go/ttc/json"
)

func text(s string) builders.Passage { return builders.Passage{Text: s} }

func messages(ms ...chat.Message) builders.Passage {
	return builders.Passage{Nodes: ttc.Chain(ms, ttc.Yes).Nodes}
}

func says(role, s string) chat.Message { return chat.Message{Role: role, Form: chat.Text, Text: s} }

func preference(prompt, chosen, rejected builders.Passage) *builders.Resolved {
	return &builders.Resolved{Record: &builders.Preference{}, Origin: &builders.Origin{}, Prompt: prompt, Chosen: chosen, Rejected: rejected}
}

var call = chat.Message{Role: "assistant", Form: chat.Null, ToolCalls: []chat.ToolCall{{ID: "1", Name: "f", Arguments: `{"a": 1}`, Parsed: natjson.Raw("{\"a\":\n1}")}}}

func TestRows(t *testing.T) {
	chatPrompt := messages(says("system", "s"), says("user", "é"))
	withTools := preference(chatPrompt, text("c"), text("r"))
	withTools.Origin.Tools = []chat.Tool{{Raw: natjson.Raw("{\n \"name\": \"f f\"}")}}
	demo := func(train builders.Train, ms ...chat.Message) *builders.Resolved {
		return &builders.Resolved{Record: &builders.Demonstration{Train: train}, Origin: &builders.Origin{}, Messages: messages(ms...)}
	}
	for _, c := range []struct {
		name   string
		format Format
		opts   Options
		record *builders.Resolved
		want   string // begins with "!": the refusal
	}{
		{"customizer text", customizer, Options{}, preference(text("p"), text("c"), text("r")), `{"prompt": "p", "chosen_response": "c", "rejected_response": "r"}`},
		{"customizer text, history", customizer, Options{FullHistory: true}, preference(text("p"), text("c"), text("r")), `{"prompt": [{"role": "user", "content": "p"}], "chosen_response": "c", "rejected_response": "r"}`},
		{"customizer messages, history", customizer, Options{FullHistory: true}, preference(chatPrompt, text("c"), text("r")), `{"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "\u00e9"}], "chosen_response": "c", "rejected_response": "r"}`},
		{"customizer messages, last", customizer, Options{}, preference(chatPrompt, text("c"), text("r")), `{"prompt": "\u00e9", "chosen_response": "c", "rejected_response": "r"}`},
		{"customizer empty messages", customizer, Options{}, preference(builders.Passage{Nodes: []ttc.Node{}}, text("c"), text("r")), `{"prompt": "", "chosen_response": "c", "rejected_response": "r"}`},
		{"customizer tool calls", customizer, Options{FullHistory: true}, preference(messages(call), text("c"), text("r")), `!customizer rows can't carry it: the assistant message has tool calls`},
		{"customizer demonstration", customizer, Options{}, demo(builders.TrainAll), `!customizer rows can't carry it: it holds preferences only`},
		{"trl text", trl, Options{}, preference(text("p"), text("c"), text("r")), `{"prompt": [{"role": "user", "content": "p"}], "chosen": [{"role": "assistant", "content": "c"}], "rejected": [{"role": "assistant", "content": "r"}]}`},
		{"trl plain text", trl, Options{TextPrompt: PlainText}, preference(text("p"), text("c"), text("r")), `{"prompt": "p", "chosen": "c", "rejected": "r"}`},
		{"trl plain text, messages", trl, Options{TextPrompt: PlainText}, preference(chatPrompt, text("c"), text("r")), `!trl rows can't carry it: with prompt_as: text a file holds plain texts only, and this record has messages`},
		{"trl tools", trl, Options{}, withTools, `{"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "\u00e9"}], "chosen": [{"role": "assistant", "content": "c"}], "rejected": [{"role": "assistant", "content": "r"}], "tools": [{"name":"f f"}]}`},
		{"trl call as a side", trl, Options{}, preference(text("p"), messages(call), text("r")), `{"prompt": [{"role": "user", "content": "p"}], "chosen": [{"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"a":1}}}]}], "rejected": [{"role": "assistant", "content": "r"}]}`},
		{"trl two turns", trl, Options{}, preference(text("p"), messages(call, says("tool", "x")), text("r")), `!trl rows can't carry it: the chosen side is more than one assistant turn, of which a trainer would train every token`},
		{"nemo_rl", nemoRL, Options{}, preference(chatPrompt, text("c"), messages(says("assistant", "r"))), `{"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "\u00e9"}], "chosen": "c", "rejected": "r"}`},
		{"nemo_rl calls", nemoRL, Options{}, preference(text("p"), messages(call), text("r")), `!nemo_rl rows can't carry it: the assistant message has tool calls`},
		{"nemo_rl_ranked", nemoRLRanked, Options{}, preference(text("p"), text("c"), text("r")), `{"context": [{"role": "user", "content": "p"}], "completions": [{"rank": 0, "completion": [{"role": "assistant", "content": "c"}]}, {"rank": 1, "completion": [{"role": "assistant", "content": "r"}]}]}`},
		{"openai", openAI, Options{}, preference(text("p"), messages(call), text("r")), `{"input": {"messages": [{"role": "user", "content": "p"}]}, "preferred_output": [{"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}], "non_preferred_output": [{"role": "assistant", "content": "r"}]}`},
		{"openai tools", openAI, Options{}, withTools, `{"input": {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "\u00e9"}], "tools": [{"name":"f f"}]}, "preferred_output": [{"role": "assistant", "content": "c"}], "non_preferred_output": [{"role": "assistant", "content": "r"}]}`},
		{"trl demonstration", trl, Options{}, demo(builders.TrainAll, says("user", "q"), says("assistant", "a")), `{"prompt": [{"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content": "a"}]}`},
		{"trl demonstration of two turns", trl, Options{}, demo(builders.TrainAll, says("user", "q"), says("assistant", "a"), says("user", "q"), says("assistant", "a")), `!trl rows can't carry it: it trains other turns than the last one`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := NewEncoder(c.format, c.opts)
			e.Begin()
			for range 2 { // the second time from the texts already escaped
				got, err := e.Append([]byte("x"), c.record)
				if why, refused := strings.CutPrefix(c.want, "!"); refused {
					var cannot *CannotCarry
					if !errors.As(err, &cannot) || err.Error() != why || string(got) != "x" {
						t.Fatalf("got %q, %v; want refusal %q", got, err, why)
					}
					continue
				}
				if err != nil || string(got) != "x"+c.want {
					t.Fatalf("got  %s, %v\nwant x%s", got, err, c.want)
				}
				if !json.Valid(got[1:]) {
					t.Fatalf("no JSON: %s", got[1:])
				}
			}
		})
	}
}

func TestRowsHoldTheTextsTheyWereGiven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOf(rapid.Rune()).Draw(t, "text")
		e := NewEncoder(customizer, Options{})
		row, err := e.Append(nil, preference(text(s), text(s+"c"), text(s+"r")))
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]string
		if err := json.Unmarshal(row, &got); err != nil {
			t.Fatal(err)
		}
		if got["prompt"] != s || got["chosen_response"] != s+"c" || got["rejected_response"] != s+"r" {
			t.Fatalf("%s", row)
		}
	})
}
