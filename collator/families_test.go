//go:build tokenizers

package collator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nat-go/nat-go/internal/oracletest"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/pythontest"
	"github.com/nat-go/nat-go/internal/tokenizertest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	njson "github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// family is one chat template, and what the collator and the independent checker of its output make of it.
type family struct {
	name, source string
	tools        []json.RawMessage
	records      map[string]any
	answer       familyAnswer
	drops        []ledger.Drop
	rows         int
	failed       string         // why there is no collator
	modes        map[string]int // how often a hint is placed how, by target and mode
}

// familyAnswer is what testdata/families.py reports.
type familyAnswer struct {
	Checks, Wrongs int
	Wrong          [][2]string
	Calls          bool // the render shows a call's name and arguments
	// Kept, out of how many, and how many the template can carry.
	Turns, Sites, Pairs [3]int
	Proof               []leftOutBy       // what the template omits from the turns it can't carry, most frequent first
	Truths              map[string][2]int // how many were looked at and how many are wrong, by name
}

// leftOutBy is what a template does to some of the turns, as rendered by jinja2.
type leftOutBy struct {
	Turns int
	What  string
}

func (l *leftOutBy) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&l.Turns, &l.What})
}

// complete reports whether 95 of 100 turns, hints and pairs that the template can carry are kept.
func (a *familyAnswer) complete() bool {
	return 100*a.Turns[0] >= 95*a.Turns[2] && 100*a.Sites[0] >= 90*a.Sites[2] && 100*a.Pairs[0] >= 95*a.Pairs[2]
}

