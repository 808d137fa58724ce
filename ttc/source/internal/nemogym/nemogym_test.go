package nemogym

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc"
)

// rollout returns a line with the given additional keys and response items.
func rollout(more string, items ...string) string {
	return `{"responses_create_params":{"instructions":"s","input":"q","tools":[{"type":"function","name":"f",` +
		`"parameters":{}}]},"response":{"id":"r1","model":"m","created_at":100,"output":[` + strings.Join(items, ",") +
		`],"usage":{"input_tokens":7,"output_tokens":3}}` + more + "}\n"
}

func asks(id, ids string) string {
	return `{"type":"function_call","call_id":"` + id + `","name":"f","arguments":"{ \"a\": 1}"` + ids + `}`
}

func result(id, text string) string {
	return `{"type":"function_call_output","call_id":"` + id + `","output":"` + text + `"}`
}

func says(text, ids string) string {
	return `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"` + text + `"}]` + ids + `}`
}

const ids = `,"generation_token_ids":[1,2],"generation_log_probs":[-1,-0.5]`

func TestTurns(t *testing.T) {
	r := sessiontest.One(t, Factory(), "rollouts.jsonl", rollout(
		`,"reward":0.5,"_ng_task_index":3,"_ng_rollout_index":1,"agent_ref":{"name":"desk"}`,
		says("I look.", ""), asks("c1", ids), asks("c2", ""), result("c1", "x"), result("c2", "y"), says("done", ids),
	), "s / q / I look.[c1][c2]* / c1=x / c2=y / done*")
	ex := r.Examples[0]
	if ex.ID != "desk/3/1" || ex.Task != "desk/3" || ex.Trial != "1" || *ex.Reward != 0.5 || ex.Policy != "m" {
		t.Errorf("%+v", ex)
	}
	if ex.Fidelity != ttc.IDsLogProbs || len(ex.Tools) != 1 {
		t.Errorf("%s, %d tools", ex.Fidelity, len(ex.Tools))
	}
	for i, want := range map[int]string{2: "tool_calls", 5: "stop"} {
		n := ex.Graph.Nodes[i]
		if n.FinishReason != want || !cmp.Equal(n.TokenIDs, []int32{1, 2}) ||
			!cmp.Equal(n.LogProbs, []float32{-1, -0.5}) {
			t.Errorf("node %d: %+v", i, n)
		}
	}
	if got := ex.Graph.Nodes[2].Message.ToolCalls[0].Arguments; got != `{ "a": 1}` {
		t.Error(got)
	}
}

// TestReasoning: the servers of open models write the model's reasoning as a summary; if there is none, that is a gap.
func TestReasoning(t *testing.T) {
	for _, c := range []struct{ item, reasoning, gaps string }{
		{`{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]}`, "hm", ""},
		{`{"type":"reasoning","summary":[],"encrypted_content":"x"}`, "", "hidden_reasoning"},
	} {
		t.Run(c.item, func(t *testing.T) {
			r := sessiontest.One(t, Factory(), "rollouts.jsonl", rollout("", c.item, says("a", "")), "s / q / a*")
			ex := r.Examples[0]
			if ex.Graph.Nodes[2].Message.Reasoning != c.reasoning || strings.Join(ex.Gaps.Names(), " ") != c.gaps {
				t.Errorf("%s: %+v, %v", c.item, ex.Graph.Nodes[2].Message, ex.Gaps.Names())
			}
		})
	}
}

// TestUnreadItems: an item that isn't understood is a gap for the answers that follow it.
func TestUnreadItems(t *testing.T) {
	const item = `{"type":"web_search_call"}`
	for name, c := range map[string]struct {
		text string
		gaps ttc.Gaps
	}{
		"none":   {rollout("", says("a", "")), 0},
		"before": {rollout("", item, says("a", "")), ttc.RebuiltHistory},
		"given": {
			strings.Replace(rollout("", says("a", "")), `"q"`, `[{"role":"user","content":"q"},`+item+`]`, 1),
			ttc.RebuiltHistory,
		},
		"after": {rollout("", asks("c", ""), result("c", "x"), item), 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := sessiontest.ReadText(t, Factory(), "rollouts.jsonl", c.text)
			if got := r.Examples[0].Gaps; got != c.gaps {
				t.Errorf("got %v, want %v", got.Names(), c.gaps.Names())
			}
		})
	}
}

func TestWhatIsNotARollout(t *testing.T) {
	good := rollout(`,"reward":1`, says("a", ""))
	for name, c := range map[string]struct{ text, dropped, unread string }{
		"masked": {
			rollout(`,"mask_sample":true`, asks("c", ""), result("c", "x"), says("a", "")),
			"map[call:map[masked_sample:2]]", "map[]",
		},
		"failed": {
			`{"responses_create_params":{"input":"q"},"response":null,"reward":0}`,
			"map[call:map[failed_call:1]]", "map[]",
		},
		"a placeholder": {"<PLACEHOLDER ROW>\n" + good, "map[line:map[unread_line:1]]", "map[]"},
		"another line":  {good + `{"a":1}`, "map[]", "map[lines that are not rollouts:1]"},
		"another item": {
			rollout("", `{"type":"web_search_call"}`, says("a", "")),
			"map[]", "map[items of type web_search_call:1]",
		},
		"odd values": {
			`{"responses_create_params":{"input":3,"tools":{}},"response":{"output":[1,{},` +
				`{"type":"message","role":"assistant"}]}}`,
			"map[]", "map[]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := sessiontest.ReadText(t, Factory(), "rollouts.jsonl", c.text)
			if got := fmt.Sprint(r.Stats.Dropped); got != c.dropped {
				t.Errorf("%s: got %s, want %s", name, got, c.dropped)
			}
			if got := fmt.Sprint(r.Stats.Unread); got != c.unread && c.unread+got != "map[]map[]" {
				t.Errorf("%s: got %s, want %s", name, got, c.unread)
			}
		})
	}
}

// TestRecorded reads the rollouts that NeMo Gym ships, and compares the calls with the items in the files.
func TestRecorded(t *testing.T) {
	dir := sessiontest.Recorded(t, "nemo_gym")
	for name, want := range map[string]struct {
		examples, calls int
		rewards         []float64
		first           int // messages
	}{
		"example_multi_step":            {2, 8, []float64{1, 1}, 9},
		"example_tool_call_multireward": {2, 4, []float64{2, 2}, 5},
		"ruler":                         {2, 2, []float64{0, 0}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := sessiontest.Read(t, Factory(), dir+"/"+name+".example_rollouts.jsonl")
			var rewards []float64
			trained := 0
			for _, ex := range r.Examples {
				rewards = append(rewards, *ex.Reward)
				for _, n := range ex.Graph.Nodes {
					if n.Sampled == ttc.Yes {
						trained++
					}
				}
			}
			if len(r.Examples) != want.examples || trained != want.calls || !slices.Equal(rewards, want.rewards) ||
				len(r.Stats.Dropped) != 0 || len(r.Examples[0].Graph.Nodes) != want.first {
				t.Errorf("%s: %d examples, %d calls, %v, %d messages, %+v", name, len(r.Examples), trained, rewards,
					len(r.Examples[0].Graph.Nodes), r.Stats)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add(rollout(`,"reward":1`, asks("c", ids), result("c", "x"), says("a", ids)))
	f.Fuzz(func(t *testing.T, text string) {
		sessiontest.Balanced(t, sessiontest.ReadText(t, Factory(), "rollouts.jsonl", text+"\n"))
	})
}
