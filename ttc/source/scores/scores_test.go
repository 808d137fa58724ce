package scores

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/ttc"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestGive(t *testing.T) {
	lines := write(t, "a.jsonl", `{"id": "x", "score": 0.5}
{"id": 7, "score": true}
{"id": "none", "score": null}
{"id": "two", "score": 1}
{"id": "two", "score": 0}
{"id": "same", "score": 1}
{"id": "same", "score": 1.0}
`)
	table := write(t, "b.csv", "id,score\ny,0.25\n")
	s, err := Read(context.Background(), &Config{Path: []string{lines, table}, Key: "id", Value: "score"})
	if err != nil {
		t.Fatal(err)
	}
	had := 1.0
	for id, want := range map[string]any{
		"x": 0.5, "7": 1.0, "none": nil, "two": nil, "same": 1.0, "y": 0.25, "unknown": nil,
	} {
		t.Run(id, func(t *testing.T) {
			ex := &ttc.Example{ID: id}
			s.Give(ex)
			switch {
			case want == nil && ex.Reward != nil:
				t.Errorf("%s: %v", id, *ex.Reward)
			case want != nil && (ex.Reward == nil || *ex.Reward != want):
				t.Errorf("%s: %v, want %v", id, ex.Reward, want)
			}
		})
	}
	ex := &ttc.Example{ID: "two", Reward: &had}
	if s.Give(ex); *ex.Reward != 1 {
		t.Errorf("an id with two scores: %v", *ex.Reward)
	}
	ex = &ttc.Example{ID: "x", Reward: &had}
	if s.Give(ex); *ex.Reward != 0.5 || had != 1 {
		t.Errorf("%v, %v", *ex.Reward, had)
	}
	if given, replaced := s.Given(); given != 5 || replaced != 1 {
		t.Errorf("%d given, %d replaced", given, replaced)
	}
	if got := s.Conflicts(); got != `1 id with several scores, which have none: "two" has 1 and 0` {
		t.Error(got)
	}
}

func TestRefused(t *testing.T) {
	for text, why := range map[string]string{
		`{"name": "x", "score": 1}`:   `entry 1: the entry has no "id"; its keys are name, score: name that of the id with dataset.scores.key`,
		`{"id": "x", "reward": 1}`:    `dataset.scores.value`,
		`{"id": "x", "score": "hi"}`:  "not a number",
		`{"id": "x", "score": "nan"}`: "not a number",
		`{"id": "x", "score": [1]}`:   "not a number",
		`{"id": "x", "score": null}`:  "there is no score",
		`{"id": `:                     "a.jsonl",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := Read(
				context.Background(),
				&Config{Path: []string{write(t, "a.jsonl", text)}, Key: "id", Value: "score"},
			)
			if err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v, want %s", text, err, why)
			}
		})
	}
}
