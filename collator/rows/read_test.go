package rows

import (
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc/chat"
)

func TestReadAcceptsWhatWasWritten(t *testing.T) {
	chatPrompt := messages(says("system", "s"), says("user", "é\ud7ff"), call, chat.Message{
		Role:       "tool",
		Form:       chat.Text,
		Text:       "r",
		ToolCallID: "1",
	})
	plainChat := messages(says("system", "s"), says("user", "u"))
	demo := &builders.Resolved{
		Record:   &builders.Demonstration{},
		Origin:   &builders.Origin{},
		Messages: messages(says("user", "q"), says("assistant", "a")),
	}
	for name, c := range map[string]struct {
		format Format
		opts   Options
		record *builders.Resolved
		shape  string
	}{
		"customizer":          {customizer, Options{}, preference(text("p"), text("c"), text("r")), "prompt: text, chosen_response: text, rejected_response: text"},
		"customizer messages": {customizer, Options{FullHistory: true}, preference(plainChat, text("c"), text("r")), "prompt: messages, chosen_response: text, rejected_response: text"},
		"trl": {
			trl,
			Options{},
			preference(chatPrompt, messages(call), text("r")),
			"prompt: messages, chosen: messages, rejected: messages",
		},
		"trl text": {
			trl,
			Options{TextPrompt: PlainText},
			preference(text("p"), text("c"), text("r")),
			"prompt: text, chosen: text, rejected: text",
		},
		"nemo_rl": {
			nemoRL,
			Options{},
			preference(plainChat, text("c"), text("r")),
			"prompt: messages, chosen: text, rejected: text",
		},
		"nemo_rl_ranked":    {nemoRLRanked, Options{}, preference(plainChat, messages(call), text("r")), "context: messages, completions.completion: messages, completions.completion: messages"},
		"openai":            {openAI, Options{}, preference(chatPrompt, messages(call), text("r")), "input.messages: messages, preferred_output: messages, non_preferred_output: messages"},
		"trl demonstration": {trl, Options{}, demo, "prompt: messages, completion: messages"},
	} {
		t.Run(name, func(t *testing.T) {
			line, _, err := NewEncoder(c.format, c.opts).Append(nil, Train, c.record)
			if err != nil {
				t.Fatal(name, err)
			}
			row, err := c.format.Read(line)
			if err != nil || row.Shape != c.shape || row.Kind != c.record.Record.Kind() {
				t.Errorf("%s: %+v, %v, from %s", name, row, err, line)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct {
		format     Format
		line, want string
	}{
		{customizer, `{"prompt": "p", "chosen_response": "c"}`, `"rejected_response" is missing`},
		{customizer, `{"prompt": "p", "chosen_response": 1, "rejected_response": "r"}`, `a number`},
		{customizer, `{"prompt": "p", "chosen_response": "c", "rejected_response": "r", "x": 1}`, `lack the key "x"`},
		{customizer, `{"prompt": "p", "prompt": "p", "chosen_response": "c", "rejected_response": "r"}`, `duplicate key`},
		{customizer, `{"prompt": [{"role": "user", "content": null}], "chosen_response": "c", "rejected_response": "r"}`, `message 0`},
		{customizer, `{"prompt": "p", "chosen_response": [], "rejected_response": "r"}`, `expected text`},
		{customizer, `{"prompt": "p"`, `byte`},
		{customizer, `[]`, `object`},
		{trl, `{"prompt": [{"role": "user", "content": "u"}], "chosen": "c", "rejected": "r"}`, `differs in kind`},
		{trl, `{"prompt": [{"role": "user"}], "chosen": [{"role": "user", "content": "c"}], "rejected": [{"role": "assistant", "content": "r"}]}`, `begin and end with an assistant message`},
		{trl, `{"prompt": [{"content": "u"}], "chosen": [], "rejected": []}`, `role`},
		{trl, `{"prompt": "p", "chosen": "c", "rejected": "r", "tools": [{"x": NaN}]}`, `NaN`},
		{trl, `{"prompt": "p", "chosen": "c", "rejected": "r", "tools": [1]}`, `definition`},
		{trl, `{"prompt": "p", "completion": "c", "chosen": "r"}`, `lack the key "chosen"`},
		{trl, `{"prompt": [{"role": "user", "content": [{"type": "image_url"}]}], "chosen": "c", "rejected": "r"}`, `image_url`},
		{trl, `{"prompt": [{"role": "user", "content": "u", "weight": 1}], "chosen": "c", "rejected": "r"}`, `weight`},
		{nemoRL, `{"prompt": "p", "chosen": [], "rejected": "r"}`, `expected text`},
		{nemoRLRanked, `{"context": "p", "completions": [{"rank": 0, "completion": "c"}]}`, `expected 2`},
		{nemoRLRanked, `{"context": "p", "completions": [{"rank": 1, "completion": "c"}, {"rank": 0, "completion": "c"}]}`, `is not 0`},
		{nemoRLRanked, `{"context": "p", "completions": [{"rank": 0, "completion": "c", "x": 1}, {"rank": 1, "completion": "c"}]}`, `"x" is unknown`},
		{customizer, `{"messages": [{"role": "user", "content": "q"}]}`, `does not end in an assistant`},
		{customizer, `{"messages": "text"}`, `does not end in an assistant`},
		{kto, `{"prompt": "p", "completion": "c"}`, `"label" is missing`},
		{kto, `{"prompt": "p", "completion": "c", "label": "true"}`, `expected a boolean`},
		{verl, `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "tool_calls": []}], "x": 1}`, `lack the key "x"`},
		{verl, `{"prompt": [], "data_source": "d", "ability": "a", "reward_model": {"style": "rule", "ground_truth": ""}, "extra_info": {}}`, `has no messages`},
		{verl, `{"prompt": [{"role": "user", "content": "q"}], "data_source": "d", "ability": "a", "reward_model": {"style": "x", "ground_truth": ""}, "extra_info": {}}`, `expected rule or model`},
		{verl, `{"prompt": [{"role": "user", "content": "q"}], "data_source": "d", "ability": "a", "reward_model": {"style": "rule"}, "extra_info": {}}`, `"ground_truth" is missing`},
		{atropos, `{"tokens": [[1, 2]], "masks": [[-100, 3]], "scores": [1]}`, `has 3 for token 2`},
		{atropos, `{"tokens": [[1, 2]], "masks": [[2]], "scores": [1]}`, `has 1 for 2 tokens`},
		{atropos, `{"tokens": [[1, 2]], "masks": [[-100, -100]], "scores": [1]}`, `no token to train`},
		{atropos, `{"tokens": [[1]], "masks": [[1]], "scores": [NaN]}`, `holds NaN`},
		{atropos, `{"tokens": [[1]], "masks": [[1]], "scores": [1, 2]}`, `1 sequences for 2 scores`},
		{atropos, `{"tokens": [[1.5]], "masks": [[1.5]], "scores": [1]}`, `for token 1.5`},
		{atropos, `{"tokens": [1], "masks": [[1]], "scores": [1]}`, `expected a list`},
		{atropos, `{"tokens": [[1]], "masks": [[1]], "scores": [1], "inference_logprobs": [[]]}`, `has 0 for 1 tokens`},
		{trl, `{"prompt": [], "completion": [{"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": [1]}}]}]}`, `arguments are not an object`},
		{msSwift, `{"messages": [{"role": "user", "content": "q", "loss": true}, {"role": "assistant", "content": "a"}]}`, `is not the assistant's and has the key loss`},
		{msSwift, `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "loss": 2}]}`, `unknown value of loss`},
		{openAI, `{"input": 1, "preferred_output": "c", "non_preferred_output": "r"}`, `expected an object`},
		{openAI, `{"input": {"messages": [{"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}]}, "preferred_output": "c", "non_preferred_output": "r"}`, `not a string`},
	} {
		t.Run(c.line, func(t *testing.T) {
			if row, err := c.format.Read([]byte(c.line)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %+v, %v; want %q", c.line, row, err, c.want)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"prompt": [{"role": "user", "content": "u"}], "chosen": "c", "rejected": "r", "tools": []}`))
	f.Add([]byte(`{"prompt": "p", "chosen_response": "c", "rejected_response": "r"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		for _, format := range Formats() {
			if row, err := format.Read(line); err == nil && (row.Kind == 0 || row.Shape == "") {
				t.Fatalf("%s: %+v", line, row)
			}
		}
	})
}
