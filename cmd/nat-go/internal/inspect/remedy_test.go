package inspect_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
)

// TestRemedies checks that each builder that makes nothing of an input says what would change that.
func TestRemedies(t *testing.T) {
	rollout := func(task, reward, user, act string) string {
		return `{"task": "` + task + `", "reward": ` + reward + `, "messages": [{"role": "user", "content": "` + user + `"}, ` + act + `]}` + "\n"
	}
	says := func(text string) string { return `{"role": "assistant", "content": "` + text + `"}` }
	calls := func(result, then string) string {
		return `{"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", ` +
			`"arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "1", "content": "` + result + `"}, ` + then
	}
	for name, c := range map[string]struct {
		text string
		want map[string]string // by builder, a part of its remedy
		also string
	}{
		"rollouts that can be compared": {
			rollout("t", "0", "q", says("x")) + rollout("t", "1", "q", says("y")),
			map[string]string{
				"dpo":  "--builder divergence` makes 1",
				"sdpo": "tool calls that failed: give traces with tool_calls",
			},
			"2 rollouts with rewards",
		},
		"all failed": {
			rollout("t", "0", "q", says("x")) + rollout("t", "0", "q", says("y")),
			map[string]string{
				"sft":        "--builder sft -o trajectory_builders.sft.select=all` makes 2",
				"dpo":        "another answer to the same prompt",
				"divergence": "give several rollouts the same task, and each its score",
			},
			"2 rollouts with rewards",
		},
		"no scores": {
			`{"messages": [{"role": "user", "content": "q"}, ` + calls("fine", says("x")) + "]}\n",
			map[string]string{
				"divergence": "-o dataset.scores.path=SCORES.jsonl",
				"sdpo":       "sdpo.detect.match=[{pattern: WORDS}]",
			},
			"",
		},
		"a failed call": {
			rollout("t", "1", "q", calls("Error: no seats are left on this flight", says("Sorry, that failed."))),
			map[string]string{"sdpo": ""},
			"1 rollout with rewards: add --builder grpo, and --format kto to label them good or bad; 1 site with hints",
		},
		"answers": {
			`{"prompt": "p", "output": "x", "score": 1}` + "\n" + `{"prompt": "p", "output": "y", "score": 0}` + "\n",
			map[string]string{
				"divergence": "`nat-go run IN --builder dpo` makes 1",
			},
			"1 demonstration: add --builder sft",
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(writeAll(t, map[string]string{"in.jsonl": c.text}), "in.jsonl")
			r, err := inspect.Look(context.Background(), inspect.Options{Paths: []string{path}})
			if err != nil {
				t.Fatal(err)
			}
			for _, y := range r.Builders {
				remedy := strings.ReplaceAll(y.Remedy, path, "IN")
				if (y.Records == 0) != (remedy != "") {
					t.Errorf("%s makes %d, and its remedy is %q", y.Name(), y.Records, remedy)
				}
				if !strings.Contains(remedy, c.want[y.Name()]) {
					t.Errorf("%s: got %q, want %q", y.Name(), remedy, c.want[y.Name()])
				}
			}
			if got := strings.Join(r.Also(), "; "); !strings.Contains(got, c.also) {
				t.Errorf("also: got %q, want %q", got, c.also)
			}
		})
	}
}
