package builders_test

import (
	"context"
	"fmt"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// firstOverLast prefers an example's first candidate to its last.
type firstOverLast struct{}

func (firstOverLast) Build(_ context.Context, g *ttc.Group, out builders.Output) error {
	for e, ex := range g.Examples {
		last := len(ex.Candidates) - 1
		if last < 1 {
			if err := out.Drop(ledger.Drop{Unit: "example", Reason: "acme/one_candidate", Example: ex.ID}); err != nil {
				return err
			}
			continue
		}
		part := func(p builders.Part, candidate int) builders.Content {
			return builders.Content{Ref: builders.Ref{Part: p, Example: e, Candidate: candidate}}
		}
		if err := out.Record(&builders.Preference{
			Head:     builders.Head{Example: e},
			Prompt:   part(builders.CandidatePrompt, 0),
			Chosen:   part(builders.CandidateOutput, 0),
			Rejected: part(builders.CandidateOutput, last),
		}); err != nil {
			return err
		}
	}
	return nil
}

// printer stands in for the host: it resolves what records refer to and prints it.
type printer struct{ group *ttc.Group }

func (p printer) Record(r builders.Record) error {
	if err := builders.CheckRefs(p.group, r); err != nil {
		return err
	}
	pair := r.(*builders.Preference)
	chosen, err := builders.Resolve(p.group, pair.Chosen)
	if err != nil {
		return err
	}
	rejected, err := builders.Resolve(p.group, pair.Rejected)
	fmt.Printf("%s: %q rather than %q\n", r.Kind(), chosen.Text, rejected.Text)
	return err
}

func (printer) Drop(d ledger.Drop) error {
	fmt.Println("dropped", d.Example, d.Reason)
	return nil
}

func (printer) Count(string, int64) error { return nil }

// A builder refers to the texts of its group instead of repeating them, and reports what it leaves out.
func Example() {
	group := &ttc.Group{Examples: []*ttc.Example{
		{ID: "a", Candidates: []ttc.Candidate{{Output: "4"}, {Output: "5"}}},
		{ID: "b", Candidates: []ttc.Candidate{{Output: "no"}}},
	}}
	if err := (firstOverLast{}).Build(context.Background(), group, printer{group}); err != nil {
		panic(err)
	}
	// Output:
	// preference: "4" rather than "5"
	// dropped b acme/one_candidate
}
