package rows

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/internal/property"
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
	return &builders.Resolved{
		Record:   &builders.Preference{},
		Origin:   &builders.Origin{},
		Prompt:   prompt,
		Chosen:   chosen,
		Rejected: rejected,
	}
}

func rollout(task string, reward float64, ms ...chat.Message) *builders.Resolved {
	return &builders.Resolved{
		Record: &builders.Rollout{Task: task, Reward: &reward}, Messages: messages(ms...),
		Origin: &builders.Origin{Builder: "grpo", Row: 7, Example: task + "/0"},
	}
}

// withIDs gives message m the ids 10 m and 10 m + 1, and gives sampled messages the log-probs -inf and -0.25.
func withIDs(r *builders.Resolved) *builders.Resolved {
	for m := range r.Messages.Nodes {
		n := &r.Messages.Nodes[m]
		n.TokenIDs = []int32{int32(10 * m), int32(10*m + 1)}
		if n.Message.Role == "assistant" {
			n.LogProbs = []float32{float32(math.Inf(-1)), -0.25}
		}
	}
	return r
}

// TestRowsOfSeveralRecords checks that rollouts of one task form a single Atropos group and a single verl prompt.
func TestRowsOfSeveralRecords(t *testing.T) {
	a, b := withIDs(rollout("t", 1, says("user", "q"), says("assistant", "a"))),
		withIDs(rollout("t", 0, says("user", "q"), says("assistant", "b")))
	other := withIDs(rollout("t", 0, says("user", "another"), says("assistant", "b")))
	if atropos.Together(a) != atropos.Together(other) || atropos.Together(a) == "" {
		t.Error("a group of Atropos is a task")
	}
	if verl.Together(a) != verl.Together(b) || verl.Together(a) == verl.Together(other) || verl.Together(a) == "" {
		t.Error("a row of verl is a prompt of a task")
	}
	listed, named := rollout("t", 0, says("user", ""), says("assistant", "b")), rollout("t", 0, says("user", "q"), says("assistant", "b"))
	m := &listed.Messages.Nodes[0].Message
	m.Form, m.Parts = chat.Parts, []chat.Part{{Type: "text", Text: "another"}}
	named.Messages.Nodes[0].Message.Name = "Ann"
	if verl.Together(listed) != verl.Together(other) || verl.Together(listed) == verl.Together(a) || verl.Together(named) == verl.Together(a) {
		t.Error("prompts are the same if their texts and names are")
	}
	if verl.Together(preference(text("p"), text("c"), text("r"))) != "" || trl.Together(a) != "" {
		t.Error("these stand alone")
	}
	got, n, err := NewEncoder(atropos, Options{}).AppendTogether(nil, Train, []*builders.Resolved{a, b})
	want := `{"tokens": [[0, 1, 10, 11], [0, 1, 10, 11]], "masks": [[-100, -100, 10, 11], [-100, -100, 10, 11]], "scores": [1, 0], "inference_logprobs": [[1.0, 1.0, -9999, -0.25], [1.0, 1.0, -9999, -0.25]]}`
	if err != nil || n != 1 || string(got) != want {
		t.Errorf("%s, %d, %v", got, n, err)
	}
	b.Messages.Nodes[1].LogProbs = nil
	e := NewEncoder(atropos, Options{})
	got, _, err = e.AppendTogether(nil, Train, []*builders.Resolved{a, b})
	if _, omitted := e.Omitted(); err != nil || strings.Contains(string(got), "logprobs") || len(omitted) != 1 {
		t.Errorf("log-probs of half a group: %s, %v, %v", got, omitted, err)
	}
	got, n, err = NewEncoder(verl, Options{}).AppendTogether(nil, Validation, []*builders.Resolved{a, b})
	if err != nil || n != 1 || !strings.Contains(string(got), `"split": "validation"`) {
		t.Errorf("%s, %d, %v", got, n, err)
	}
}

