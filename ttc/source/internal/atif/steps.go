package atif

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// newest is the latest version of the format that has been tested.
const newest = "1.8"

// maxDepth is the maximum depth to which sub-trajectories are followed.
const maxDepth = 20

// steps builds calls from trajectory steps.
type steps struct {
	tally *source.Tally
	s     *calls.Session
	part  session.Kept

	agent   string
	model   string
	tools   []chat.Tool
	history []calls.Ref
	system  bool
	altered bool // a result in the history contains text added by a converter
}

func (t *steps) add(trajectory json.Raw, agent string, depth int) {
	version := session.Text(trajectory, "schema_version")
	t.tally.Wrote(source.Version{Program: "ATIF", Number: strings.TrimPrefix(version, "ATIF-v"), Newest: newest})
	t.agent, t.model = agent, session.Text(trajectory, "agent", "model_name")
	t.tools = exchange.Tools(session.At(trajectory, "agent", "tool_definitions"))
	if session.At(trajectory, "continued_trajectory_ref").Kind() == json.String {
		t.tally.CountUnread("continued_trajectory_ref", 1)
	}
	n := int64(0)
	for step := range session.At(trajectory, "steps").Elements() {
		if n++; t.s.TooLarge() {
			return
		}
		t.step(step, n)
	}
	for i, sub := range slices.Collect(session.At(trajectory, "subagent_trajectories").Elements()) {
		if depth == maxDepth {
			t.tally.CountUnread("sub-trajectories too deep", 1)
			break
		}
		name := cmp.Or(session.Text(sub, "trajectory_id"), fmt.Sprint(i+1))
		if agent != "" {
			name = agent + "/" + name
		}
		(&steps{tally: t.tally, s: t.s, part: t.part}).add(sub, name, depth+1)
	}
}

// step adds a step; n is its number.
func (t *steps) step(step json.Raw, n int64) {
	body := session.At(step, "message")
	if from := session.Text(step, "source"); from != "agent" {
		if from != "system" && from != "user" {
			t.tally.CountUnread("steps of "+from, 1)
			return
		}
		t.system = t.system || from == "system"
		t.say(calls.Message{Message: exchange.Content(from, body)})
		return
	}
	answer := exchange.Content("assistant", body)
	exchange.Think(&answer, session.Text(step, "reasoning_content"))
	for c := range session.At(step, "tool_calls").Elements() {
		answer.ToolCalls = append(answer.ToolCalls, exchange.CallOf(c, "tool_call_id", "function_name", "arguments"))
	}
	exchange.NullIfEmpty(&answer)
	results := results(step)
	if why, detail := untrainedReason(step); why != "" {
		t.tally.DropCall(why, detail, t.s.ID, t.part.Path, t.part.Offset)
	} else {
		t.call(step, answer, n)
	}
	t.say(calls.Message{Message: answer})
	for _, m := range results {
		t.say(m)
	}
}

func (t *steps) say(m calls.Message) {
	t.history = append(t.history, t.s.Message(m))
	t.altered = t.altered || m.Role == "tool" && alteredText(m.Text)
}

// untrainedReason returns the reason why a step's answer is not trained on: it is a copy, or was not produced by
// exactly one call.
func untrainedReason(step json.Raw) (ledger.Reason, string) {
	if copied, _ := session.Value(step, "is_copied_context").Bool(); copied {
		return session.CopiedCall, "the step is copied context"
	}
	if n, ok := session.Value(step, "llm_call_count").Int64(); ok && n != 1 {
		return severalCalls, fmt.Sprintf("the step represents %d calls", n)
	}
	return "", ""
}

func (t *steps) call(step json.Raw, answer chat.Message, n int64) {
	c := calls.Call{
		Agent: t.agent, Model: cmp.Or(session.Text(step, "model_name"), t.model),
		Time:  cmp.Or(session.Nanoseconds(session.Text(step, "timestamp")), n),
		Tools: t.tools, Output: answer, Input: t.history, File: t.part.Path, Offset: t.part.Offset,
	}
	if t.tools == nil {
		c.Gaps |= ttc.NoTools
	}
	if !t.system {
		c.Gaps |= ttc.NoSystem
	}
	if answer.ToolCalls != nil {
		c.Gaps |= ttc.ParsedArguments
	}
	if t.altered {
		c.Gaps |= ttc.AlteredResults
	}
	metrics := session.At(step, "metrics")
	number := func(key string) int64 { f, _ := session.At(metrics, key).Float64(); return int64(f) }
	c.Usage = calls.Usage{Input: number("prompt_tokens"), Output: number("completion_tokens")}
	ids, probs := session.At(metrics, "completion_token_ids"), session.At(metrics, "logprobs")
	c.TokenIDs, c.LogProbs = exchange.Tokens(ids, probs)
	t.s.Add(c)
}

// results returns the results of a step's calls; the format keeps them in the step itself.
func results(step json.Raw) (out []calls.Message) {
	for e := range session.At(step, "observation", "results").Elements() {
		m := calls.Message{Message: exchange.Content("tool", session.At(e, "content"))}
		m.ToolCallID = session.Text(e, "source_call_id")
		if m.ToolCallID == "" { // without a call id, the entry isn't the result of a call
			m.Role = "user"
		}
		if failed, ok := session.Value(session.At(e, "extra"), "tool_result_is_error").Bool(); ok {
			m.Error = &failed
		}
		out = append(out, m)
	}
	return out
}

// alteredText reports whether a converter added its own text to a result.
func alteredText(text string) bool {
	return strings.Contains(text, "[stdout]") || strings.Contains(text, "[metadata]")
}
