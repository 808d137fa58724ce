//go:build tokenizers

package collator

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/oracletest"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/chat/template"
)

const airlineHint = "Check what the policy says about payments before this call."

// airlineSites makes a distillation from every real trace with errors: both targets of every error that has them.
func airlineSites(t testing.TB, most int) (items []Item, sites int) {
	t.Helper()
	data, err := os.ReadFile(oracletest.Path(t, "chat", "traces", "errors.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	byExample := map[string][][2]int{}
	for line := range strings.Lines(string(data)) {
		var e struct {
			Task   int `json:"task_id"`
			Trial  int `json:"trial"`
			Result int `json:"message_index_of_tool_result"`
			Call   int `json:"message_index_of_assistant_call"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprintf("%d.%d", e.Task, e.Trial)
		byExample[id] = append(byExample[id], [2]int{e.Call, e.Result})
	}
	tools := airlineTools(t)
	for _, ex := range airline(t) {
		d := &builders.Distillation{}
		for _, at := range byExample[ex.ID] {
			s := builders.Site{Call: at[0], Result: at[1], Error: "tool_error", Hint: airlineHint, HintSource: "rules"}
			d.Sites = append(d.Sites, s)
			if next := at[1] + 1; next < len(ex.Graph.Nodes) && ex.Graph.Nodes[next].Message.Role == "assistant" {
				s.Target = builders.NextTurn
				d.Sites = append(d.Sites, s)
			}
		}
		if len(d.Sites) == 0 || len(items) == most {
			continue
		}
		sites += len(d.Sites)
		items = append(items, Item{Hash: fmt.Sprintf("%032x", ex.Row), Record: &builders.Resolved{
			Record: d,
			Origin: &builders.Origin{
				Example:  ex.ID,
				Task:     ex.Task,
				Row:      ex.Row,
				Policy:   ex.Policy,
				Fidelity: ex.Fidelity,
				Tools:    tools,
			},
			Messages: builders.Passage{Nodes: ex.Graph.Nodes},
		}})
	}
	return items, sites
}

// TestAirlineSites makes sdpo rows from the real errors with every stock template and checks that what is kept is right
// and that refusals say why. The table is what the log shows.
func TestAirlineSites(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(oracletest.Path(t, "chat", "render", "templates"), "*.jinja"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d templates: %v", len(files), err)
	}
	most := 100
	if os.Getenv("NATGO_LONG") == "" { // all templates and traces if NATGO_LONG=1
		most = 1
		files = slices.DeleteFunc(files, func(path string) bool {
			return !slices.Contains([]string{
				"qwen3.jinja", "qwen3_5_think_training.jinja", "llama3_1.jinja", "gptoss.jinja", "gemma3.jinja",
			}, filepath.Base(path))
		})
	}
	items, sites := airlineSites(t, most)
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".jinja")
		t.Run(name, func(t *testing.T) {
			source := oracletest.Template(t, filepath.Base(path))
			tok := familyTokenizer(t, source)
			cfg := Config{
				Tokenizer:    tok,
				Template:     source,
				TemplateVars: airlineVars(),
				Workers:      2,
				MaxLength:    65536,
				BatchTokens:  1 << 20,
			}
			if _, err := New(cfg); err != nil {
				t.Skipf("%-24s no collator: %v", name, err)
			}
			c := collate(t, cfg, one(slices.Clone(items)))
			modes := map[string]int{}
			kept := 0
			for _, r := range c.rows {
				student := textOf(t, cfg, r.Sides[0].IDs)
				for _, s := range r.Meta.Sites {
					kept++
					modes[s.Mode]++
					checkSite(t, cfg, items[r.Meta.Ordinal].Record, r, &s, student)
				}
			}
			for _, d := range c.drops {
				if d.Reason == "hint_unplaceable" {
					t.Logf("%s: %s", name, d.Detail)
					break
				}
			}
			for i := range c.lines {
				pairsOf(t, c, i)
			}
			if n := len(strings.Split(c.reasons("site"), ",")); kept < sites && n == 0 {
				t.Errorf("%d of %d sites, and no reason", kept, sites)
			}
			t.Logf("%-24s %2d of %d sites %v; %s", name, kept, sites, modes, c.reasons("site"))
			if kept > 0 {
				q := &witness{Template: source}
				q.add(t, c, tok, items, airlineRaw(t, items))
				want(t, q.ask(t), kept)
				cfg.NullHints = true
				null := collate(t, cfg, one(slices.Clone(items)))
				checkNull(t, null)
				want(t, len(null.rows), len(c.rows))
			}
		})
	}
}

func textOf(t testing.TB, cfg Config, ids []int32) string {
	t.Helper()
	s, err := cfg.Tokenizer.Decode(ids, false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// checkSite checks a site from texts alone: the student is the render of the conversation up to the target, the teacher
// is the same with one extra piece that holds the hint, and the pairs cover what the model wrote.
func checkSite(t testing.TB, cfg Config, rec *builders.Resolved, r *batch.Row, s *batch.RowSite, student string) {
	t.Helper()
	site := &rec.Record.(*builders.Distillation).Sites[s.Site]
	at := site.Call
	if site.Target == builders.NextTurn {
		at = site.Result + 1
	}
	teacher := textOf(t, cfg, r.Sides[1+s.Teacher].IDs)
	given := plainRender(t, cfg, rec.Messages.Nodes[:at], rec.Origin.Tools, slices.Contains(r.Meta.Flags, "no_think"))
	if !strings.HasPrefix(student, given) && !r.Meta.Proof[0].Lossy {
		t.Fatalf("site %d: the student is not the render up to the turn", s.Site)
	}
	if strings.Count(teacher, airlineHint) != 1 || strings.Contains(student, airlineHint) {
		t.Fatalf("site %d: the hint is not in the teacher once", s.Site)
	}
	var target, hinted []int32
	for _, p := range s.Pairs {
		target = append(target, r.Sides[0].IDs[p.Start:p.End]...)
	}
	for _, run := range r.Sides[1+s.Teacher].Trained {
		hinted = append(hinted, r.Sides[1+s.Teacher].IDs[run.Start:run.End]...)
	}
	if !slices.Equal(target, hinted) {
		t.Fatalf("site %d: the teacher's target is not the student's", s.Site)
	}
	said := rec.Messages.Nodes[at].Message
	text := textOf(t, cfg, target)
	for _, call := range said.ToolCalls {
		if !strings.Contains(text, call.Name) {
			t.Errorf("site %d: the target %q does not call %s", s.Site, text, call.Name)
		}
	}
	if said.Form == chat.Text && len(said.ToolCalls) == 0 && !strings.Contains(text, strings.TrimSpace(said.Text)) {
		t.Errorf("site %d: the target is %q, not %q", s.Site, text, said.Text)
	}
	// Without the hint's tokens the teacher equals the student: verified here by comparing from both ends.
	a, b := r.Sides[0].IDs, r.Sides[1+s.Teacher].IDs
	last := s.Pairs[len(s.Pairs)-1].End
	a = a[:last]
	front, back := 0, 0
	for front < len(a) && a[front] == b[front] {
		front++
	}
	for back < len(a)-front && a[len(a)-1-back] == b[len(b)-1-back] {
		back++
	}
	if front+back != len(a) || len(b) <= len(a) {
		t.Fatalf("site %d: teacher and student differ in more than one place", s.Site)
	}
}

// plainRender renders messages as a server would, for the next turn.
func plainRender(t testing.TB, cfg Config, ns []ttc.Node, tools []chat.Tool, silent bool) string {
	t.Helper()
	now, err := ParseTemplateTime(DefaultTemplateTime)
	if err != nil {
		t.Fatal(err)
	}
	r, err := turns.New(cfg.Template, turns.Settings{
		Vars: TemplateVars(cfg.Tokenizer.Config, cfg.TemplateVars),
		Now:  now,
	})
	if err != nil {
		t.Fatal(err)
	}
	if silent {
		r = r.Silent()
	}
	var ms []chat.Message
	for i := range ns {
		ms = append(ms, ns[i].Message)
	}
	c, err := conversation(ms)
	if err != nil {
		t.Fatal(err)
	}
	if c.Tools, err = template.ToolList(tools); err != nil {
		t.Fatal(err)
	}
	c.Open = true
	res, err := r.Render(c)
	if err != nil {
		t.Fatal(err)
	}
	return res.Text
}