// TestTable checks that what is written to a Parquet table reads back unchanged, and that the same rows give the same
// bytes.
func TestTable(t *testing.T) {
	truth := rollout("t", 1, says("user", "é\u0000\n"), says("assistant", "4"))
	truth.Origin.Tools = []chat.Tool{{Raw: natjson.Raw(`{"name": "f"}`)}}
	demo := &builders.Resolved{
		Record:   &builders.Demonstration{},
		Origin:   &builders.Origin{},
		Messages: messages(says("user", "q"), says("assistant", "")),
	}
	for _, r := range []*builders.Resolved{truth, demo} {
		var want, got []string
		var files [2]bytes.Buffer
		for i := range files {
			table := verl.NewTable(&files[i], r.Record.Kind(), Options{}, Contents{})
			for range 100 {
				line, _, err := NewEncoder(verl, Options{}).Append(nil, Train, r)
				if err == nil {
					err = table.Append(line)
				}
				if err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					want = append(want, canonical(t, line))
				}
			}
			if err := table.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(files[0].Bytes(), files[1].Bytes()) {
			t.Error("the same rows gave other bytes")
		}
		whole := files[0].Bytes()
		err := EachTableRow(bytes.NewReader(whole), int64(len(whole)), 0, func(n int64, line []byte) error {
			if _, err := verl.Read(line); err != nil || n != int64(len(got)) {
				t.Errorf("row %d: %v", n, err)
			}
			got = append(got, canonical(t, line))
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v; got %d rows, %s", err, len(got), got[0])
		}
		// Under the race detector this ends the process where the library uses memory unsafely; otherwise it is a
		// panic, which is caught.
		if raceDetector {
			continue
		}
		for cut := 0; cut < len(whole); cut += 7 {
			damaged := bytes.Clone(whole)
			damaged[cut] ^= 0x55
			for _, b := range [][]byte{whole[:cut], damaged} { // an error or other rows, never a panic
				_ = EachTableRow(bytes.NewReader(b), int64(len(b)), 0, func(int64, []byte) error { return nil })
			}
		}
	}
}

func state(task string, ms ...chat.Message) *builders.Resolved {
	r := rollout(task, 0, ms...)
	r.Record = &builders.State{
		Head: builders.Head{Metadata: natjson.Raw(`{"at": "turns", "agent_ref": {"name": "a"}}`)}, Task: task,
	}
	return r
}

// plainTemplate puts each message's role before it.
func plainTemplate(t *testing.T) *turns.Renderer {
	t.Helper()
	r, err := turns.New("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"+
		"{% if add_generation_prompt %}<assistant>{% endif %}", turns.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func canonical(t *testing.T, line []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(line, &v); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var call = chat.Message{Role: "assistant", Form: chat.Null, ToolCalls: []chat.ToolCall{{ID: "1", Name: "f", Arguments: `{"a": 1}`, Parsed: natjson.Raw("{\"a\":\n1}")}}}

func TestRows(t *testing.T) {
	spoken, answer := call, says("tool", "x")
	spoken.Text, spoken.Form, answer.ToolCallID = "I look.", chat.Text, "1"
	thinking := state("t", says("user", "q"), chat.Message{
		Role: "assistant", Form: chat.Null, Reasoning: "so", ReasoningKey: "reasoning_content",
		ToolCalls: []chat.ToolCall{{ID: "1", Name: "f", Arguments: "{}"}},
	}, answer)
	thinking.Origin.Tools = []chat.Tool{{Name: "f", Raw: natjson.Raw(`{"type": "function", "function": {"name": "f"}}`)}}
	several := messages(call, says("tool", "x"), says("assistant", "y"))
	chatPrompt := messages(says("system", "s"), says("user", "é"))
	withTools := preference(chatPrompt, text("c"), text("r"))
	withTools.Origin.Tools = []chat.Tool{{Raw: natjson.Raw("{\n \"name\": \"f f\"}")}}
	toolsOf := func(r *builders.Resolved) *builders.Resolved {
		r.Origin.Tools = withTools.Origin.Tools
		return r
	}
	demo := func(train builders.Train, ms ...chat.Message) *builders.Resolved {
		return &builders.Resolved{
			Record:   &builders.Demonstration{Train: train},
			Origin:   &builders.Origin{},
			Messages: messages(ms...),
		}
	}
	truth := rollout("t", 1, says("user", "2+2?"), says("assistant", "4"))
	truth.Record.Header().Metadata = natjson.Raw(`{"ground_truth": "4 \u20ac"}`)
	truth.Origin.Tools = withTools.Origin.Tools
	checked := state("t", says("user", "q"))
	checked.Origin.Truth = natjson.Raw(`{"total": 4}`)
	unscored := withIDs(rollout("t", 0, says("user", "q"), says("assistant", "a")))
	unscored.Record.(*builders.Rollout).Reward = nil
	labelled := func(label string) *builders.Resolved {
		r := rollout("t", 1, says("system", "s"), says("user", "q"), call, says("tool", "x"), says("assistant", "y"),
			says("user", "bye"))
		r.Record.Header().Metadata = []byte(`{"label": ` + label + `}`)
		return r
	}
	between := rollout("t", 1, says("user", "q"), says("assistant", "a"), says("user", "r"), says("assistant", "b"),
		says("assistant", "c"), says("user", "s"), says("assistant", "d"))
	between.Record.Header().Metadata = []byte(`{"label": true}`)
	between.Messages.Nodes[4].Sampled = ttc.No
	for _, c := range []struct {
		name   string
		format Format
		opts   Options
		record *builders.Resolved
		want   string // if it begins with "!", the refusal
	}{
		{"customizer text", customizer, Options{}, preference(text("p"), text("c"), text("r")), `{"prompt": "p", "chosen_response": "c", "rejected_response": "r"}`},
		{"customizer text, history", customizer, Options{FullHistory: true}, preference(text("p"), text("c"), text("r")), `{"prompt": [{"role": "user", "content": "p"}], "chosen_response": "c", "rejected_response": "r"}`},
		{"customizer messages, history", customizer, Options{FullHistory: true}, preference(chatPrompt, text("c"), text("r")), `{"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "\u00e9"}], "chosen_response": "c", "rejected_response": "r"}`},
		{"customizer messages, last", customizer, Options{}, preference(chatPrompt, text("c"), text("r")), `{"prompt": "\u00e9", "chosen_response": "c", "rejected_response": "r"}`},
		{"no messages", trl, Options{}, preference(messages(), text("c"), text("r")), "!cannot represent the record in trl rows: the prompt has no messages, and trainers look at its last one"},
		{"customizer empty messages", customizer, Options{NAT: true}, preference(builders.Passage{Nodes: []ttc.Node{}}, text("c"), text("r")), `{"prompt": "", "chosen_response": "c", "rejected_response": "r"}`},
		{"customizer tool calls", customizer, Options{FullHistory: true}, preference(messages(call), text("c"), text("r")), `!cannot represent the record in customizer rows: the assistant message has tool calls`},
		{"customizer demonstration", customizer, Options{}, demo(builders.TrainAll, says("user", "q"), call, says("assistant", "a")), `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"a":1}}}]}, {"role": "assistant", "content": "a"}]}`},
		{"customizer demonstration of nothing", customizer, Options{}, demo(builders.TrainAll), `!cannot represent the record in customizer rows: no turn of the record is trained on`},
		{"customizer demonstration of one turn", customizer, Options{}, demo(builders.TrainLast, says("user", "q"), says("assistant", "a"), says("assistant", "b")), `!cannot represent the record in customizer rows: the trainer trains on every assistant turn, but the first one, message 1, is context only`},
		{"customizer rollout", customizer, Options{}, rollout("t", 1, says("user", "q"), says("assistant", "a")), `!cannot represent the record in customizer rows: the format holds only preferences and demonstrations`},
		{"kto", kto, Options{}, withTools, `{"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "\u00e9"}], "completion": [{"role": "assistant", "content": "c"}], "label": true, "tools": [{"name":"f f"}]}
{"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "\u00e9"}], "completion": [{"role": "assistant", "content": "r"}], "label": false, "tools": [{"name":"f f"}]}`},
		{"kto plain text", kto, Options{TextPrompt: PlainText}, preference(text("p"), text("c"), text("r")), `{"prompt": "p", "completion": "c", "label": true}
{"prompt": "p", "completion": "r", "label": false}`},
		{"kto plain text, messages", kto, Options{TextPrompt: PlainText}, preference(chatPrompt, text("c"), text("r")), `!cannot represent the record in kto rows: a file with prompt_as: text holds only plain text, but this record has messages`},
		{"kto demonstration", kto, Options{}, demo(builders.TrainAll), `!cannot represent the record in kto rows: the format holds only preferences and rollouts`},
		{"kto rollout", kto, Options{}, labelled("true"), `{"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}], ` +
			`"completion": [{"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"a":1}}}]}, ` +
			`{"role": "tool", "content": "x"}, {"role": "assistant", "content": "y"}], "label": true}`},
		{"kto rollout with a turn that wasn't sampled", kto, Options{}, between, "!cannot represent the record in kto rows: message 4, between sampled turns, was not sampled, but the trainer trains on all of a completion"},
		{"kto rollout without a label", kto, Options{}, labelled("null"), "!cannot represent the record in kto rows: cannot label the rollout good or bad: it lacks a reward, or all rollouts of its task have the same reward (the builder's good_from sets which rewards are good)"},
		{"kto rollout without a prompt", kto, Options{}, rollout("t", 1, says("assistant", "a")), `!cannot represent the record in kto rows: missing prompt: no message comes before the first sampled turn`},
		{"kto rollout as text", kto, Options{TextPrompt: PlainText}, labelled("true"), `!cannot represent the record in kto rows: a file with prompt_as: text holds only plain text, but this record has messages`},
		{"kto two turns", kto, Options{}, preference(text("p"), text("c"), messages(call, says("tool", "x"))), `!cannot represent the record in kto rows: the rejected side doesn't begin and end with an assistant turn`},
		{
			"kto several turns", kto,
			Options{},
			preference(text("p"), text("c"), several),
			`{"prompt": [{"role": "user", "content": "p"}], "completion": [{"role": "assistant", "content": "c"}], "label": true}` + "\n" +
				`{"prompt": [{"role": "user", "content": "p"}], "completion": [{"role": "assistant", "content": null, "tool_calls": ` +
				`[{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"a":1}}}]}, ` +
				`{"role": "tool", "content": "x"}, {"role": "assistant", "content": "y"}], "label": false}`,
		},
		{"trl several turns", trl, Options{}, preference(text("p"), several, text("r")), `{"prompt": [{"role": "user", "content": "p"}], ` +
			`"chosen": [{"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", ` +
			`"function": {"name": "f", "arguments": {"a":1}}}]}, {"role": "tool", "content": "x"}, ` +
			`{"role": "assistant", "content": "y"}], "rejected": [{"role": "assistant", "content": "r"}]}`},
		{"verl demonstration", verl, Options{}, demo(builders.TrainAll, says("user", "q"), says("assistant", "a"), says("user", "r"), says("assistant", "b")), `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "r"}, {"role": "assistant", "content": "b"}]}`},
		{"verl demonstration of one turn", verl, Options{}, demo(builders.TrainLast, says("user", "q"), says("assistant", "a"), says("assistant", "b")), `!cannot represent the record in verl rows: the trainer trains on every assistant turn, but the first one, message 1, is context only`},
		{"verl demonstration of a call", verl, Options{}, demo(builders.TrainAll, says("user", "q"), call), `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"a":1}}}]}]}`},
		{"verl preference", verl, Options{}, withTools, `!cannot represent the record in verl rows: the format holds only demonstrations, and the prompts of rollouts and states`},
		{"verl rollout", verl, Options{}, rollout("t", 1, says("user", "q"), says("assistant", "a")), `{"data_source": "grpo", "prompt": [{"role": "user", "content": "q"}], "ability": "agent", "reward_model": {"style": "model", "ground_truth": ""}, "extra_info": {"split": "train", "index": 7, "task": "t", "example": "t/0"}}`},
		{"verl rollout with a truth", verl, Options{}, truth, `{"data_source": "grpo", "prompt": [{"role": "user", "content": "2+2?"}], "ability": "agent", "reward_model": {"style": "rule", "ground_truth": "4 \u20ac"}, "extra_info": {"split": "train", "index": 7, "task": "t", "example": "t/0", "tools": "[{\"name\":\"f f\"}]"}}`},
		{"verl rollout without a prompt", verl, Options{}, rollout("t", 1, says("assistant", "a")), `!cannot represent the record in verl rows: missing prompt: no message comes before the first sampled turn`},
		{"verl state", verl, Options{}, state("t", says("user", "q"), call, says("tool", "x")), `{"data_source": "grpo", "prompt": [{"role": "user", "content": "q"}, {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"a":1}}}]}, {"role": "tool", "content": "x"}], "ability": "agent", "reward_model": {"style": "model", "ground_truth": ""}, "extra_info": {"split": "train", "index": 7, "task": "t", "example": "t/0", "state": "{\"at\": \"turns\", \"agent_ref\": {\"name\": \"a\"}}"}}`},
		{"nemo_gym without ids", nemoGym, Options{}, state("t", says("user", "q"), call, says("tool", "x")), `!cannot represent the record in nemo_gym rows: the tool message lacks its call's id`},
		{"nemo_gym", nemoGym, Options{}, state("t", says("user", "q"), spoken, answer), `{"responses_create_params": {"input": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "I look."}, {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{\"a\": 1}"}, {"type": "function_call_output", "call_id": "1", "output": "x"}]}, "agent_ref": {"name":"a"}, "task": "t", "state": "{\"at\":\"turns\",\"agent_ref\":{\"name\":\"a\"}}"}`},
		{"nemo_gym with reasoning", nemoGym, Options{}, thinking, `{"responses_create_params": {"input": [{"role": "user", "content": "q"}, ` +
			`{"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "so"}]}, ` +
			`{"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}, ` +
			`{"type": "function_call_output", "call_id": "1", "output": "x"}], ` +
			`"tools": [{"type": "function", "name": "f", "parameters": null, "strict": null}]}, ` +
			`"agent_ref": {"name":"a"}, "task": "t", "state": "{\"at\":\"turns\",\"agent_ref\":{\"name\":\"a\"}}"}`},
		{"nemo_gym of another role", nemoGym, Options{}, state("t", says("critic", "q")), `!cannot represent the record in nemo_gym rows: message 0 has the role "critic", which the consumer does not support`},
		{"nemo_gym preference", nemoGym, Options{}, withTools, `!cannot represent the record in nemo_gym rows: the format holds only states: prompts made of messages, without an answer`},
		{"trl_prompts without a template", trlPrompts, Options{}, state("t", says("user", "q")), `!cannot represent the record in trl_prompts rows: the format's prompts are rendered with the model's template: specify the model's folder (collator.tokenizer)`},
		{"trl_prompts with a truth", trlPrompts, Options{Render: plainTemplate(t)}, checked, `{"prompt": "<user>q<assistant>", "task": "t", "state": "{\"at\":\"turns\",\"agent_ref\":{\"name\":\"a\"}}", "ground_truth": "{\"total\":4}"}`},
		{"trl_prompts", trlPrompts, Options{Render: plainTemplate(t)}, state("t", says("user", "q")), `{"prompt": "<user>q<assistant>", "task": "t", "state": "{\"at\":\"turns\",\"agent_ref\":{\"name\":\"a\"}}"}`},
		{"atropos without ids", atropos, Options{}, rollout("t", 1, says("user", "q"), says("assistant", "a")), `!cannot represent the record in atropos rows: message 0 of rollout 0 has no token ids: use token batches (collator.tokenizer) instead`},
		{"atropos", atropos, Options{}, withIDs(rollout("t", 0.5, says("user", "q"), says("assistant", "a"))), `{"tokens": [[0, 1, 10, 11]], "masks": [[-100, -100, 10, 11]], "scores": [0.5], "inference_logprobs": [[1.0, 1.0, -9999, -0.25]]}`},
		{"atropos without a reward", atropos, Options{}, unscored, `!cannot represent the record in atropos rows: rollout 0 of the task has no reward`},
		{"trl text", trl, Options{}, preference(text("p"), text("c"), text("r")), `{"prompt": [{"role": "user", "content": "p"}], "chosen": [{"role": "assistant", "content": "c"}], "rejected": [{"role": "assistant", "content": "r"}]}`},
		{"trl plain text", trl, Options{TextPrompt: PlainText}, preference(text("p"), text("c"), text("r")), `{"prompt": "p", "chosen": "c", "rejected": "r"}`},
		{"trl plain text, messages", trl, Options{TextPrompt: PlainText}, preference(chatPrompt, text("c"), text("r")), `!cannot represent the record in trl rows: a file with prompt_as: text holds only plain text, but this record has messages`},
		{"trl plain text, tools", trl, Options{TextPrompt: PlainText}, toolsOf(preference(text("p"), text("c"), text("r"))), `!cannot represent the record in trl rows: a file with prompt_as: text holds only plain text, but this record has tools`},
		{"trl demonstration with prompt_as: text", trl, Options{TextPrompt: PlainText}, toolsOf(demo(builders.TrainAll, says("user", "q"), says("assistant", "a"))), `{"prompt": [{"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content": "a"}], "tools": [{"name":"f f"}]}`},
		{"trl tools", trl, Options{}, withTools, `{"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "\u00e9"}], "chosen": [{"role": "assistant", "content": "c"}], "rejected": [{"role": "assistant", "content": "r"}], "tools": [{"name":"f f"}]}`},
		{"trl call as a side", trl, Options{}, preference(text("p"), messages(call), text("r")), `{"prompt": [{"role": "user", "content": "p"}], "chosen": [{"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"a":1}}}]}], "rejected": [{"role": "assistant", "content": "r"}]}`},
		{"trl two turns", trl, Options{}, preference(text("p"), messages(call, says("tool", "x")), text("r")), `!cannot represent the record in trl rows: the chosen side doesn't begin and end with an assistant turn`},
		{"nemo_rl", nemoRL, Options{}, preference(chatPrompt, text("c"), messages(says("assistant", "r"))), `{"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "\u00e9"}], "chosen": "c", "rejected": "r"}`},
		{"nemo_rl text", nemoRL, Options{}, preference(text("p"), text("c"), text("r")), `{"prompt": [{"role": "user", "content": "p"}], "chosen": "c", "rejected": "r"}`},
		{"nemo_rl plain text", nemoRL, Options{TextPrompt: PlainText}, preference(text("p"), text("c"), text("r")), `{"prompt": "p", "chosen": "c", "rejected": "r"}`},
		{"nemo_rl plain text, messages", nemoRL, Options{TextPrompt: PlainText}, preference(chatPrompt, text("c"), text("r")), `!cannot represent the record in nemo_rl rows: a file with prompt_as: text holds only plain text, but this record has messages`},
		{"arguments of two values", trl, Options{}, preference(text("p"), messages(arguments(`{"a": 1} {"b": 2}`)), text("r")), `!cannot represent the record in trl rows: the arguments of a call to "f" are not a JSON object`},
		{"arguments that are not UTF-8", trl, Options{}, preference(text("p"), messages(arguments("{\"a\": \"\xff\"}")), text("r")), `!cannot represent the record in trl rows: the arguments of a call to "f" are not a JSON object`},
		{"arguments with half a surrogate pair", trl, Options{}, preference(text("p"), messages(arguments("{\"a\": \"\xed\xa0\x80\"}")), text("r")), `!cannot represent the record in trl rows: the arguments of a call to "f" are not a JSON object`},
		{"arguments that are cut off", customizer, Options{}, demo(builders.TrainAll, says("user", "q"), arguments(`{"a": [1`), says("assistant", "a")), `!cannot represent the record in customizer rows: the arguments of a call to "f" are not a JSON object`},
		{"a text that is not UTF-8", trl, Options{}, preference(text("p"), text("c\xff"), text("r")), `!cannot represent the record in trl rows: the text "c\xff" is not UTF-8`},
		{"nemo_rl calls", nemoRL, Options{}, preference(text("p"), messages(call), text("r")), `!cannot represent the record in nemo_rl rows: the assistant message has tool calls`},
		{"nemo_rl_ranked", nemoRLRanked, Options{}, preference(text("p"), text("c"), text("r")), `{"context": [{"role": "user", "content": "p"}], "completions": [{"rank": 0, "completion": [{"role": "assistant", "content": "c"}]}, {"rank": 1, "completion": [{"role": "assistant", "content": "r"}]}]}`},
		{"openai", openAI, Options{}, preference(text("p"), messages(call), text("r")), `{"input": {"messages": [{"role": "user", "content": "p"}]}, "preferred_output": [{"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}], "non_preferred_output": [{"role": "assistant", "content": "r"}]}`},
		{"openai tools", openAI, Options{}, withTools, `{"input": {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "\u00e9"}], "tools": [{"name":"f f"}]}, "preferred_output": [{"role": "assistant", "content": "c"}], "non_preferred_output": [{"role": "assistant", "content": "r"}]}`},
		{"trl demonstration", trl, Options{}, demo(builders.TrainAll, says("user", "q"), says("assistant", "a")), `{"prompt": [{"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content": "a"}]}`},
		{"trl demonstration of two turns", trl, Options{}, demo(builders.TrainAll, says("user", "q"), says("assistant", "a"), says("user", "q"), says("assistant", "a")), `{"prompt": [{"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content": "a"}]}
{"prompt": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content": "a"}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := NewEncoder(c.format, c.opts)
			e.Begin()
			for range 2 { // the second time using the texts already escaped
				got, n, err := e.Append([]byte("x"), Train, c.record)
				if why, refused := strings.CutPrefix(c.want, "!"); refused {
					var cannot *CannotCarry
					if !errors.As(err, &cannot) || err.Error() != why || string(got) != "x" {
						t.Fatalf("got %q, %v; want refusal %q", got, err, why)
					}
					continue
				}
				if err != nil || string(got) != "x"+c.want || n != 1+strings.Count(c.want, "\n") {
					t.Fatalf("got  %s, %v\nwant x%s", got, err, c.want)
				}
				for line := range strings.Lines(string(got[1:])) {
					row, err := c.format.Read([]byte(line))
					if err != nil || row.Kind != c.record.Record.Kind() && row.Label == nil {
						t.Errorf("can't be read back: %v: %s", err, line)
					}
				}
			}
		})
	}
}

// arguments returns a call whose arguments a plugin sent already parsed.
func arguments(parsed string) chat.Message {
	return chat.Message{
		Role:      "assistant",
		Form:      chat.Null,
		ToolCalls: []chat.ToolCall{{ID: "1", Name: "f", Parsed: natjson.Raw(parsed)}},
	}
}

func TestRowsHoldTheTextsTheyWereGiven(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		s := rapid.StringOf(rapid.Rune()).Draw(t, "text")
		e := NewEncoder(customizer, Options{})
		row, _, err := e.Append(nil, Train, preference(text(s), text(s+"c"), text(s+"r")))
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
