package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// The types of the built-in builders that an inspection refers to.
const (
	dpoBuilder    = "dpo_traj_builder"
	pairsBuilder  = "divergence_traj_builder"
	sftBuilder    = "sft_traj_builder"
	sdpoBuilder   = "sdpo_traj_builder"
	grpoBuilder   = "grpo_traj_builder"
	statesBuilder = "states_traj_builder"
)

// builderSuffix is the suffix of every built-in builder's type.
const builderSuffix = "_traj_builder"

func shortName(typ string) string { return strings.TrimSuffix(typ, builderSuffix) }

// TypeOf returns the type of a builder named by a short name such as "dpo" or by its type.
func TypeOf(name string) string {
	if strings.ContainsAny(name, "/_") {
		return name
	}
	return name + builderSuffix
}

// Choice holds the builders and row formats that suit an input.
type Choice struct {
	Builders []string `json:"builders"` // types
	Formats  []string `json:"formats"`
	SplitBy  string   `json:"split_by"`
	// why these builders were chosen or, if none were, why no builder makes records
	Why string `json:"why"`
}

// Records returns how many records a builder makes from the examined part of the input.
func (r *Report) Records(typ string) int64 { return r.yield(typ).Records }

func (r *Report) yield(typ string) (y Yield) {
	if i := slices.IndexFunc(r.Builders, func(y Yield) bool { return y.Builder == typ }); i >= 0 {
		y = r.Builders[i]
	}
	return y
}

// choose selects the builder of pairs of scored answers if it makes records, and otherwise the builder of
// demonstrations. To the latter it adds, for tasks with scored rollouts, the builder of pairs of rollouts, unless
// rollouts word the user's messages differently. If they do, the turns in pairs would not keep their recorded contexts,
// so such pairs are made only on request.
func (r *Report) choose() Choice {
	c := Choice{SplitBy: "example"}
	if r.Tasks > 0 {
		c.SplitBy = "task"
	}
	switch {
	case r.Records(dpoBuilder) > 0:
		c.Builders = []string{dpoBuilder}
		c.Why = "answers to one prompt with different scores make preference pairs"
		if r.Choices == int(r.Records(dpoBuilder)) && r.Names != nil && r.Source == "traces" {
			c.Why = "the input consists of pairs of a better and a worse answer"
		}
	case r.Records(sftBuilder) > 0:
		c.Builders = []string{sftBuilder}
		c.Why = "conversations to imitate"
		switch {
		case r.Labelled() && !r.Lower:
			c.Why = "nothing can be compared, and every score is 0 or 1: answers labelled 1 are imitated"
		case r.Candidates > 0:
			c.Why = "no prompt has answers with different scores, so there is nothing to compare: the answers are imitated"
		case r.Tasks > 0 && r.Scored > 0:
			c.Why = "the best-scored conversations of each task are imitated"
			if y := r.yield(pairsBuilder); y.Records > 0 && y.Counters["worded_differently"] == 0 {
				c.Builders = append(c.Builders, pairsBuilder)
				c.Why += ", and compared with others where they diverge"
			}
		}
	default:
		c.Why = r.nothing()
	}
	c.Formats = r.formats(c.Builders)
	return c
}

// take selects the builders named by the user, for example with --builder.
func (r *Report) take(names []string) {
	r.Choice.Builders, r.Choice.Why = nil, asked
	for _, name := range names {
		r.Choice.Builders = append(r.Choice.Builders, TypeOf(name))
	}
	r.Choice.Formats = r.formats(r.Choice.Builders)
}

// formats returns the row formats for the builders' records, without duplicates.
func (r *Report) formats(builders []string) (out []string) {
	for _, b := range builders {
		if f := r.Format(b); !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}

// nothing returns the reason why none of the builders makes records.
func (r *Report) nothing() string {
	parts := counts(r.Dropped, sorted(r.Dropped))
	for _, name := range sorted(r.Stats.Unread) {
		parts = append(parts, fmt.Sprintf("not read: %s, %s", name, quantity(int(r.Stats.Unread[name]), "time")))
	}
	for _, y := range r.Builders {
		if y.Builder != sftBuilder && y.Builder != dpoBuilder {
			continue
		}
		for _, reason := range sorted(y.Dropped) {
			parts = append(parts, fmt.Sprintf("%s: %d %s", y.Name(), y.Dropped[reason], reason))
		}
	}
	if parts == nil {
		return "no builder makes any records from the input"
	}
	why := "no builder makes any records from the input (" + strings.Join(parts, "; ") + ")"
	if len(r.Details) > 0 {
		why += ": " + strings.Join(r.Details, "; ")
	}
	return why
}

// Format returns the row format for the records that a builder makes from the input.
func (r *Report) Format(builder string) string {
	if builder == sftBuilder && r.Candidates == 0 && (r.ToolCalls > 0 || r.Turns > r.Examples) {
		return r.best(builder, "messages")
	}
	preferred := fitting[builders.KindPreference]
	if f, ok := builtin.Builder(builder); ok {
		preferred = fitting[f.Info().Kinds[0]]
	}
	return r.best(builder, preferred)
}

// asked is the reason given for choosing builders that the user named.
const asked = "as requested"

// Line describes in one line how the input is read, and which builders and formats were chosen. It returns "" if no
// setting was guessed and the user named the builders.
func (r *Report) Line() string {
	if len(r.Guessed) == 0 && r.Choice.Why == asked {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "read as %s", r.Source)
	how := slices.Clone(r.Guessed)
	if scores := r.scores(); scores != "" && r.Candidates == 0 {
		how = append(how, "scores "+scores)
	}
	if len(how) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(how, "; "))
	}
	var names []string
	for _, t := range r.Choice.Builders {
		names = append(names, shortName(t))
	}
	if names == nil {
		return b.String()
	}
	fmt.Fprintf(&b, "; builder %s, format %s: %s",
		strings.Join(names, ", "), strings.Join(r.Choice.Formats, ", "), r.Choice.Why)
	for _, loss := range r.Losses() {
		b.WriteString("; " + loss)
	}
	return b.String()
}

func sorted(m map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(m), func(x, y string) int {
		return cmp.Or(cmp.Compare(m[y], m[x]), cmp.Compare(x, y))
	})
}

func quantity(n int, unit string) string { return ledger.Quantity(int64(n), unit) }
