//go:build tokenizers

package collator

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/oracletest"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/builders/sdpo"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	njson "github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

var update = flag.Bool("update", false, "write SITES.md")

// failures has one failed call for each detector of builders/sdpo: the tool called, its arguments and its result.
var failures = []struct{ detector, tool, arguments, result string }{
	{"flag", "weather", `{"city": "Rome"}`, "There is no city of that name."},
	{"exit_code", "weather", `{"city": "Rome"}`, `{"stdout": "", "stderr": "no such city", "exit_code": 2}`},
	{"status", "weather", `{"city": "Rome"}`, `{"status": "error", "message": "no such city"}`},
	{"exception", "weather", `{"city": "Rome"}`, "LookupError: no such city"},
	{"match", "weather", `{"city": "Rome"}`, "Error: no such city"},
	{"arguments_not_json", "weather", `{"city": `, "The arguments can't be read."},
	{"unknown_tool", "wether", `{"city": "Rome"}`, "There is no such tool."},
	{"schema", "weather", `{"town": "Rome"}`, "A city is needed."},
}

// failedCalls has the builder find those failures, with hints for both targets of each: one record per detector.
func failedCalls(t testing.TB) (items []Item) {
	t.Helper()
	parse := func(s string) njson.Raw {
		raw, err := njson.Parse([]byte(s), njson.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	tool, err := chat.ParseTool(parse(`{"type":"function","function":{"name":"weather","description":"Weather of a city.","parameters":{"type":"object","properties":{"city":{"type":"string","description":"its name"}},"required":["city"],"additionalProperties":false}}}`))
	if err != nil {
		t.Fatal(err)
	}
	cfg := schema.New[sdpo.Config]()
	cfg.Target = "both"
	cfg.Detect.Match = []sdpo.Match{{Pattern: "^Error", Class: "match"}}
	cfg.Hints.Rules = []sdpo.Rule{{Text: "Mind what the tools can do."}}
	b, err := sdpo.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for i, f := range failures {
		messages := fmt.Sprintf(`[{"role":"user","content":"How is the weather?"},
			{"role":"assistant","content":"","tool_calls":[{"id":"call00001","type":"function","function":{"name":%q,"arguments":%q}}]},
			{"role":"tool","tool_call_id":"call00001","name":%q,"content":%q},
			{"role":"assistant","content":"I can't tell."}]`, f.tool, f.arguments, f.tool, f.result)
		ms, err := chat.ParseMessages(parse(messages))
		if err != nil {
			t.Fatal(err)
		}
		ex := &ttc.Example{
			ID:       f.detector,
			Graph:    ttc.Chain(ms, ttc.Yes),
			Tools:    []chat.Tool{tool},
			Fidelity: ttc.TextOnly,
		}
		if failed := true; f.detector == "flag" {
			ex.Graph.Nodes[2].Error = &failed
		}
		g := &ttc.Group{Examples: []*ttc.Example{ex}}
		var out builderOutput
		if err := b.Build(context.Background(), g, &out); err != nil || len(out.records) != 1 {
			t.Fatalf("%s: %d records, %v, %v", f.detector, len(out.records), out.drops, err)
		}
		d := out.records[0].(*builders.Distillation)
		for _, s := range d.Sites {
			if s.Error != f.detector {
				t.Fatalf("%s is found as %s", f.detector, s.Error)
			}
		}
		p, err := builders.Resolve(g, d.Messages)
		if err != nil || len(d.Sites) != 2 {
			t.Fatal(err, d.Sites)
		}
		items = append(items, Item{Hash: fmt.Sprintf("%032x", i), Record: &builders.Resolved{
			Record: d, Messages: p,
			Origin: &builders.Origin{Example: ex.ID, Row: int64(i), Fidelity: ex.Fidelity, Tools: ex.Tools},
		}})
	}
	return items
}

type builderOutput struct {
	records []builders.Record
	drops   []ledger.Drop
}

func (o *builderOutput) Record(r builders.Record) error { o.records = append(o.records, r); return nil }
func (o *builderOutput) Drop(d ledger.Drop) error       { o.drops = append(o.drops, d); return nil }
func (o *builderOutput) Count(string, int64) error      { return nil }

// TestSitesTable runs every detector's failure through every stock template and compares what was kept, how the hint
// was worded and why the rest was refused with SITES.md, which -update writes.
func TestSitesTable(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(oracletest.Path(t, "chat", "render", "templates"), "*.jinja"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d templates: %v", len(files), err)
	}
	have, err := os.ReadFile("SITES.md")
	if err != nil && !*update {
		t.Fatal(err)
	}
	if os.Getenv("NATGO_LONG") == "" && !*update { // all with NATGO_LONG=1
		some := []string{
			"qwen3.jinja", "qwen3_6.jinja", "llama3_1.jinja", "gptoss.jinja", "gemma3.jinja", "lfm2.jinja",
			"tiny_aya_chat_template.jinja",
		}
		files = slices.DeleteFunc(files, func(path string) bool { return !slices.Contains(some, filepath.Base(path)) })
	}
	items := failedCalls(t)
	var rows []string
	for _, path := range files {
		row := sitesRow(t, strings.TrimSuffix(filepath.Base(path), ".jinja"),
			oracletest.Template(t, filepath.Base(path)), items)
		rows = append(rows, row)
		if !*update && !strings.Contains(string(have), row+"\n") {
			t.Errorf("SITES.md doesn't have the line (write it anew with -update)\n%s", row)
		}
	}
	if *update {
		text := sitesHead + "\n" + sitesSum(rows) + "\n\n" + sitesTable + strings.Join(rows, "\n") + "\n"
		if err := os.WriteFile("SITES.md", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// sitesSum returns the headline of the table.
func sitesSum(rows []string) string {
	kept := 0
	for _, row := range rows {
		for _, cell := range strings.Split(row, " | ")[1 : 1+len(failures)] {
			first, second, two := strings.Cut(cell, ", ")
			if !two {
				second = first
			}
			for _, mode := range []string{first, second} {
				if mode != "no" {
					kept++
				}
			}
		}
	}
	return fmt.Sprintf("%d templates, %d sites, %d kept.", len(rows), 2*len(failures)*len(rows), kept)
}

// TestSitesPage checks that the table of SITES.md says what its headline claims.
func TestSitesPage(t *testing.T) {
	have, err := os.ReadFile("SITES.md")
	if err != nil {
		t.Fatal(err)
	}
	head, table, ok := strings.Cut(string(have), sitesTable)
	rows := strings.Split(strings.TrimSpace(table), "\n")
	if want := sitesHead + "\n" + sitesSum(rows) + "\n\n"; !ok || head != want {
		t.Errorf("SITES.md begins\n%s\nwant\n%s", head, want)
	}
}

const sitesHead = `# Which templates can carry a hint

TestSitesTable writes this page. It renders a four-message conversation with one failed call and a hint with each chat template, once
for each way in which the sdpo builder detects failures.

A cell gives the way in which the hint is inserted, first if the target is the turn that made the failed call, and then if it is the turn
after that one. If both are the same, the word appears once.

- ` + "`system`, `user`" + `: as a separate message with that role.
- ` + "`append`" + `: at the end of the message before the target.
- ` + "`line`" + `: like append, followed by a line break.
- ` + "`below`" + `: on a separate line in the message before the target, if that message is empty.
- ` + "`prepend`, `lead`" + `: at the beginning of the message before the target.
- ` + "`no`" + `: the hint can't be inserted. The site is refused and counted; the last column gives the reason (` + "`nat-go explain CODE`" + `).

A template that rewrites earlier messages may refuse a hint in another conversation, so every site in a run is tested separately.
`

const sitesTable = `| template | ` + "flag | exit_code | status | exception | match | arguments_not_json | unknown_tool | schema | refused because |\n|---|---|---|---|---|---|---|---|---|---|\n"

// sitesRow is a template's row in the table.
func sitesRow(t *testing.T, name, source string, items []Item) string {
	t.Helper()
	cfg := Config{Tokenizer: familyTokenizer(t, source), Template: source, TemplateVars: airlineVars()}
	modes := map[string]map[string]string{} // detector, target
	c := collate(t, cfg, one(slices.Clone(items)))
	for _, r := range c.rows {
		for _, s := range r.Meta.Sites {
			class, _, _ := strings.Cut(s.Class, "/") // the rule follows it
			if modes[class] == nil {
				modes[class] = map[string]string{}
			}
			modes[class][s.Target] = s.Mode
		}
	}
	var why []string
	kept, dropped := 0, 0
	cells := []string{name}
	for _, f := range failures {
		var pair []string
		for _, target := range []string{"failed_turn", "next_turn"} {
			mode := modes[f.detector][target]
			if mode == "" {
				mode = "no"
				dropped++
			} else {
				kept++
			}
			pair = append(pair, mode)
		}
		cells = append(cells, strings.Join(slices.Compact(pair), ", "))
	}
	reasons := map[string]bool{}
	n := 0
	for _, d := range c.drops {
		if d.Unit != "site" {
			continue
		}
		n++
		if text := string(d.Reason); !reasons[text] {
			reasons[text] = true
			why = append(why, "`"+text+"`: "+strings.NewReplacer("|", `\|`, "\n", " ").Replace(d.Detail))
		}
	}
	if n != dropped || kept+dropped != 2*len(failures) {
		t.Errorf("%s: %d sites kept and %d not, %d accounted for", name, kept, dropped, n)
	}
	return "| " + strings.Join(append(cells, strings.Join(why, "; ")), " | ") + " |"
}
