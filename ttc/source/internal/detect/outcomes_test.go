package detect_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	},
}

// TestPlanted: a name alone makes no outcome.
func TestPlanted(t *testing.T) {
	for kind, files := range planted {
		for i, file := range files {
			t.Run(fmt.Sprint(kind, " ", i+1), func(t *testing.T) {
				for _, ex := range examples(t, rows(file)) {
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
