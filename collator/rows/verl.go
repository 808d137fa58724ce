package rows

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// verl is the format of verl's RLHFDataset and MultiTurnSFTDataset (verl 0.9, verl/utils/dataset): Parquet with one
// prompt per task, for which the trainer itself samples answers, and Parquet with conversations.
//
// A conversation without tools or calls is a column of {role, content}, which verl reads directly. Others are columns
// of JSON: with typed columns, Parquet would give every tool definition and every call's arguments the keys of all the
// others, with nulls in the gaps, and chat templates print the nulls. verl's own class fails on JSON columns;
// natgo.verl parses them (data.custom_cls).
//
// The messages of a rollout's prompt have only role and content, and those of a state's prompt are like a
// conversation's. The tools of a prompt are kept in extra_info, for the file that tool_config_path names, because
// RLHFDataset doesn't read them from rows.
//
// reward_model.ground_truth is the record's metadata value of that name, or else its example's, with the style
// "rule". If neither has the value, the field is empty and the style is "model", so that a rule-based reward is never
// silently compared with an empty string.
var verl = Format{
	Name:     "verl",
	Consumer: "verl (RLHFDataset, MultiTurnSFTDataset)",
	Shape:    `Parquet: {"data_source", "prompt": [{role, content}], "ability", "reward_model": {style, ground_truth}, "extra_info"}; sft*.parquet: {"messages": [messages], "tools": [definitions]}`,
	Carries:  []builders.Kind{builders.KindDemonstration, builders.KindRollout, builders.KindState},
	Prompts:  true,
	Files: func(k builders.Kind, s Split) string {
		if k == builders.KindState {
			return "states_" + s.String() + ".parquet"
		}
		return fileName(k, s) + ".parquet"
	},
	holds:    "demonstrations, and the prompts of rollouts and states",
	encode:   (*Encoder).verlRow,
	read:     (*rowReader).verl,
	columns:  verlColumns,
	together: verlPrompt,
}

func verlColumns(k builders.Kind, c columns) parquet.Group {
	if k == builders.KindDemonstration {
		return c.withTools(parquet.Group{"messages": c.messages()})
	}
	prompt := plainMessages
	if k == builders.KindState {
		prompt = c.messages()
	}
	return parquet.Group{
		"data_source":  parquet.String(),
		"prompt":       prompt,
		"ability":      parquet.String(),
		"reward_model": parquet.Group{"style": parquet.String(), "ground_truth": parquet.String()},
		"extra_info": parquet.Group{
			"split": parquet.String(), "index": parquet.Int(64), "task": parquet.String(),
			"example": parquet.String(), "tools": parquet.Optional(parquet.String()),
			"state": parquet.Optional(parquet.String()),
		},
	}
}

// verlPrompt returns a key for a rollout's task and prompt. Rollouts with the same key share a row.
func verlPrompt(r *builders.Resolved) string {
	rollout, ok := r.Record.(*builders.Rollout)
	if !ok {
		return ""
	}
	var b strings.Builder
	b.WriteString(rollout.Task)
	for _, n := range beforeSampled(r.Messages.Nodes) {
		m := asText(&n.Message)
		b.WriteString("\x00" + m.Role + "\x00" + m.Name + "\x00" + m.Reasoning + "\x00" + m.Text)
	}
	return b.String()
}

// beforeSampled returns the messages before the first sampled one, or none if no message was sampled.
func beforeSampled(nodes []ttc.Node) []ttc.Node {
	return nodes[:max(0, slices.IndexFunc(nodes, func(n ttc.Node) bool { return isSampled(&n) }))]
}

func (e *Encoder) verlRow(dst []byte, r *builders.Resolved) []byte {
	switch record := r.Record.(type) {
	case *builders.Rollout:
		prompt := beforeSampled(r.Messages.Nodes)
		if len(prompt) == 0 {
			return e.refused(dst, "missing prompt: no message comes before the first sampled turn")
		}
		return e.verlTask(dst, r, prompt, record.Task)
	case *builders.State:
		return e.verlTask(dst, r, r.Messages.Nodes, e.prompted(r).Task)
	}
	return e.chatRow(dst, r)
}