// familyItems returns demonstrations from all traces, and hints and pairs for their failed calls.
func familyItems(
	t testing.TB, most int, tools []chat.Tool,
) (items []Item, records map[string]any, conversations map[string]any) {
	t.Helper()
	records, conversations = map[string]any{}, map[string]any{}
	var raw []struct {
		Task  int              `json:"task_id"`
		Trial int              `json:"trial"`
		Traj  []map[string]any `json:"traj"`
	}
	data, err := os.ReadFile(oracletest.Path(t, "chat", "traces", "gpt-4o-airline-dev.json"))
	if err == nil {
		err = json.Unmarshal(data, &raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	sites, _ := airlineSites(t, len(raw))
	chosen := map[string]bool{}
	for i := range sites { // those with failed calls first
		if len(chosen) < most {
			chosen[sites[i].Record.Origin.Example] = true
		}
	}
	examples := airline(t)
	for i, ex := range examples {
		if !chosen[ex.ID] && len(chosen) >= most {
			continue
		}
		chosen[ex.ID] = true
		conversations[ex.ID] = raw[i].Traj
		it := demonstrationOf(ex, tools)
		it.Hash, it.Record.Origin.Builder = "sft-"+ex.ID, "sft"
		var trained []int
		for k, n := range ex.Graph.Nodes {
			if n.Message.Role == "assistant" {
				trained = append(trained, k)
			}
		}
		records[it.Hash] = map[string]any{"example": ex.ID, "trained": trained}
		items = append(items, it)
	}
	for _, it := range sites {
		ex := it.Record.Origin.Example
		if !chosen[ex] {
			continue
		}
		it.Hash, it.Record.Origin.Tools = "sdpo-"+ex, tools
		var list []map[string]any
		nodes := it.Record.Messages.Nodes
		for n, s := range it.Record.Record.(*builders.Distillation).Sites {
			at := s.Call
			if s.Target == builders.NextTurn {
				at = s.Result + 1
				pair, sides := repairPair(it.Record.Origin, nodes, s.Call, at)
				pair.Hash = fmt.Sprintf("dpo-%s-%d", ex, n)
				sides["example"] = ex
				sides["chosen"], sides["rejected"] = []any{messageAt(conversations, ex, at)},
					[]any{messageAt(conversations, ex, s.Call)}
				records[pair.Hash] = sides
				items = append(items, pair)
			}
			list = append(list, map[string]any{"message": at, "hint": s.Hint})
		}
		records[it.Hash] = map[string]any{"example": ex, "sites": list}
		items = append(items, it)
	}
	return items, records, conversations
}

// describedTools returns the traces' tools with a description for every parameter: some templates fail without one.
func describedTools(t testing.TB) (out []chat.Tool) {
	t.Helper()
	var describe func(v any)
	describe = func(v any) {
		schema, ok := v.(map[string]any)
		if !ok {
			return
		}
		properties, _ := schema["properties"].(map[string]any)
		for name, p := range properties {
			if one, ok := p.(map[string]any); ok {
				if one["description"] == nil {
					one["description"] = name
				}
				describe(one)
			}
		}
		describe(schema["items"])
	}
	for _, tool := range airlineTools(t) {
		var v map[string]any
		if err := json.Unmarshal(tool.Raw, &v); err != nil {
			t.Fatal(err)
		}
		f := v["function"].(map[string]any)
		describe(f["parameters"])
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := njson.Parse(text, njson.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if tool, err = chat.ParseTool(raw); err != nil {
			t.Fatal(err)
		}
		out = append(out, tool)
	}
	return out
}

func messageAt(conversations map[string]any, ex string, at int) any {
	return conversations[ex].([]map[string]any)[at]
}

// repairPair prefers what the model did after a failed call over the failed call itself.
func repairPair(o *builders.Origin, nodes []ttc.Node, call, next int) (Item, map[string]any) {
	return Item{Record: &builders.Resolved{
		Record: &builders.Preference{}, Origin: o, Prompt: builders.Passage{Nodes: nodes[:call]},
		Chosen: builders.Passage{Nodes: nodes[next : next+1]}, Rejected: builders.Passage{Nodes: nodes[call : call+1]},
	}}, map[string]any{"prompt": call}
}

// familyVars are the variables that templates need besides messages and tools.
func familyVars(source string) map[string]string {
	vars := map[string]string{"bos_token": "<s>", "eos_token": "</s>"}
	if strings.Contains(source, " + functions ") { // firefunction
		vars["functions"], vars["datetime"] = "[]", "2026-01-02"
	}
	return vars
}

// check collates the items with the family's template, with one worker and with three, and has the result checked.
func (f *family) check(t *testing.T, items []Item, conversations map[string]any) {
	t.Helper()
	data, err := os.ReadFile(oracletest.Path(t, "chat", "tokens", "tokenizers", "qwen2_5.json"))
	if err == nil {
		data, err = tokenizertest.Family(data, f.source)
	}
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "tokenizer.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(data)
	if err != nil {
		t.Fatal(err)
	}
	vars := airlineVars()
	for k, v := range familyVars(f.source) {
		vars.SetStr(k, pyvalue.Str(v))
	}
	cfg := Config{
		Tokenizer:    tok,
		Template:     f.source,
		TemplateVars: vars,
		Workers:      3,
		MaxLength:    65536,
		BatchTokens:  1 << 20,
	}
	if _, err := New(cfg); err != nil {
		f.failed = err.Error()
		return
	}
	c := collate(t, cfg, one(slices.Clone(items)))
	cfg.Workers = 1
	if again := collate(t, cfg, one(slices.Clone(items))); !slices.EqualFunc(c.lines, again.lines,
		func(a, b batch.Line) bool { return a.Proof.SHA256 == b.Proof.SHA256 }) {
		t.Error("the bytes differ with the number of workers")
	}
	f.rows, f.drops, f.modes = len(c.rows), c.drops, map[string]int{}
	for _, r := range c.rows {
		for _, s := range r.Meta.Sites {
			f.modes[s.Target+" "+s.Mode]++
		}
	}
	hints := slices.DeleteFunc(slices.Clone(items), func(it Item) bool {
		return it.Record.Record.Kind() != builders.KindDistillation
	})
	cfg.Cumulative = true
	added := collate(t, cfg, one(hints))
	type drop struct {
		Unit    string `json:"unit"`
		Reason  string `json:"reason"`
		Example string `json:"example"`
		Detail  string `json:"detail"`
	}
	drops := []drop{}
	for _, d := range c.drops {
		unit := d.Unit
		if unit == "turn" && d.Builder != "sft" {
			unit = "target"
		}
		drops = append(drops, drop{unit, string(d.Reason), d.Example, d.Detail})
	}
	askPython(t, "python3", "families.py", map[string]any{
		"name":          f.name,
		"template":      f.source,
		"tokenizer":     file,
		"batches":       filepath.Join(c.dir, "batches"),
		"cumulative":    filepath.Join(added.dir, "batches"),
		"vars":          familyVars(f.source),
		"tools":         f.tools,
		"conversations": conversations,
		"records":       f.records,
		"drops":         drops,
	}, &f.answer)
}

// reasons lists why items were dropped, most frequent first.
func (f *family) reasons() string {
	n := map[string]int{}
	for _, d := range f.drops {
		n[fmt.Sprintf("%s %s", d.Unit, d.Reason)]++
	}
	keys := slices.SortedFunc(maps.Keys(n), func(a, b string) int { return cmp.Or(n[b]-n[a], cmp.Compare(a, b)) })
	var out []string
	for _, k := range keys {
		out = append(out, k+" "+strconv.Itoa(n[k]))
	}
	return strings.Join(out, ", ")
}

// line returns the family's line in TEMPLATES.md.
func (f *family) line() string {
	if f.failed != "" {
		return fmt.Sprintf("| %s | no | | | | | | no rows: %s | |", f.name, f.failed)
	}
	a := &f.answer
	kept := func(x [3]int) string { return fmt.Sprintf("%d of %d", x[0], x[2]) }
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %d | %d / %d | %s | %s |", f.name, map[bool]string{
		true:  "yes",
		false: "no",
	}[a.Calls],
		kept(a.Turns), kept(a.Sites), kept(a.Pairs), f.rows, a.Checks, a.Wrongs, f.reasons(), f.proofs())
}

// placesLine returns the family's line in the table of where hints stand.
func (f *family) placesLine() string {
	cell := func(target string) string {
		var out []string
		for _, mode := range []string{modeSystem, modeUser, modeAppend, modeLine, modePrepend, modeLead, modeBelow} {
			if n := f.modes[target+" "+mode]; n > 0 {
				out = append(out, fmt.Sprintf("%s %d", mode, n))
			}
		}
		return cmp.Or(strings.Join(out, ", "), "no")
	}
	line := fmt.Sprintf("| %s | %s | %s |", f.name, cell("failed_turn"), cell("next_turn"))
	for _, name := range truths {
		x := f.answer.Truths[name]
		line += fmt.Sprintf(" %d of %d |", x[1], x[0])
	}
	var why []string
	for _, d := range f.drops {
		if d.Unit == "site" && !slices.Contains(why, string(d.Reason)) {
			why = append(why, string(d.Reason))
		}
	}
	slices.Sort(why)
	return line + " " + strings.Join(why, ", ") + " |"
}

// truths are the columns of the table of where hints stand: what must not be.
var truths = []string{"behind", "later", "prompts", "stops"}

// proofs describes what the template itself leaves out, for the last column.
func (f *family) proofs() string {
	var out []string
	for _, l := range f.answer.Proof {
		what := strings.NewReplacer("|", `\|`, "\n", " ").Replace(l.What)
		out = append(out, fmt.Sprintf("%d turns: %s", l.Turns, what))
	}
	return strings.Join(out, "; ")
}

// someFamilies are templates of different kinds that are always checked.
var someFamilies = regexp.MustCompile(`^(qwen3|qwen3_5_nothink|glm4moe|gptoss|llama3_1|phi3|gemma3|cohere2|deepseekv3)$`)

// stockFamilies reads the templates in the folders that NATGO_TEMPLATES names - only those matching NATGO_FAMILIES, if
// set - or else a few of the conformance data's. records are what is checked by another program.
func stockFamilies(t *testing.T, records map[string]any, tools []chat.Tool) (families []*family) {
	t.Helper()
	folders, some := filepath.SplitList(os.Getenv("NATGO_TEMPLATES")), regexp.MustCompile(os.Getenv("NATGO_FAMILIES"))
	if len(folders) == 0 {
		folders, some = []string{oracletest.Path(t, "chat", "render", "templates")}, someFamilies
	}
	var raw []json.RawMessage
	for _, tool := range tools {
		raw = append(raw, json.RawMessage(tool.Raw))
	}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.jinja"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has %d templates: %v", folder, len(files), err)
		}
		for _, path := range files {
			f := &family{name: strings.TrimSuffix(filepath.Base(path), ".jinja"), records: records, tools: raw}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if f.source = string(data); some.MatchString(f.name) {
				families = append(families, f)
			}
		}
	}
	return families
}

