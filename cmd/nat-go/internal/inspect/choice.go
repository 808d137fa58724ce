package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc"
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
	Builders []string `json:"builders"` // types of the builders
	Formats  []string `json:"formats"`
	SplitBy  string   `json:"split_by"`
	// reason why these builders were chosen or, if none were, why no builder makes records
	Why string `json:"why"`
}

// Records returns the number of records that a builder makes from the examined part of the input.
func (r *Report) Records(typ string) int64 { return r.yield(typ).Records }

func (r *Report) yield(typ string) Yield {
	y, _ := lists.Find(r.Builders, func(y Yield) bool { return y.Builder == typ })
	return y
}

// choose selects the builder of pairs of scored answers if that builder makes records, and otherwise the builder of
// demonstrations. For tasks with scored rollouts, it also selects the builder of pairs of rollouts in the second case,
// unless the user's messages are worded differently in the rollouts. In that case, the turns in pairs would not keep
// their recorded contexts, so such pairs are made only on request.
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
	r.Choice.Builders, r.Choice.Why = lists.Map(names, TypeOf), asked
	r.Choice.Formats = r.formats(r.Choice.Builders)
}

// formats returns the row formats for the builders' records, without duplicates.
func (r *Report) formats(builders []string) []string {
	return lists.Unique(lists.Map(builders, r.Format))
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
	if len(r.Choice.Builders) == 0 {
		return b.String()
	}
	names := lists.Map(r.Choice.Builders, shortName)
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

// Carried counts how many of a builder's records a row format can represent.
type Carried struct {
	Format  string `json:"format"`
	Tried   int64  `json:"tried"`
	Records int64  `json:"records"`
	Why     string `json:"why,omitempty"` // reason why the format can't represent the first record that it refused

	Turns rows.Turns `json:"turns,omitzero"`  // turns of all demonstrations tried, including refused ones
	Bytes int64      `json:"bytes,omitempty"` // total size of the format's rows

	enc *rows.Encoder
	buf []byte
}

// maxTried is the maximum number of a builder's records that are tried with each format.
const maxTried = 200

// formats returns an empty Carried for each format to try. It skips table formats, which represent the same records as
// their line counterparts, and formats whose records share rows.
func formats(opt rows.Options) (all []*Carried) {
	for _, f := range rows.Formats() {
		if !f.Declared() && !f.SharesRows() {
			all = append(all, &Carried{Format: f.Name, enc: rows.NewEncoder(f, opt)})
		}
	}
	return all
}

// try tries one of the group's preferences or demonstrations with each format for its kind, up to maxTried records.
func (y *Yield) try(g *ttc.Group, rec builders.Record, opt rows.Options) error {
	if y.Records > maxTried || rec.Kind() != builders.KindPreference && rec.Kind() != builders.KindDemonstration {
		return nil
	}
	if y.Formats == nil {
		y.Formats = formats(opt)
	}
	r, err := builders.ResolveRecord(g, rec)
	if err != nil {
		return err
	}
	for _, c := range y.Formats {
		if !slices.Contains(c.enc.Carries, rec.Kind()) {
			continue
		}
		c.Tried++
		c.enc.Begin()
		c.buf, _, err = c.enc.Append(c.buf[:0], rows.Train, r)
		c.Turns.Add(c.enc.Turns())
		c.Bytes += int64(len(c.buf))
		if err == nil {
			c.Records++
		} else if refused, ok := errors.AsType[*rows.CannotCarry](err); ok {
			c.Why = cmp.Or(c.Why, refused.Why)
		} else {
			c.Why = cmp.Or(c.Why, err.Error())
		}
	}
	return nil
}

// maxTextRatio limits the ratio of the text in a format's rows to the text of the conversations. Above it, a format
// isn't chosen even if it represents more turns, because a trainer must process all of the rows' text.
const maxTextRatio = 3

// best returns preferred, or another one of preferredFormats that represents more turns or pairs and doesn't exceed
// maxTextRatio. If preferred can't represent anything, best accepts any format, regardless of the ratio.
func (r *Report) best(builder, preferred string) string {
	y := r.yield(builder)
	chosen, ok := lists.Find(y.Formats, func(c *Carried) bool { return c.Format == preferred })
	if !ok {
		return preferred
	}
	for _, c := range y.Formats {
		affordable := c.times() <= maxTextRatio || chosen.carries() == 0
		if c.carries() > chosen.carries() && affordable && slices.Contains(preferredFormats, c.Format) {
			chosen = c
		}
	}
	if other := y.Instead(chosen); chosen.carries() == 0 && other != nil {
		return other.Format
	}
	return chosen.Format
}

// carries returns the number of turns that the format can represent or, for pairs, the number of records.
func (c *Carried) carries() int64 {
	if c.Turns.Carried+c.Turns.Lost > 0 {
		return c.Turns.Carried
	}
	return c.Records
}

// Whole reports whether the format can represent all records that were tried, with all their turns.
func (c *Carried) Whole() bool { return c.Records == c.Tried && c.Turns.Lost == 0 }

// times returns the ratio of the text in a format's rows to the text of the conversations.
func (c *Carried) times() float64 {
	if once := c.Bytes - c.Turns.Repeated; once > 0 {
		return float64(c.Bytes) / float64(once)
	}
	return 1
}

// preferredFormats lists formats that many trainers can read. best and Instead prefer them to others.
var preferredFormats = []string{"trl", "messages"}

// Losses describes, for each chosen builder, the chosen formats that can't represent some of its records or turns,
// along with a format that represents more, if there is one. It skips builders for which a chosen format loses nothing.
func (r *Report) Losses() (out []string) {
	for _, y := range r.Builders {
		isChosen := func(c *Carried) bool { return slices.Contains(r.Choice.Formats, c.Format) }
		if !slices.Contains(r.Choice.Builders, y.Builder) ||
			slices.ContainsFunc(y.Formats, func(c *Carried) bool { return isChosen(c) && c.Whole() }) {
			continue
		}
		for _, c := range y.Formats {
			if !isChosen(c) {
				continue
			}
			text := c.String()
			if other := y.Instead(c); other != nil {
				text += fmt.Sprintf("; %s (dataset.formats)", other.offer())
			}
			out = append(out, text)
		}
	}
	return out
}

// String describes how many of the records the format can represent, and why it can't represent the others.
func (c *Carried) String() string {
	if c.Records == c.Tried && c.Turns.Lost > 0 {
		return fmt.Sprintf("%s carries %d of %d turns: its trainers train on every turn, so a row ends before the "+
			"first context-only turn", c.Format, c.Turns.Carried, c.Turns.Carried+c.Turns.Lost)
	}
	text := fmt.Sprintf("%s carries %d of %d records", c.Format, c.Records, c.Tried)
	if all := c.Turns.Carried + c.Turns.Lost; all > 0 && c.Records > 0 {
		text += fmt.Sprintf(", %d of %d turns", c.Turns.Carried, all)
	}
	return text + ": " + c.Why
}

// offer describes how many turns or records the format represents, and how much text its rows repeat.
func (c *Carried) offer() string {
	text := fmt.Sprintf("%s carries %d", c.Format, c.carries())
	if times := c.times(); times > 1.05 {
		text += fmt.Sprintf(", in %.1f times the text of the conversations", times)
	}
	return text
}

// Instead returns the format that represents the most turns or records, or nil if none represents more than c does. In
// a tie, it prefers one of preferredFormats.
func (y *Yield) Instead(c *Carried) (other *Carried) {
	for _, o := range y.Formats {
		better := other == nil || o.carries() > other.carries() ||
			o.carries() == other.carries() && slices.Contains(preferredFormats, o.Format)
		if o.carries() > c.carries() && better {
			other = o
		}
	}
	return other
}
