package intake

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/ttc"
)

// Carried is how many of a builder's records a row format has a place for.
type Carried struct {
	Format  string `json:"format"`
	Tried   int64  `json:"tried"`
	Records int64  `json:"records"`
	Why     string `json:"why,omitempty"` // why the first was refused

	enc *rows.Encoder
	buf []byte
}

// mostTried is how many of a builder's records are tried with each format.
const mostTried = 200

// formats returns those whose rows stand alone, as lines: their tables carry the same records.
func formats(opt rows.Options) (all []*Carried) {
	for _, f := range rows.Formats() {
		if !f.Declared() && !f.SharesRows() {
			all = append(all, &Carried{Format: f.Name, enc: rows.NewEncoder(f, opt)})
		}
	}
	return all
}

// try tries a record of the group with each format that suits its kind.
func (y *Yield) try(g *ttc.Group, rec builders.Record, opt rows.Options) error {
	if y.Records > mostTried {
		return nil
	}
	if y.Formats == nil {
		y.Formats = formats(opt)
	}
	r, err := resolve(g, rec)
	if err != nil || r == nil {
		return err
	}
	for _, c := range y.Formats {
		if !slices.Contains(c.enc.Carries, rec.Kind()) {
			continue
		}
		c.Tried++
		c.enc.Begin()
		var refused *rows.CannotCarry
		switch c.buf, _, err = c.enc.Append(c.buf[:0], rows.Train, r); {
		case err == nil:
			c.Records++
		case c.Why != "":
		case errors.As(err, &refused):
			c.Why = refused.Why
		default:
			c.Why = err.Error()
		}
	}
	return nil
}

// resolve makes a pair or a demonstration self-contained; it returns nil if it is neither.
func resolve(g *ttc.Group, rec builders.Record) (r *builders.Resolved, err error) {
	ex := g.Examples[rec.Header().Example]
	r = &builders.Resolved{Record: rec, Origin: &builders.Origin{Example: ex.ID, Tools: ex.Tools}}
	switch v := rec.(type) {
	case *builders.Preference:
		if r.Prompt, err = builders.Resolve(g, v.Prompt); err != nil {
			return nil, err
		}
		if r.Chosen, err = builders.Resolve(g, v.Chosen); err != nil {
			return nil, err
		}
		r.Rejected, err = builders.Resolve(g, v.Rejected)
	case *builders.Demonstration:
		r.Messages, err = builders.Resolve(g, v.Messages)
	default:
		return nil, nil
	}
	return r, err
}

// best returns the preferred format or, if another one carries more of what the builder makes, that one.
func (r *Report) best(builder, preferred string) string {
	most := int64(-1)
	for _, c := range r.carried(builder) {
		if c.Format == preferred {
			most = c.Records
		}
	}
	if most < 0 {
		return preferred
	}
	for _, c := range r.carried(builder) {
		if c.Records > most && slices.Contains(readily, c.Format) {
			preferred, most = c.Format, c.Records
		}
	}
	return preferred
}

// readily lists the formats that are preferred unless others are requested, because many trainers read them.
var readily = []string{"trl", "messages"}

func (r *Report) carried(builder string) []*Carried {
	for _, y := range r.Builders {
		if y.Builder == builder {
			return y.Formats
		}
	}
	return nil
}

// Losses reports which of the chosen formats have no place for some records, and which format has one.
func (r *Report) Losses() (out []string) {
	for _, y := range r.Builders {
		if !slices.Contains(r.Choice.Builders, y.Builder) {
			continue
		}
		for _, c := range y.Formats {
			if !slices.Contains(r.Choice.Formats, c.Format) || c.Records == c.Tried {
				continue
			}
			text := c.String()
			if other := y.Instead(c); other != nil {
				text += fmt.Sprintf("; %s carries %d", other.Format, other.Records)
			}
			out = append(out, text)
		}
	}
	return out
}

// String says, for people, what a format can't carry.
func (c *Carried) String() string {
	return fmt.Sprintf("%s carries %d of %d records: %s", c.Format, c.Records, c.Tried, c.Why)
}

// Instead returns the format that carries most, if it is more than c carries; among equals, one that many trainers
// read.
func (y *Yield) Instead(c *Carried) (other *Carried) {
	for _, o := range y.Formats {
		better := other == nil || o.Records > other.Records ||
			o.Records == other.Records && slices.Contains(readily, o.Format)
		if o.Records > c.Records && better {
			other = o
		}
	}
	return other
}
