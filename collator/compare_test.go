//go:build tokenizers

package collator

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/nat-go/nat-go/internal/oracletest"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/pythontest"
)

// comparedWith is the question put to testdata/reference.py.
type comparedWith struct {
	Template  string           `json:"template"`
	Tokenizer string           `json:"tokenizer"`
	Traces    string           `json:"traces"`
	Failed    map[string][]int `json:"failed"`
	Hint      string           `json:"hint"`
	Ask       string           `json:"ask"`
	Ours      []comparedRow    `json:"ours,omitempty"`
}

type comparedRow struct {
	Trace    string       `json:"trace"`
	Student  []int32      `json:"student"`
	Teachers [][]int32    `json:"teachers"`
	Pairs    [][4]int64   `json:"pairs"` // student position, teacher, its position, target
	Null     *comparedRow `json:"null,omitempty"`
}

// askReference runs testdata/reference.py.
func askReference(t testing.TB, python string, q *comparedWith, into any) {
	t.Helper()
	q.fill(t)
	askPython(t, python, "reference.py", q, into)
}

// fill fills in which model, traces and hint the question is about.
func (q *comparedWith) fill(t testing.TB) {
	t.Helper()
	q.Template = oracletest.Template(t, "qwen2_5.jinja")
	q.Tokenizer = oracletest.Path(t, "chat", "tokens", "tokenizers", "qwen2_5.json")
	q.Traces, q.Hint = oracletest.Path(t, "chat", "traces", "gpt-4o-airline-dev.json"), airlineHint
}

// failedTurns returns the real traces with errors, with one site for each failed turn. The reference has no tools, so
// there are none here either.
func failedTurns(t testing.TB, most int) (items []Item, failed map[string][]int) {
	all, _ := airlineSites(t, most)
	failed = map[string][]int{}
	for _, it := range all {
		d := it.Record.Record.(*builders.Distillation)
		d.Sites = slices.DeleteFunc(d.Sites, func(s builders.Site) bool { return s.Target == builders.NextTurn })
		for _, s := range d.Sites {
			failed[it.Record.Origin.Example] = append(failed[it.Record.Origin.Example], s.Call)
		}
		it.Record.Origin.Tools = nil
		items = append(items, it)
	}
	return items, failed
}

// TestReferenceCollator compares the reference collator with ours on the same traces: how much of what is in the loss
// falls on the tokens of the failed turn, and what the loss is when the hint says nothing. The README quotes these
// figures.
func TestReferenceCollator(t *testing.T) {
	pythontest.Need(t, "python", "import jinja2, tokenizers", "ours is not compared with the reference collator")
	most := 4
	if os.Getenv("NATGO_LONG") != "" { // all traces with NATGO_LONG=1
		most = 100
	}
	items, failed := failedTurns(t, most)
	q := &comparedWith{Ask: "compare", Failed: failed}
	for i := range items {
		row := comparedRows(t, items[i], false)
		row.Null = comparedRows(t, items[i], true)
		q.Ours = append(q.Ours, *row)
	}
	type side struct {
		Sites, Positions, On, Intended, Covered, Rows int
		AsWas                                         int `json:"as_was"`
		Null                                          float64
	}
	var got struct {
		Theirs, Ours side
		Structured   int
	}
	askReference(t, "python3", q, &got)
	share := func(a, b int) float64 { return 100 * float64(a) / float64(max(b, 1)) }
	for name, s := range map[string]side{"reference": got.Theirs, "ours": got.Ours} {
		t.Logf("%-9s %d sites: %.1f %% of %d loss positions predict a token of the failed turn, %.1f %% of whose %d tokens are in the loss; %d of %d student rows are the rollout; null-hint loss %.3g",
			name, s.Sites, share(s.On, s.Positions), s.Positions, share(s.Covered, s.Intended), s.Intended, s.AsWas,
			s.Rows, s.Null)
	}
	t.Logf("the reference, with calls as the traces have them: %d loss positions", got.Structured)
	if o := got.Ours; o.On != o.Positions || o.Covered != o.Intended || o.Positions != o.Intended ||
		o.AsWas != o.Rows || o.Null != 0 || o.Positions == 0 {
		t.Errorf("ours: %+v", o)
	}
	if o := got.Theirs; share(o.On, o.Positions) > 50 || o.AsWas != 0 || o.Null < 1e-6 ||
		10*got.Structured > o.Intended {
		t.Errorf("the reference does better than the README says: %+v, %d", o, got.Structured)
	}
}

// comparedRows is what we make from a trace.
func comparedRows(t *testing.T, it Item, null bool) *comparedRow {
	t.Helper()
	cfg := Config{
		Tokenizer: oracleTokenizer(t, "qwen2_5.json"),
		Template:  oracletest.Template(t, "qwen2_5.jinja"),
		NullHints: null,
	}
	c := collate(t, cfg, one([]Item{it}))
	if len(c.rows) != 1 {
		t.Fatalf("%d rows: %+v", len(c.rows), c.drops)
	}
	out := &comparedRow{Trace: it.Record.Origin.Example, Student: c.rows[0].Sides[0].IDs}
	for _, s := range c.rows[0].Sides[1:] {
		out.Teachers = append(out.Teachers, s.IDs)
	}
	for _, p := range pairsOf(t, c, 0) {
		out.Pairs = append(out.Pairs, [4]int64{p.Pos, p.Teacher, p.At, p.ID})
	}
	return out
}

// BenchmarkSites makes the sdpo rows for the real errors on one thread, with all checks and proofs, without writing
// them. If NATGO_PYTHON names a Python with jinja2 and tokenizers, it also times the reference collator's approach:
// every turn tokenised alone, teacher and student rendered and tokenised whole, lists of every token.
func BenchmarkSites(b *testing.B) {
	tok := freshTokenizer(b, "qwen2_5.json")
	c, err := New(Config{
		Tokenizer:   tok,
		Template:    oracletest.Template(b, "qwen2_5.jinja"),
		MaxLength:   1 << 20,
		BatchTokens: 1 << 20,
	})
	if err != nil {
		b.Fatal(err)
	}
	items, failed := failedTurns(b, 100)
	w := &worker{Collator: c}
	sites := 0
	b.ReportAllocs()
	b.ResetTimer()
	start := processorTime(b)
	for range b.N {
		tok.SetCacheBytes(tokenizer.DefaultCacheBytes) // an empty cache: every pass is a first one
		sites = 0
		for i := range items {
			out := channelOf(builders.KindDistillation).rows(w, &items[i])
			if len(out.SiteDrops) > 0 {
				b.Fatal(out.SiteDrops)
			}
			sites += out.Sites
		}
	}
	ours := (processorTime(b) - start) / time.Duration(b.N)
	b.StopTimer()
	b.ReportMetric(float64(sites)/ours.Seconds(), "sites/s")
	if python := os.Getenv("NATGO_PYTHON"); python != "" {
		var seconds float64
		askReference(b, python, &comparedWith{Ask: "time", Failed: failed}, &seconds)
		b.ReportMetric(seconds/ours.Seconds(), "x-python")
	}
}
