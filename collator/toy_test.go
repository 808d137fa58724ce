//go:build tokenizers

package collator

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/internal/tokenizertest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	njson "github.com/nat-go/nat-go/ttc/json"
)

var toyOnce = sync.OnceValues(func() (*tokenizer.Tokenizer, error) { return tokenizer.New(tokenizertest.Toy()) })

func toy(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := toyOnce()
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func ownTemplate(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// say makes a message from "role: text".
func say(line string) chat.Message {
	role, text, _ := strings.Cut(line, ": ")
	return chat.Message{Role: role, Form: chat.Text, Text: text}
}

func says(lines ...string) (ms []chat.Message) {
	for _, l := range lines {
		ms = append(ms, say(l))
	}
	return ms
}

func callMessage(text, name, arguments string) chat.Message {
	m := chat.Message{Role: "assistant", Form: chat.Text, Text: text}
	c := chat.ToolCall{ID: "c1", Type: "function", Name: name, Arguments: arguments}
	if raw, err := njson.Parse([]byte(arguments), njson.Limits{}); err == nil {
		c.Parsed = raw
	}
	m.ToolCalls = []chat.ToolCall{c}
	return m
}

func nodes(ms []chat.Message) []ttc.Node { return ttc.Chain(ms, ttc.Yes).Nodes }

func demonstration(id string, ns []ttc.Node) Item {
	return Item{Hash: "h-" + id, Record: &builders.Resolved{
		Record: &builders.Demonstration{Train: builders.TrainAll, Weight: 1},
		Origin: &builders.Origin{
			Example:  id,
			Fidelity: ttc.IDsLogProbs,
			Policy:   "me",
		},
		Messages: builders.Passage{Nodes: ns},
	}}
}

func preference(id string, prompt []chat.Message, chosen, rejected string) Item {
	return Item{Hash: "h-" + id, Record: &builders.Resolved{
		Record:   &builders.Preference{},
		Origin:   &builders.Origin{Example: id, Fidelity: ttc.TextOnly},
		Prompt:   builders.Passage{Nodes: ttc.Chain(prompt, ttc.No).Nodes},
		Chosen:   builders.Passage{Text: chosen},
		Rejected: builders.Passage{Text: rejected},
	}}
}

// sampledRollout gives each assistant turn of a toy conversation ids of its own: its bytes, and the turn's end.
func sampledRollout(t testing.TB, id, task string, reward *float64, ms []chat.Message) Item {
	t.Helper()
	ns := nodes(ms)
	end, _ := toy(t).ID("<|im_end|>")
	for i := range ns {
		if ns[i].Message.Role != "assistant" {
			continue
		}
		enc, err := toy(t).Encode(ns[i].Message.Text, tokenizer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for k, tid := range append(enc.IDs, end) {
			ns[i].TokenIDs = append(ns[i].TokenIDs, tid)
			ns[i].LogProbs = append(ns[i].LogProbs, -float32(k+1)/16)
		}
		ns[i].FinishReason = "stop"
	}
	return Item{Hash: "h-" + id, Record: &builders.Resolved{
		Record: &builders.Rollout{Reward: reward, Task: task},
		Origin: &builders.Origin{
			Example:  id,
			Fidelity: ttc.IDsLogProbs,
			Policy:   "me",
		},
		Messages: builders.Passage{Nodes: ns},
	}}
}

func toyConfig(t testing.TB, template string) Config {
	t.Helper()
	return Config{
		Tokenizer:   toy(t),
		Template:    ownTemplate(t, template),
		Policy:      "me",
		MaxLength:   4000,
		BatchTokens: 8000,
	}
}

// decode returns the tokens' text.
func decode(t testing.TB, ids []int32) string {
	t.Helper()
	s, err := toy(t).Decode(ids, false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// trainedTexts returns the texts of a side's trained runs.
func trainedTexts(t testing.TB, s *batch.Side) (out []string) {
	t.Helper()
	for _, r := range s.Trained {
		out = append(out, decode(t, s.IDs[r.Start:r.End]))
	}
	return out
}

// tensorsOf reads a batch's tensors by name.
func tensorsOf(t testing.TB, c *collated, i int) map[string]tensors.Tensor {
	t.Helper()
	file, err := tensors.OpenFile(filepath.Join(c.dir, "batches", c.lines[i].File))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all, err := file.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]tensors.Tensor{}
	for _, x := range all {
		out[x.Name] = x
	}
	return out
}

func ints(t testing.TB, x tensors.Tensor) []int64 {
	t.Helper()
	v, err := tensors.Items[int64](x)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func want[T any](t testing.TB, got, want T) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("\n got %s\nwant %s", g, w)
	}
}