// TestFamilies has chat templates carry real agent runs - every turn, and hints and pairs for every failed call - and
// has another program check the batches, token by token. If NATGO_TEMPLATES names folders, it uses their templates
// (only those matching NATGO_FAMILIES, if set) with all rollouts, and with -update writes TEMPLATES.md from them;
// otherwise it uses a few templates and a few rollouts.
func TestFamilies(t *testing.T) {
	pythontest.Need(t, "python", "import jinja2, tokenizers", "the batches of stock templates are not checked by another program")
	most := 4
	if os.Getenv("NATGO_TEMPLATES") != "" {
		most = 100
	}
	if n, err := strconv.Atoi(os.Getenv("NATGO_ROLLOUTS")); err == nil {
		most = n
	}
	tools := describedTools(t)
	items, records, conversations := familyItems(t, most, tools)
	families := stockFamilies(t, records, tools)
	var mu sync.Mutex
	t.Run("each", func(t *testing.T) {
		for _, f := range families {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				f.check(t, items, conversations)
				mu.Lock()
				defer mu.Unlock()
				t.Log(f.line())
				t.Log(f.placesLine())
				for _, w := range f.answer.Wrong {
					t.Errorf("%s: %s: %s", f.name, w[0], w[1])
				}
				if f.answer.Calls && !f.answer.complete() {
					t.Errorf("%s keeps too little: %s", f.name, f.reasons())
				}
				if os.Getenv("NATGO_DROPS") != "" {
					for i, d := range f.drops {
						if i < 6 {
							t.Logf("%s %s: %s", d.Unit, d.Reason, d.Detail)
						}
					}
				}
			})
		}
	})
	if *update && os.Getenv("NATGO_TEMPLATES") != "" {
		slices.SortFunc(families, func(a, b *family) int {
			return cmp.Compare(strings.ToLower(a.name), strings.ToLower(b.name))
		})
		var lines, places []string
		for _, f := range families {
			lines, places = append(lines, f.line()), append(places, f.placesLine())
		}
		writeFamilies(t, most, lines, places)
	}
}