// verlTask writes the prompt shared by the rollouts of one task, or a state. Only a state may contain calls.
func (e *Encoder) verlTask(dst []byte, r *builders.Resolved, prompt []ttc.Node, task string) []byte {
	start, state := len(dst), r.Record.Kind() == builders.KindState
	dst = e.member(dst, `{"data_source": `, r.Origin.Builder)
	if dst = append(dst, `, "prompt": `...); state {
		dst = e.fullMessages(dst, prompt)
	} else {
		dst = e.plainMessages(dst, prompt, e.bare)
	}
	style, truth := "model", ""
	for _, x := range e.records {
		if text, ok := truthOf(x); ok {
			style, truth = "rule", text
			break
		}
	}
	dst = append(append(append(dst, `, "ability": "agent", "reward_model": {"style": "`...), style...), `", "ground_truth": `...)
	dst = json.AppendASCII(dst, truth)
	dst = append(append(append(dst, `}, "extra_info": {"split": "`...), e.split.String()...), `", "index": `...)
	dst = strconv.AppendInt(dst, r.Origin.Row, 10)
	dst = json.AppendASCII(append(dst, `, "task": `...), task)
	dst = json.AppendASCII(append(dst, `, "example": `...), r.Origin.Example)
	dst = e.appendToolsText(dst, r.Origin.Tools)
	if state {
		dst = json.AppendASCII(append(dst, `, "state": `...), cmp.Or(string(r.Record.Header().Metadata), "{}"))
	}
	e.lone = loneSurrogate(dst[start:]) // this misses those in tools, whose escapes are escaped again
	return append(dst, "}}"...)
}

// truthOf returns the value against which a checker compares answers to a record's prompt, and whether there is one. It
// comes from the record's metadata or, if it is missing there, from the record's example.
func truthOf(r *builders.Resolved) (string, bool) {
	truth := r.Origin.Truth
	if v, ok := r.Record.Header().Metadata.Get("ground_truth"); ok && v.Kind() == json.String {
		truth = v
	}
	if truth.Kind() == json.String {
		return truth.Text()
	}
	return string(json.AppendCompact(nil, truth)), truth != nil
}

// bare rejects messages that have more than role and content.
func (e *Encoder) bare(m *chat.Message) {
	switch {
	case len(m.ToolCalls) > 0 || m.ToolCallID != "":
		e.refuse("the %s message is part of a tool call, whose shape Parquet would change", m.Role)
	case plainMessage(m) != "":
		e.refuse("the %s message %s", m.Role, plainMessage(m))
	}
}

func (r *rowReader) verl() *Row {
	r.parsed = true
	if r.has("messages") {
		return r.chat()
	}
	kind, check := builders.KindRollout, plainMessage
	if info := r.fields["extra_info"]; info.Kind() == json.Object {
		if _, ok := info.Get("state"); ok {
			kind, check = builders.KindState, fullMessage
		}
	}
	row := &Row{Kind: kind, Prompt: r.passage("prompt", check)}
	if row.Prompt.IsText() || len(row.Prompt.Nodes) == 0 {
		r.fail("prompt", "has no messages")
	}
	r.take("data_source", json.String)
	r.take("ability", json.String)
	model := r.object("reward_model", r.take("reward_model", json.Object))
	if style := model.take("style", json.String); !style.Is("rule") && !style.Is("model") {
		model.fail("style", "is invalid: expected rule or model")
	}
	model.take("ground_truth", json.String)
	r.adopt("reward_model", model)
	info := r.take("extra_info", json.Object) // the trainer passes extra_info to reward functions
	if v, ok := info.Get("tools"); ok {
		text, _ := v.Text()
		if list, err := json.Parse([]byte(text), json.Limits{}); err == nil {
			for tool := range list.Elements() {
				r.listed = append(r.listed, chat.Tool{Raw: tool})
			}
		}
	}
	return row
}
