//go:build tokenizers

package collator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/oracletest"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/builders/sdpo"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/pythontest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// witness is the question put to testdata/sites.py: sites as in the tensors, and the conversations they belong to.
type witness struct {
	Template      string                `json:"template"`
	Conversations []witnessConversation `json:"conversations"`
	Sites         []witnessSite         `json:"sites"`

	skip func(*batch.RowSite, *batch.Meta) bool // sites not to ask about
}

type witnessConversation struct {
	Messages json.RawMessage `json:"messages"`
	Tools    json.RawMessage `json:"tools"`
}

type witnessSite struct {
	Conversation int        `json:"conversation"`
	Message      int        `json:"message"`
	Silent       bool       `json:"silent"`
	Student      []int64    `json:"student"`
	Teacher      []int64    `json:"teacher"`
	Pairs        [][3]int64 `json:"pairs"`
	Hint         string     `json:"hint"`
	Text         string     `json:"text"`
	Target       string     `json:"target"`
	Told         string     `json:"told"`
	IDs          []int32    `json:"ids,omitempty"`
}

// add adds all collated sites. raw holds the conversations by ordinal, as in the source.
func (q *witness) add(t testing.TB, c *collated, tok *tokenizer.Tokenizer, items []Item, raw []witnessConversation) {
	t.Helper()
	text := func(ids []int64) string {
		u := make([]int32, len(ids))
		for i, id := range ids {
			u[i] = int32(id)
		}
		s, err := tok.Decode(u, false)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	q.Conversations = raw
	for i, line := range c.lines {
		x := tensorsOf(t, c, i)
		row := func(side string, k int64) []int64 {
			n := int64(x[side+"input_ids"].Shape[1])
			length := sum(ints(t, x[side+"attention_mask"])[k*n : (k+1)*n])
			return ints(t, x[side+"input_ids"])[k*n : k*n+length]
		}
		bySite := map[int64][]pairOf{}
		for _, p := range pairsOf(t, c, i) {
			bySite[p.Site] = append(bySite[p.Site], p)
		}
		for s, pairs := range bySite {
			info := line.RowInfo[pairs[0].Row]
			place := slices.IndexFunc(info.Sites, func(r batch.RowSite) bool { return r.Site == line.Sites[s].Site })
			if q.skip != nil && q.skip(&info.Sites[place], &info) {
				continue
			}
			site := &items[info.Ordinal].Record.Record.(*builders.Distillation).Sites[line.Sites[s].Site]
			at, refused := targetTurn(items[info.Ordinal].Record.Messages.Nodes, site)
			if refused != nil {
				t.Fatal(refused)
			}
			w := witnessSite{
				Conversation: int(info.Ordinal),
				Message:      at,
				Silent:       slices.Contains(info.Flags, "no_think"),
				Hint:         site.Hint,
				Student:      row("student_", pairs[0].Row),
				Teacher:      row("teacher_", pairs[0].Teacher),
				IDs:          items[info.Ordinal].Record.Messages.Nodes[at].TokenIDs,
			}
			var ids []int64
			for _, p := range pairs {
				w.Pairs = append(w.Pairs, [3]int64{p.Pos, p.At, p.ID})
				ids = append(ids, p.ID)
			}
			first, last := pairs[0].Pos+1, pairs[len(pairs)-1].Pos+2
			by := pairs[0].At - pairs[0].Pos
			front := int64(0)
			for front < first && w.Student[front] == w.Teacher[front] {
				front++
			}
			w.Text, w.Target, w.Told = text(w.Student[:last]), text(ids), text(w.Teacher[max(0, front-4):front+by+4])
			q.Sites = append(q.Sites, w)
		}
	}
}

// ask has Python check the sites.
func (q *witness) ask(t *testing.T) (checked int) {
	t.Helper()
	pythontest.Need(t, "python", "import jinja2", "the sites are not checked by another program")
	var answer struct {
		Checked, Wrongs int
		Wrong           [][]any
	}
	askPython(t, "python3", "sites.py", q, &answer)
	if answer.Wrongs > 0 || answer.Checked == 0 {
		k := 0
		why := any("no site")
		if answer.Wrongs > 0 {
			k, why = int(answer.Wrong[0][0].(float64)), answer.Wrong[0][1]
		}
		t.Errorf("%d of %d sites are wrong for jinja2: conversation %d message %d: %v", answer.Wrongs, answer.Checked, q.Sites[k].Conversation, q.Sites[k].Message, why)
	}
	return answer.Checked
}

// TestSitesByJinja has another program check every site of traces of all kinds, from the file to the tensors: ids
// reused across turns, parallel and legacy calls, other scripts, template markers in texts, stray and missing results.
func TestSitesByJinja(t *testing.T) {
	const file = "testdata/sites.jsonl"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var raw []witnessConversation
	for line := range bytes.Lines(data) {
		var c witnessConversation
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		raw = append(raw, c)
	}
	cfg := schema.New[sdpo.Config]()
	cfg.Target = "both"
	cfg.Detect.Match = []sdpo.Match{{Pattern: "^Error"}}
	cfg.Hints.Allow = []string{"knowable", "hindsight"}
	cfg.Hints.Rules = []sdpo.Rule{{Text: "Of {{ tool }} you know: {{ error }}", Kind: "hindsight"}}
	for _, ids := range []bool{false, true} {
		for _, cumulative := range []bool{false, true} {
			items, sites := builtSites(t, file, cfg)
			if ids { // the source's own, not what its text gives
				end, _ := toy(t).ID("<|im_end|>")
				for i := range items {
					for k := range items[i].Record.Messages.Nodes {
						if n := &items[i].Record.Messages.Nodes[k]; n.Message.Role == "assistant" {
							n.TokenIDs = []int32{int32(k), 0, 0, end}
						}
					}
				}
			}
			for _, template := range []string{
				ownTemplate(t, "chatml.jinja"), strings.Replace(noSystem, "m.content }}", "(m.content | trim) }}", 1),
			} {
				if ids && cumulative {
					continue
				}
				c := Config{
					Tokenizer:   toy(t),
					Template:    template,
					MaxLength:   4000,
					BatchTokens: 8000,
					Cumulative:  cumulative,
				}
				done := collate(t, c, one(slices.Clone(items)))
				q := &witness{Template: template}
				if cumulative {
					q.skip = func(s *batch.RowSite, r *batch.Meta) bool {
						return slices.ContainsFunc(r.Sites, func(o batch.RowSite) bool { return o.At < s.At })
					}
				}
				q.add(t, done, toy(t), items, raw)
				kept := len(q.Sites)
				if n := strings.Count(done.reasons("site"), " "); kept == 0 ||
					n > 0 && strings.Contains(done.reasons("site"), "invariant") {
					t.Errorf("%d of %d sites: %s", kept, sites, done.reasons("site"))
				}
				want(t, q.ask(t), kept)
				t.Logf("ids %v, cumulative %v: %d of %d sites; %s", ids, cumulative, kept, sites, done.reasons("site"))
			}
		}
	}
}

// builtSites reads traces and has the builder find the sites. The items are in the order of the file's lines; lines
// without a record have none.
func builtSites(t testing.TB, file string, cfg sdpo.Config) (items []Item, sites int) {
	t.Helper()
	from := schema.New[readers.TracesConfig]()
	from.AssumeSampled = "assistant"
	all := readers.Factories()
	factory := all[slices.IndexFunc(all, func(f source.Factory) bool { return f.Type == "traces" })]
	src, err := factory.Open(context.Background(), &from, file, source.Options{
		Drop: func(d ledger.Drop) { t.Errorf("%+v", d) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	b, err := sdpo.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for {
		ex, _, err := src.Next(context.Background())
		if err == io.EOF {
			return items, sites
		}
		if err != nil {
			t.Fatal(err)
		}
		g := &ttc.Group{Examples: []*ttc.Example{ex}}
		var out builderOutput
		if err := b.Build(context.Background(), g, &out); err != nil || len(out.records) != 1 {
			t.Fatalf("%s: %d records, %v, %v", ex.ID, len(out.records), out.drops, err)
		}
		d := out.records[0].(*builders.Distillation)
		p, err := builders.Resolve(g, d.Messages)
		if err != nil {
			t.Fatal(err)
		}
		sites += len(d.Sites)
		items = append(items, Item{Hash: fmt.Sprintf("%032x", len(items)), Record: &builders.Resolved{
			Record: d, Messages: p,
			Origin: &builders.Origin{
				Example:  ex.ID,
				Row:      ex.Row,
				Fidelity: ex.Fidelity,
				Tools:    ex.Tools,
				Policy:   ex.Policy,
			},
		}})
	}
}

// airlineRaw returns the real traces that items come from, as they are in the file.
func airlineRaw(t testing.TB, items []Item) (out []witnessConversation) {
	t.Helper()
	data, err := os.ReadFile(oracletest.Path(t, "chat", "traces", "gpt-4o-airline-dev.json"))
	if err != nil {
		t.Fatal(err)
	}
	var traces []struct {
		Task  json.Number     `json:"task_id"`
		Trial json.Number     `json:"trial"`
		Traj  json.RawMessage `json:"traj"`
	}
	if err := json.Unmarshal(data, &traces); err != nil {
		t.Fatal(err)
	}
	tools, err := os.ReadFile(oracletest.Path(t, "chat", "traces", "tools.json"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range items {
		for _, tr := range traces {
			if tr.Task.String()+"."+tr.Trial.String() == items[i].Record.Origin.Example {
				out = append(out, witnessConversation{tr.Traj, tools})
			}
		}
	}
	return out
}

// TestHintsOfMarksStayText checks that a hint made of all the markers a template knows has only the special tokens that
// a harmless hint has.
func TestHintsOfMarksStayText(t *testing.T) {
	for _, name := range []string{"qwen3", "llama3_1", "gptoss", "glm4moe"} {
		t.Run(name, func(t *testing.T) {
			source := oracletest.Template(t, name+".jinja")
			tok := familyTokenizer(t, source)
			var marks []string
			for id := int32(151643); id <= tok.MaxID(); id++ { // the added tokens come after the vocabulary
				if text, err := tok.Decode([]int32{id}, false); err == nil && tok.IsSpecial(id) && len(marks) < 60 {
					marks = append(marks, text)
				}
			}
			specials := func(hint string) (n int) {
				item := distillation("x", nodes(bugHunt), failedSite(1, 2, hint))
				c := collate(t, Config{
					Tokenizer:    tok,
					Template:     source,
					TemplateVars: airlineVars(),
				}, one([]Item{item}))
				if len(c.rows) != 1 {
					t.Fatalf("%s: %+v", name, c.drops)
				}
				s := c.rows[0].Meta.Sites[0]
				for _, id := range c.rows[0].Sides[1].IDs[s.At : s.At+s.Hint] {
					if tok.IsSpecial(id) {
						n++
					}
				}
				if text := textOf(t, Config{Tokenizer: tok}, c.rows[0].Sides[1].IDs); !strings.Contains(text, hint) {
					t.Errorf("%s: the hint is not in %q", name, text)
				}
				return n
			}
			if marked, plain := specials(strings.Join(marks, " ")), specials("Mind the tools."); marked != plain ||
				plain == 0 || len(marks) < 4 {
				t.Errorf("%s: %d special tokens in a hint of %d marks, %d in a harmless one", name, marked, len(marks), plain)
			}
		})
	}
}
