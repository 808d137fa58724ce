package inspect

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// remedy is a change that would make a builder produce records from the input. It is an entry in remedies.yaml, where a
// comment explains the fields.
type remedy struct {
	Flags    []string
	Why      string
	Builder  string
	Settings map[string]any
	Calls    *bool
	Unscored bool
}

//go:embed remedies.yaml
var remediesFile []byte

// allRemedies returns the remedies for each builder.
var allRemedies = sync.OnceValue(func() (of map[string][]remedy) {
	if err := yaml.Unmarshal(remediesFile, &of); err != nil {
		panic(err) // cannot happen: the file is embedded, and tests parse it
	}
	return of
})

// remedies finds, for each builder that makes no records, the first remedy that helps. It tries remedies on the sample
// if they name a builder.
func (y *yields) remedies(ctx context.Context, r *Report) error {
	for i := range r.Builders {
		b := &r.Builders[i]
		if b.Records > 0 {
			continue
		}
		for _, m := range r.remediesOf(b) {
			made, err := y.tried(ctx, r, m)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				continue // the builder refuses the input with these settings
			}
			if made != 0 {
				b.Remedy = r.command(m, made)
				break
			}
		}
	}
	return nil
}

// tried returns how many records the builder named by a remedy makes, or -1 if the remedy doesn't name one.
func (y *yields) tried(ctx context.Context, r *Report, m remedy) (int64, error) {
	if m.Builder == "" {
		return -1, nil
	}
	f, _ := builtin.Builder(m.Builder)
	out, err := y.by(ctx, f, r, m.Settings)
	return out.Records, err
}

// command returns one line with the nat-go command that applies a remedy, and the reason for the remedy.
func (r *Report) command(m remedy, made int64) string {
	line := "nat-go run " + strings.Join(slices.Concat(r.Paths, m.Flags), " ")
	if made > 0 {
		return fmt.Sprintf("`%s` makes %d: %s", line, made, m.Why)
	}
	return fmt.Sprintf("%s: `%s`", m.Why, line)
}

// remediesOf lists the remedies for a builder that makes no records, best first. A remedy without a builder only
// describes what the input or the settings lack, so it can't be tried.
func (r *Report) remediesOf(y *Yield) (all []remedy) {
	unscored := r.Scored == 0 && r.Examples > 0 && r.Candidates == 0
	for _, m := range allRemedies()[y.Builder] {
		if (m.Calls == nil || *m.Calls == (r.ToolCalls > 0)) && (!m.Unscored || unscored) {
			all = append(all, m)
		}
	}
	return all
}

// Also describes the records that builders other than the chosen ones would make from the input.
func (r *Report) Also() (out []string) {
	some := ""
	if !r.Whole {
		some = "at least "
	}
	for _, y := range slices.Concat(r.Builders, r.others) {
		if slices.Contains(r.Choice.Builders, y.Builder) || y.Records == 0 {
			continue
		}
		n, unit, with, more := y.Records, "preference pair", "", ""
		switch y.Builder {
		case sdpoBuilder:
			n, unit, with, more = y.counted("sites/"), "site", " with hints", " and -o collator.tokenizer=FOLDER"
		case grpoBuilder:
			if r.Scored == 0 {
				continue
			}
			unit, with, more = "rollout", " with rewards", ", and --format kto to label them good or bad"
		case sftBuilder:
			unit = "demonstration"
		case statesBuilder:
			unit, with = "state", " to sample from"
		}
		out = append(out, fmt.Sprintf("%s%s%s: add --builder %s%s", some, ledger.Quantity(n, unit), with, y.Name(), more))
	}
	return out
}

// counted returns the sum of the counters whose names begin with a prefix: sites/ counts the error sites that got a
// hint, found/ all of them.
func (y *Yield) counted(prefix string) (n int64) {
	for name, of := range y.Counters {
		if strings.HasPrefix(name, prefix) {
			n += of
		}
	}
	return n
}