// writeFamilies writes the table for this many runs into TEMPLATES.md, next to those for other numbers of runs.
func writeFamilies(t *testing.T, runs int, lines, places []string) {
	t.Helper()
	have, err := os.ReadFile("TEMPLATES.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(have), "\n## ")[1:]
	title := fmt.Sprintf("%d runs", runs)
	sections = slices.DeleteFunc(sections, func(s string) bool {
		return strings.HasPrefix(s, title+"\n") || strings.HasPrefix(s, placesTitle)
	})
	sum := sumOf(lines)
	sections = append(sections, fmt.Sprintf("%s\n\n%s\n\n%s%s\n", title, sum, familiesTable, strings.Join(lines, "\n")))
	sections = append(sections, placesTitle+placesTable+strings.Join(places, "\n")+"\n")
	text := familiesHead + "\n## " + strings.Join(sections, "\n## ")
	if err := os.WriteFile("TEMPLATES.md", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// sumOf returns the headline of a table.
func sumOf(lines []string) string {
	checks, wrong, calls, complete := 0, 0, 0, 0
	for _, l := range lines {
		cells := strings.Split(l, " | ")
		var c, w int
		if _, err := fmt.Sscanf(cells[6], "%d / %d", &c, &w); err != nil {
			continue // without rows
		}
		checks, wrong = checks+c, wrong+w
		if cells[1] != "yes" {
			continue
		}
		calls++
		enough := true
		for i, share := range []int{95, 90, 95} { // of turns, hints and pairs
			var kept, of int
			_, err := fmt.Sscanf(cells[2+i], "%d of %d", &kept, &of)
			enough = enough && err == nil && 100*kept >= share*of
		}
		if enough {
			complete++
		}
	}
	return fmt.Sprintf("%d templates, %d checks, %d wrong; of %d that show calls %d keep 95 of 100 turns and pairs, "+
		"and 90 of 100 hints, that they can carry.", len(lines), checks, wrong, calls, complete)
}

// TestTemplatesPage checks that the tables of TEMPLATES.md say what their headlines claim: nothing is wrong, and
// templates that show calls keep what they can carry.
func TestTemplatesPage(t *testing.T) {
	have, err := os.ReadFile("TEMPLATES.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(have), "\n## ")
	want(t, strings.TrimSpace(sections[0]), strings.TrimSpace(familiesHead))
	count := 0
	for _, s := range sections[1:] {
		if places, ok := strings.CutPrefix(s, placesTitle+placesTable); ok {
			checkPlaces(t, strings.Split(strings.TrimSpace(places), "\n"))
			continue
		}
		head, rows, ok := strings.Cut(s, familiesTable)
		lines := strings.Split(strings.TrimSpace(rows), "\n")
		count += len(lines)
		sum := sumOf(lines)
		if !ok || !strings.Contains(head, sum) || !strings.Contains(sum, " 0 wrong") {
			t.Errorf("%.60q: %s", head, sum)
		}
		var calls, complete int
		_, after, _ := strings.Cut(sum, "of ")
		_, err := fmt.Sscanf(after, "%d that show calls %d keep", &calls, &complete)
		if err != nil || calls != complete {
			t.Errorf("%d of %d templates keep enough: %v", complete, calls, err)
		}
	}
	if count < 100 {
		t.Errorf("%d templates", count)
	}
}

// checkPlaces checks that nothing in the table of where hints stand is wrong.
func checkPlaces(t *testing.T, lines []string) {
	t.Helper()
	if len(lines) < 100 {
		t.Errorf("%d templates", len(lines))
	}
	for _, l := range lines {
		cells := strings.Split(l, " | ")
		if len(cells) < 3+len(truths) {
			t.Errorf("a line of %d cells: %s", len(cells), l)
			continue
		}
		for _, cell := range cells[3 : 3+len(truths)] {
			if !strings.HasPrefix(cell, "0 of ") {
				t.Errorf("%s: %s", cells[0], cell)
			}
		}
	}
}

const familiesHead = `# What public chat templates show of an agent run

Real runs of an airline agent are rendered with each template: every assistant turn as a demonstration, a hint for both targets of
each failed call, and a pair for each repaired call. Another program (testdata/families.py) checks every token with jinja2, tokenizers and
a hand-written list of stop tokens. testdata/templates.sh, which takes folders of templates, writes this page. The tokenizer is Qwen 2.5's
with each template's special tokens added. Every tool parameter has a description, because some templates fail without one.

Each row gives, in order: whether the template shows a call's name and arguments; how many turns, hints and pairs were kept, of those that
the template can show when jinja2 renders it; the number of rows; the number of checks, and how many failed; the drops with their reasons
(` + "`nat-go explain CODE`" + `); and evidence that the template causes the drops. For this evidence, jinja2 renders a conversation up to each
turn that the template can't show, once without the turn and once with it. The last column gives the part of the turn that the render lacks,
or the place where the render differs from the prompt. A hint can't be placed (` + "`hint_unplaceable`" + `) after a tool's empty result if the line
breaks around the result are one token and the template trims the result (Qwen 3.5 and 3.6) or writes three line breaks (Apriel). DeepSeek
V3.2 has no place for a hint before 5 of 74 turns, because the result and the template's text around it are one token.
`

const familiesTable = `| template | calls | turns | hints | pairs | rows | checks / wrong | drops | not in the template's render |
|---|---|---|---|---|---|---|---|---|
`

const placesTitle = "Where hints are placed\n"

const placesTable = `
The columns "failed turn" and "next turn" give the ways in which the same runs' hints are inserted for these targets (see
[SITES.md](SITES.md)). The next four give the faults that another program found, of the cases that it checked. It marks every message and
uses jinja2 to render the conversation with the hint. What has to hold: no marked text of an earlier message is between the hint and its
turn; if a row has all hints of a rollout, no turn sees a later turn's hint; both sides of a pair have the same tokens up to the first
trained token; and no turn is trained beyond its first stop token. The last isn't required of GigaChat and RWKV, which also use their stop
tokens within turns, where these don't end the turn.

| template | failed turn | next turn | earlier text after the hint | later hints seen | pairs with unequal prompts | trained beyond a stop token | refused because |
|---|---|---|---|---|---|---|---|
`
