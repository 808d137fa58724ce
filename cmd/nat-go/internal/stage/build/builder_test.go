package build

import (
	"fmt"
	"math"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/plugins/host"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// TestCandidatesNeverVanish adds builders' results to the books, and checks that every candidate is used or dropped,
// regardless of what the results name, unless the builder works on whole examples.
func TestCandidatesNeverVanish(t *testing.T) {
	group := func() *ttc.Group {
		g := &ttc.Group{Key: "g"}
		for _, id := range []string{"a", "b"} {
			ex := &ttc.Example{ID: id}
			for _, text := range []string{"x", "y", "z"} {
				ex.Candidates = append(ex.Candidates, ttc.Candidate{Turn: "t", Output: text})
			}
			g.Examples = append(g.Examples, ex)
		}
		return g
	}
	output := func(example, candidate int) builders.Content {
		return builders.Content{Ref: builders.Ref{
			Part:      builders.CandidateOutput,
			Example:   example,
			Candidate: candidate,
		}}
	}
	inline := func(text string) builders.Content { return builders.Content{Text: text} }
	for name, c := range map[string]struct {
		result  result
		used    int64
		dropped map[ledger.Reason]int64
	}{
		"a pair": {
			result: result{
				Records: []builders.Record{&builders.Preference{Chosen: output(0, 0), Rejected: output(0, 1)}},
			},
			used:    2,
			dropped: map[ledger.Reason]int64{builders.NotUsed: 4},
		},
		"drops of turns": {
			result: result{Drops: []ledger.Drop{
				{Reason: "p/none", Unit: "turn", Example: "a"},
				{Reason: "p/none", Unit: "turn", Example: "b"},
			}},
			dropped: map[ledger.Reason]int64{builders.NotUsed: 6},
		},
		"an example dropped as a whole": {
			result:  result{Drops: []ledger.Drop{{Reason: "p/close", Unit: "example", Example: "b"}}},
			dropped: map[ledger.Reason]int64{builders.NotUsed: 3, "p/close": 3},
		},
		"a record of texts of its own": {
			result: result{
				Records: []builders.Record{&builders.Preference{Chosen: inline("other"), Rejected: inline("another")}},
			},
			dropped: map[ledger.Reason]int64{builders.NotUsed: 6},
		},
		"a record that names no example": {
			result: result{
				Records: []builders.Record{&builders.Preference{
					Head:     builders.Head{Example: 9},
					Chosen:   inline("x"),
					Rejected: inline("y"),
				}},
			},
			dropped: map[ledger.Reason]int64{builders.NotUsed: 6},
		},
		"nothing": {
			dropped: map[ledger.Reason]int64{builders.NotUsed: 6},
		},
		"counts that overflow": {
			result: result{Drops: []ledger.Drop{
				{Reason: "p/a", Unit: "candidate", Example: "a", Count: math.MaxInt64}, {
					Reason:  "p/b",
					Unit:    "candidate",
					Example: "a",
					Count:   math.MaxInt64,
				},
			}},
			dropped: map[ledger.Reason]int64{builders.BuilderFailed: 6},
		},
		"counts of another unit that overflow": {
			result:  result{Drops: []ledger.Drop{{Reason: "p/a", Unit: "turn", Example: "a", Count: math.MaxInt64}}},
			dropped: map[ledger.Reason]int64{builders.BuilderFailed: 6},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := group()
			c.result.Group = g
			b := &Builder{Name: "b", picks: true}
			f := recordlog.NewBuilder([]string{"b"})
			f.Begin(g)
			b.log(f, 0, 0, &c.result, new(keeping))
			books := ledger.NewBook()
			for _, a := range f.Group().Accounts {
				books.In(a.Stage, a.Unit, a.In)
				books.Out(a.Stage, a.Unit, a.Out)
			}
			for _, d := range f.Group().Drops {
				d.Stage = ledger.Build
				books.Drop(d)
			}
			if err := books.Check(); err != nil {
				t.Error(err)
			}
			a := books.Account(ledger.Build, stage.UnitCandidate)
			if a.In != 6 || a.Out != c.used {
				t.Errorf("%d in, %d used; want 6 and %d", a.In, a.Out, c.used)
			}
			for reason, n := range c.dropped {
				if a.Dropped[reason] != n {
					t.Errorf("%d dropped for %s, want %d", a.Dropped[reason], reason, n)
				}
			}
		})
	}
}

// TestReasonsAreLimited has a builder report a new reason, unit and counter for each group. It checks that at most a
// thousand are distinguished, that all are counted, and that a run that continues from its log distinguishes the same
// ones.
func TestReasonsAreLimited(t *testing.T) {
	g := &ttc.Group{Key: "g", Examples: []*ttc.Example{{ID: "a"}}}
	b, resumed := &Builder{Name: "b"}, &Builder{Name: "b"}
	kinds, names, drops, counts := map[stage.DropKind]bool{}, map[string]bool{}, int64(0), int64(0)
	for i := range 3000 {
		if i == 1500 {
			b = resumed
		}
		f := recordlog.NewBuilder([]string{"b"})
		f.Begin(g)
		name := fmt.Sprint(i)
		b.log(f, 0, 0, &result{
			Group: g,
			Drops: []ledger.Drop{{
				Stage:   ledger.Build,
				Builder: "b",
				Example: "a",
				Reason:  ledger.Reason("p/" + name),
				Unit:    name,
			}},
			Counts: []host.Count{{Name: name, N: 1}},
		}, new(keeping))
		for _, d := range f.Group().Drops {
			if d.Reason == builders.OtherReasons && d.Detail != "p/"+name {
				t.Errorf("drop %d has the detail %q", i, d.Detail)
			}
			if d.Unit != stage.UnitExample {
				kinds[stage.KindOf(&d)] = true
				drops += d.N()
			}
		}
		for _, c := range f.Group().Counts {
			names[c.Name] = true
			counts += c.N
		}
		b.recordNames(f.Group())
		resumed.recordNames(f.Group())
	}
	if len(kinds) > maxNames+1 || len(names) != maxNames+1 || drops != 3000 || counts != 3000 {
		t.Errorf("%d kinds of drop, %d counters; %d drops and %d counts of 3000", len(kinds), len(names), drops, counts)
	}
	if !kinds[stage.KindOf(&ledger.Drop{Stage: ledger.Build, Reason: builders.OtherReasons, Unit: "other"})] {
		t.Error("the other reasons have no name")
	}
}
