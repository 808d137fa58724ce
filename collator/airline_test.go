//go:build tokenizers

package collator

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	njson "github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// specialText is what a template's special tokens look like.
var specialText = regexp.MustCompile(`<[|｜][^\s<>]{1,40}[|｜]>|<(?:start_of_turn|end_of_turn|bos|eos|sop|/?think)>|\[gMASK\]`)

var familyTokenizers sync.Map

// familyTokenizer is qwen2_5.json with a template's special strings as special tokens: stock templates whose tokenizers are
// not among the oracle's files still get one that knows their marks.
func familyTokenizer(t testing.TB, template string) *tokenizer.Tokenizer {
	t.Helper()
	once, _ := familyTokenizers.LoadOrStore(template, sync.OnceValues(func() (*tokenizer.Tokenizer, error) {
		data, err := os.ReadFile(conformance(t, "chat", "tokens", "tokenizers", "qwen2_5.json"))
		if err != nil {
			return nil, err
		}
		var file map[string]json.RawMessage
		if err := json.Unmarshal(data, &file); err != nil {
			return nil, err
		}
		var added []map[string]any
		if err := json.Unmarshal(file["added_tokens"], &added); err != nil {
			return nil, err
		}
		known, next := map[string]bool{}, 0
		for _, a := range added {
			known[a["content"].(string)] = true
			next = max(next, int(a["id"].(float64))+1)
		}
		texts := append(specialText.FindAllString(template, -1), "<s>", "</s>", "<|begin_of_text|>", "<|endoftext|>")
		for _, s := range texts {
			if !known[s] {
				known[s] = true
				added = append(added, map[string]any{"id": next, "content": s, "special": true, "normalized": false, "single_word": false, "lstrip": false, "rstrip": false})
				next++
			}
		}
		if file["added_tokens"], err = json.Marshal(added); err != nil {
			return nil, err
		}
		if data, err = json.Marshal(file); err != nil {
			return nil, err
		}
		return tokenizer.New(data)
	}))
	tok, err := once.(func() (*tokenizer.Tokenizer, error))()
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// airline loads the real traces as examples whose assistant messages were sampled.
func airline(t testing.TB) []*ttc.Example {
	t.Helper()
	data, err := os.ReadFile(conformance(t, "chat", "traces", "gpt-4o-airline-dev.json"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := njson.Parse(data, njson.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var out []*ttc.Example
	for e := range raw.Elements() {
		traj, _ := e.Get("traj")
		ms, err := chat.ParseMessages(traj)
		if err != nil {
			t.Fatal(err)
		}
		task, _ := e.Get("task_id")
		trial, _ := e.Get("trial")
		ex := &ttc.Example{ID: fmt.Sprintf("%s.%s", task, trial), Task: string(task), Trial: string(trial), Row: int64(len(out)),
			Graph: ttc.Chain(ms, ttc.Yes), Fidelity: ttc.TextOnly, Policy: "gpt-4o"}
		out = append(out, ex)
	}
	return out
}

func airlineTools(t testing.TB) (tools []chat.Tool) {
	t.Helper()
	data, err := os.ReadFile(conformance(t, "chat", "traces", "tools.json"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := njson.Parse(data, njson.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for e := range raw.Elements() {
		tool, err := chat.ParseTool(e)
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, tool)
	}
	return tools
}

// demonstrationOf makes an item of an example.
func demonstrationOf(ex *ttc.Example, tools []chat.Tool) Item {
	return Item{Hash: fmt.Sprintf("%032x", ex.Row), Record: &builders.Resolved{
		Record:   &builders.Demonstration{Train: builders.TrainAll, Weight: 1},
		Origin:   &builders.Origin{Example: ex.ID, Task: ex.Task, Row: ex.Row, Policy: ex.Policy, Fidelity: ex.Fidelity, Tools: tools},
		Messages: builders.Passage{Nodes: ex.Graph.Nodes},
	}}
}

// one yields each item as a group of its own.
func one(items []Item) iter.Seq2[[]Item, error] {
	return func(yield func([]Item, error) bool) {
		for i := range items {
			if !yield(items[i:i+1], nil) {
				return
			}
		}
	}
}

// collated is what a test looks at.
type collated struct {
	*Result
	dir   string
	drops []ledger.Drop
	lines []batch.Line
	rows  []*batch.Row
}

func collate(t testing.TB, cfg Config, groups iter.Seq2[[]Item, error]) *collated {
	t.Helper()
	if cfg.MaxLength == 0 {
		cfg.MaxLength = 32768
	}
	if cfg.BatchTokens == 0 {
		cfg.BatchTokens = max(65536, cfg.MaxLength)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	out := &collated{dir: t.TempDir()}
	if out.Result, err = c.Collate(context.Background(), groups, out.dir, t.TempDir(), func(d ledger.Drop) { out.drops = append(out.drops, d) }); err != nil {
		t.Fatal(err)
	}
	batches := filepath.Join(out.dir, "batches")
	if out.lines, err = batch.ReadIndex(filepath.Join(batches, batch.IndexName)); err != nil {
		t.Fatal(err)
	}
	for i := range out.lines {
		rows, err := batch.Read(batches, &out.lines[i])
		if err != nil {
			t.Fatal(err)
		}
		out.rows = append(out.rows, rows...)
	}
	if r, err := Verify(out.dir, cfg.Tokenizer); err != nil || len(r.Problems) > 0 || int(r.Rows) != len(out.rows) {
		t.Errorf("not verified: %v %+v", err, r)
	}
	for _, a := range out.Accounts {
		n := int64(0)
		for _, d := range out.drops {
			if d.Unit == a.Unit {
				n++
			}
		}
		if a.In != a.Out+n {
			t.Errorf("the books of %ss don't balance: %d in, %d out, %d dropped", a.Unit, a.In, a.Out, n)
		}
	}
	for _, d := range out.drops {
		if _, ok := ledger.Explain(string(d.Reason)); !ok {
			t.Errorf("reason %s has no page", d.Reason)
		}
	}
	return out
}

func (c *collated) reasons(unit string) string {
	n := map[string]int{}
	for _, d := range c.drops {
		if d.Unit == unit {
			n[string(d.Reason)]++
		}
	}
	var out []string
	for r, k := range n {
		out = append(out, fmt.Sprintf("%s %d", r, k))
	}
	sort.Strings(out)
	return strings.Join(out, ", ")
}

// airlineVars are the special tokens the templates ask for by name.
func airlineVars() *pyvalue.Dict {
	vars := &pyvalue.Dict{}
	vars.SetStr("bos_token", pyvalue.Str("<s>"))
	vars.SetStr("eos_token", pyvalue.Str("</s>"))
	return vars
}

func TestAirlineTraces(t *testing.T) {
	examples, tools := airline(t), airlineTools(t)
	for _, name := range []string{"qwen3", "qwen3_5_think", "gptoss", "glm4moe", "nemotron_3_nano", "llama3_1", "gemma3", "qwen2_5"} {
		t.Run(name, func(t *testing.T) {
			source := oracleTemplate(t, name+".jinja")
			tok := familyTokenizer(t, source)
			var items []Item
			for _, ex := range examples {
				items = append(items, demonstrationOf(ex, tools))
			}
			c := collate(t, Config{Tokenizer: tok, Template: source, TemplateVars: airlineVars(), Workers: 2}, one(items))
			kept := map[int64]bool{}
			for _, r := range c.rows {
				kept[r.Meta.Ordinal] = true
			}
			t.Logf("%s: %d of %d rollouts in %d rows; records dropped: %s; turns dropped: %s; %v", name, len(kept), len(items), len(c.rows), c.reasons("record"), c.reasons("turn"), c.Stats)
			for i, d := range c.drops {
				if i < 5 {
					t.Log(d.Unit, d.Reason, d.Detail)
				}
			}
		})
	}
}
