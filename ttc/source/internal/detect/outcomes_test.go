package detect_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/source/internal/candidates"
	"github.com/nat-go/nat-go/ttc/source/internal/detect"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
	"github.com/nat-go/nat-go/ttc/source/internal/traces"
)

// conversation is what every planted row has, beside what is planted.
const conversation = `"messages": [{"role": "user", "content": "mend it"}, {"role": "assistant", "content": "done %d"}], ` +
	`"instance_id": "a"`

// planted are files whose rows have something that looks like the outcome of a rollout and isn't. A line is what a row
// has beside its conversation.
var planted = map[string][]string{
	"tool results": {
		`"tool_name": "bash", "success": true
		"tool_name": "bash", "success": false`,
		`"tool_result": {"success": true}
		"tool_result": {"success": false}`,
		`"result": {"success": true, "output": "x"}
		"result": {"success": false, "output": "y"}`,
		`"tool_call_id": "call_1", "passed": 1
		"tool_call_id": "call_2", "passed": 0`,
		`"result": "{\"is_error\": false}"
		"result": "{\"is_error\": true}"`,
		`"exit_code": 0, "success": true
		"exit_code": 1, "success": false`,
		`"tool": {"name": "bash"}, "result": 1
		"tool": {"name": "bash"}, "result": 0`,
		`"tool_calls": [{"success": true}]
		"tool_calls": [{"success": false}]`,
		`"call_id": "call_1", "success": true
		"call_id": "call_2", "success": false`,
		`"function_name": "search", "is_success": true
		"function_name": "search", "is_success": false`,
	},
	"judges": {
		`"judge": {"score": 8}
		"judge": {"score": 3}`,
		`"judge_model": "j", "score": 8
		"judge_model": "j", "score": 3`,
		`"rubric": "Is it polite?", "score": 5
		"rubric": "Is it polite?", "score": 2`,
		`"judge_name": "j", "passed": true
		"judge_name": "j", "passed": false`,
		`"critique": "Too long.", "rating": 4
		"critique": "Good.", "rating": 9`,
		`"scores": {"judge": {"score": 8}}
		"scores": {"judge": {"score": 3}}`,
		`"grader_model": "g", "label": 1
		"grader_model": "g", "label": 0`,
		`"feedback": "Too long.", "score": 4
		"feedback": "Good.", "score": 9`,
		`"evaluation": {"verdict": "pass", "success": true}
		"evaluation": {"verdict": "fail", "success": false}`,
		`"judgement": "It is polite.", "correct": true
		"judgement": "It isn't polite.", "correct": false`,
	},
	"single tests": {
		`"test_name": "test_a", "passed": true
		"test_name": "test_b", "passed": false`,
		`"tests": [{"name": "a", "passed": true}]
		"tests": [{"name": "a", "passed": false}]`,
		`"passed": 3, "failed": 1
		"passed": 4, "failed": 0`,
		`"passed": ["a", "b"], "failed": []
		"passed": ["a"], "failed": ["b"]`,
		`"test_id": "t1", "result": 1
		"test_id": "t2", "result": 0`,
		`"nodeid": "tests/test_a.py::test_b", "outcome": 1
		"nodeid": "tests/test_a.py::test_c", "outcome": 0`,
		`"test_results": {"a": true}
		"test_results": {"a": false}`,
		`"passed": 0, "failed": 1
		"passed": 1, "failed": 0`,
		`"test_case": "empty list", "success": true
		"test_case": "long list", "success": false`,
		`"FAIL_TO_PASS": ["a"], "passed": 1, "num_tests": 3
		"FAIL_TO_PASS": ["a"], "passed": 0, "num_tests": 3`,
	},
	"metrics": {
		`"metrics": {"success": 1, "accuracy": 0.9}
		"metrics": {"success": 0, "accuracy": 0.2}`,
		`"accuracy": 0.9
		"accuracy": 0.2`,
		`"success_rate": 0.5
		"success_rate": 0.25`,
		`"metric": "bleu", "score": 0.5
		"metric": "rouge", "score": 0.25`,
		`"success": 14, "total": 20
		"success": 11, "total": 20`,
		`"f1": 0.7, "precision": 0.8
		"f1": 0.3, "precision": 0.4`,
		`"metric_name": "exact_match", "result": 0.5
		"metric_name": "exact_match", "result": 0.25`,
		`"success_count": 3, "failure_count": 2
		"success_count": 1, "failure_count": 4`,
		`"pass@1": 0.5
		"pass@1": 0.25`,
		`"correct": 14, "incorrect": 6
		"correct": 11, "incorrect": 9`,
	},
	"costs": {
		`"cost": 0.012
		"cost": 0.34`,
		`"result": 1843
		"result": 902`,
		`"total_cost_usd": 0.02
		"total_cost_usd": 0.03`,
		`"usage": {"cost": 0.2}
		"usage": {"cost": 0.3}`,
		`"tokens": 100, "cost": "0.2"
		"tokens": 200, "cost": "0.3"`,
		`"cost_usd": 0.2
		"cost_usd": 0.1`,
		`"score": {"cost": 0.2}
		"score": {"cost": 0.3}`,
		`"price": 1, "tokens": 2000
		"price": 0, "tokens": 100`,
		`"outcome": {"tokens": 100}
		"outcome": {"tokens": 200}`,
		`"total_reward_tokens": 5, "budget": 1
		"total_reward_tokens": 6, "budget": 0`,
	},
	"targets": {
		`"target": true
		"target": false`,
		`"target": 0.73
		"target": 0.12`,
		`"target": "python"
		"target": "go"`,
		`"target": "Write a text."
		"target": "Write another."`,
		`"target": "src/a.py"
		"target": "src/b.py"`,
		`"regression": "y", "target": 1
		"regression": "y", "target": 0`,
		`"target": {"value": 1}
		"target": {"value": 0}`,
		`"metadata": {"target": true}
		"metadata": {"target": false}`,
		`"metadata": {"tool_name": "bash", "resolved": true}
		"metadata": {"tool_name": "bash", "resolved": false}`,
		`"metadata": {"resolved": "2026-05-01T10:00:00Z"}
		"metadata": {"resolved": "2026-05-02T10:00:00Z"}`,
		`"info": {"resolved": 3, "unresolved": 2}
		"info": {"resolved": 4, "unresolved": 1}`,
		`"info": {"score": 0.5}
		"info": {"score": 0.25}`,
		`"issue": {"resolved": true}
		"issue": {"resolved": false}`,
	},
	"targets of trajectories": { // whose conversation is under trajectory
		`"target": 0.73
		"target": 0.12`,
		`"target": 1
		"target": 0`,
		`"target": "python"
		"target": "go"`,
		`"target": "Write a text."
		"target": "Write another."`,
		`"target": "src/a.py"
		"target": "src/b.py"`,
		`"target": "true"
		"target": "false"`,
		`"target": [true]
		"target": [false]`,
	},
	"timestamps": {
		`"resolved": "2026-05-01T10:00:00Z"
		"resolved": "2026-05-02T10:00:00Z"`,
		`"success": 1718000000
		"success": 1718000050`,
		`"passed": 1718000000.5
		"passed": 1718000001.25`,
		`"score": 1718000000
		"score": 1718000050`,
		`"label": 1718000000123
		"label": 1718000000456`,
		`"resolved": 1718000000
		"resolved": 1718000050`,
		`"rating": "2026-05-01"
		"rating": "2026-05-02"`,
		`"resolved_at": 1718000000, "created_at": 1
		"resolved_at": 1718000050, "created_at": 0`,
		`"result": "1718000000"
		"result": "1718000050"`,
		`"quality": 1718000000.25
		"quality": 1718000050.5`,
	},
}

