package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/ttc"
)

// Carried counts how many of a builder's records a row format can represent.
type Carried struct {
	Format  string `json:"format"`
	Tried   int64  `json:"tried"`
	Records int64  `json:"records"`
	Why     string `json:"why,omitempty"` // why the format can't represent the first record that it refused

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

// maxTextRatio limits the ratio of the text in a format's rows to the text of the conversations. Above it, representing
// more turns isn't reason enough to choose a format, since a trainer must process all of the rows' text.
const maxTextRatio = 3

// best returns preferred, or another one of preferredFormats that represents more turns or pairs and doesn't exceed
// maxTextRatio. If preferred can't represent anything, best accepts any format, regardless of the ratio.
func (r *Report) best(builder, preferred string) string {
	y := r.yield(builder)
	i := slices.IndexFunc(y.Formats, func(c *Carried) bool { return c.Format == preferred })
	if i < 0 {
		return preferred
	}
	chosen := y.Formats[i]
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