// TestPlanted: a name alone makes no outcome.
func TestPlanted(t *testing.T) {
	for kind, files := range planted {
		for i, file := range files {
			t.Run(fmt.Sprint(kind, " ", i+1), func(t *testing.T) {
				text := rows(file)
				if kind == "targets of trajectories" {
					text = strings.ReplaceAll(text, `"messages"`, `"trajectory"`)
				}
				for _, ex := range examples(t, text) {
					if ex.Reward != nil {
						t.Errorf("%s: the reward is %v", file, *ex.Reward)
					}
					if ex.Candidates != nil {
						t.Errorf("%s: there are candidates", file)
					}
				}
			})
		}
	}
}

// TestScored: the rollouts of public data sets have their rewards, tasks, ids and models without being told.
func TestScored(t *testing.T) {
	const said = `[{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]`
	quoted := strconv.Quote(said)
	for name, c := range map[string]struct{ text, want string }{
		"SWE-rebench": {
			`{"trajectory_id": "r1", "instance_id": "i", "repo": "o/n", "trajectory": ` + said + `, "tools": [], "model_patch": "p", "exit_status": "submit", "resolved": 1, "gen_tests_correct": 2}
			{"trajectory_id": "r2", "instance_id": "i", "repo": "o/n", "trajectory": ` + said + `, "tools": [], "model_patch": "", "exit_status": "submit", "resolved": 0, "gen_tests_correct": null}
`, "r1 i  1, r2 i  0",
		},
		"SWE-agent of Nebius": {
			`{"instance_id": "i", "model_name": "m", "target": true, "trajectory": [{"role": "system", "text": null, "system_prompt": "s"}, {"role": "user", "text": "q"}, {"role": "ai", "text": "a"}], "exit_status": "submitted"}
			{"instance_id": "i", "model_name": "m", "target": false, "trajectory": [{"role": "system", "text": null, "system_prompt": "s"}, {"role": "user", "text": "q"}, {"role": "ai", "text": "b"}], "exit_status": "submitted"}
`, "#0 i m 1, #1 i m 0",
		},
		"a target of something else": {
			`{"trajectory": ` + said + `, "id": "r1", "task_id": "t", "target": true}
			{"trajectory": ` + said + `, "id": "r2", "task_id": "t", "target": false}
`, "r1 t  none, r2 t  none",
		},
		"R2E-Gym": {
			`{"trajectory_steps": [{"thought": "t", "action": "<function=f></function>", "observation": "o"}], "problem_statement": "p", "docker_image": "d", "agent_args": {"llm_name": "m"}, "reward": 1.0}
			{"trajectory_steps": [{"thought": "t", "action": "<function=g></function>", "observation": "o"}], "problem_statement": "p", "docker_image": "d", "agent_args": {"llm_name": "m"}, "reward": null}
`, "#0 d m 1, #1 d m none",
		},
		"an outcome within metadata": {
			`{"messages": ` + said + `, "id": "r1", "instance_id": "i", "metadata": {"resolved": true, "patch": "p"}, "test_patch": "x"}
			{"messages": ` + said + `, "id": "r2", "instance_id": "i", "metadata": {"resolved": false, "patch": ""}, "test_patch": "x"}
`, "r1 i  1, r2 i  0",
		},
		"an outcome within a report, and in the entry": {
			`{"messages": ` + said + `, "id": "r1", "instance_id": "i", "report": {"resolved": true}, "success": false}
			{"messages": ` + said + `, "id": "r2", "instance_id": "i", "report": {"resolved": false}, "success": true}
`, "r1 i  0, r2 i  1",
		},
		"SWE-smith": {
			`{"messages": ` + quoted + `, "instance_id": "i", "resolved": true, "model": "m", "traj_id": "r1", "patch": "p"}
			{"messages": ` + quoted + `, "instance_id": "i", "resolved": false, "model": "m", "traj_id": "r2", "patch": "p"}
`, "r1 i m 1, r2 i m 0",
		},
		"SWE-Gym": {
			`{"messages": ` + said + `, "instance_id": "i", "run_id": "x", "success": true, "score": 0.7}
			{"messages": ` + said + `, "instance_id": "i", "run_id": "y", "success": false, "score": 0.9}
`, "#0 i  1, #1 i  0",
		},
		"OpenThoughts-Agent": {
			`{"conversations": ` + said + `, "agent": "terminus-2", "model": "m", "task": "t", "trial_name": "r1", "run_id": "x", "result": "1.0"}
			{"conversations": ` + said + `, "agent": "terminus-2", "model": "m", "task": "t", "trial_name": "r2", "run_id": "x", "result": "0.0"}
			{"conversations": ` + said + `, "agent": "terminus-2", "model": "m", "task": "t", "trial_name": "r3", "run_id": "x", "result": "AgentTimeoutError"}
`, "r1 t m 1, r2 t m 0, r3 t m none",
		},
		"terminal-bench": {
			`{"messages": ` + said + `, "task_id": "t", "trial_name": "r1", "model_name": "m", "is_resolved": true}
			{"messages": ` + said + `, "task_id": "t", "trial_name": "r2", "model_name": "m", "is_resolved": null}
			{"messages": ` + said + `, "task_id": "t", "trial_name": "r3", "model_name": "m", "is_resolved": false}
`, "r1 t m 1, r2 t m none, r3 t m 0",
		},
		"reward_score": {
			`{"messages": ` + said + `, "id": "r1", "problem_id": 7, "reward_score": 3.5, "success": true}
			{"messages": ` + said + `, "id": "r2", "problem_id": 7, "reward_score": -1, "success": true}
`, "r1 7  3.5, r2 7  -1",
		},
		"tau-bench": {
			`{"task_id": 3, "reward": 1.0, "info": {"reward_info": {"reward": 1.0}}, "traj": ` + said + `, "trial": 0}
			{"task_id": 3, "reward": 0.0, "info": {"reward_info": {"reward": 0.0}}, "traj": ` + said + `, "trial": 1}
`, "3/0 3  1, 3/1 3  0",
		},
		"tau2-bench": {
			`{"id": "s0", "task_id": "3", "reward_info": {"reward": 1.0, "db_check": {"db_reward": 0.0}}, "messages": ` + said + `, "trial": 0}
			{"id": "s1", "task_id": "3", "reward_info": {"reward": 0.0, "db_check": {"db_reward": 1.0}}, "messages": ` + said + `, "trial": 1}
`, "s0 3  1, s1 3  0",
		},
		"passed": {
			`{"messages": ` + said + `, "id": "r1", "question_id": "t", "passed": "True"}
			{"messages": ` + said + `, "id": "r2", "question_id": "t", "passed": "False"}
`, "r1 t  1, r2 t  0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, ex := range examples(t, c.text) {
				reward := "none"
				if ex.Reward != nil {
					reward = fmt.Sprint(*ex.Reward)
				}
				got = append(got, strings.Join([]string{ex.ID, ex.Task, ex.Policy, reward}, " "))
			}
			if diff := cmp.Diff(c.want, strings.Join(got, ", ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// rows returns a file whose rows are a conversation and a line each.
func rows(lines string) (out string) {
	for i, line := range strings.Split(lines, "\n") {
		out += "{" + fmt.Sprintf(conversation, i) + ", " + strings.TrimSpace(line) + "}\n"
	}
	return out
}

// examples reads a file as it is recognised.
func examples(t *testing.T, text string) (out []*ttc.Example) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all := []source.Factory{candidates.Factory(), traces.Factory()}
	found, err := detect.Recognize(context.Background(), all, "", path, nil)
	if err != nil {
		t.Fatal(err)
	}
	config := found.Source.New()
	schema.Defaults(config)
	settings, err := yaml.Marshal(found.Settings)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(settings, config); err != nil {
		t.Fatal(err)
	}
	src, err := found.Source.Open(context.Background(), config, path, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	for {
		ex, _, err := src.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, ex)
	}
	if len(out) != strings.Count(text, "\n") {
		t.Errorf("%d examples of %s", len(out), text)
	}
	return out
}
