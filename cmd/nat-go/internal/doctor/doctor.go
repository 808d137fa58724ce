package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/collator"
)

// Report is the result of an examination.
type Report struct {
	Trainer  string            `json:"trainer"`
	Versions map[string]string `json:"versions,omitempty"`
	Inputs   []Compared        `json:"inputs"`
	Serving  *Serving          `json:"serving,omitempty"`
}

// Compared is the result of comparing an input's rows as tokenised by the trainer and by us.
type Compared struct {
	File   string `json:"file"`
	Method method `json:"method"`
	Rows   int    `json:"rows"`
	Same   int    `json:"same"`
	// numbers of the differing rows, counted from 1, as in the other fields
	Differ      []int        `json:"differ"`
	Refused     []refused    `json:"refused,omitempty"`     // rows for which we don't build a token row
	LeftOut     []int        `json:"left_out,omitempty"`    // rows that the trainer omits
	Cut         []int        `json:"cut,omitempty"`         // rows that the trainer truncates
	Differences []difference `json:"differences,omitempty"` // how the rows differ
	Notes       []string     `json:"notes,omitempty"`       // the trainer's warnings
	Row         []sideTokens `json:"row,omitempty"`         // the requested row, token by token
}

// refused is a row that our collator refuses.
type refused struct {
	Row int    `json:"row"`
	Why string `json:"why"`
}

// Sound reports whether all rows match on both sides and the serving folder produced no findings.
func (r *Report) Sound() bool {
	for i := range r.Inputs {
		if c := &r.Inputs[i]; c.Same < c.Rows {
			return false
		}
	}
	return r.Serving == nil || len(r.Serving.Findings) == 0
}

// compare compares an input's rows as tokenised by the trainer and by us. It also returns the versions of the trainer
// and its libraries. detail is the number of a row to show token by token, from 1, or 0 for none.
func compare(
	ctx context.Context, t *Trainer, cfg collator.Config, in *Input, detail int,
) (*Compared, map[string]string, error) {
	if detail > len(in.rows) {
		return nil, nil, exit.Usagef("no row %d: %s has %s", detail, in.Name, quantity(len(in.rows), "row"))
	}
	scratch, err := os.MkdirTemp("", "nat-go-doctor-")
	if err != nil {
		return nil, nil, exit.Environmentf("can't create a folder for the rows: %w", err)
	}
	defer os.RemoveAll(scratch)
	for _, dir := range []string{"ours", "trainer"} {
		if err := os.Mkdir(filepath.Join(scratch, dir), 0o700); err != nil {
			return nil, nil, exit.With(exit.Environment, err)
		}
	}
	if err := collate(ctx, cfg, in, filepath.Join(scratch, "ours")); err != nil {
		return nil, nil, fmt.Errorf("can't build our own rows: %w", err)
	}
	a, err := t.ask(ctx, in, filepath.Join(scratch, "trainer"))
	if err != nil {
		return nil, nil, err
	}
	c := &Compared{File: in.Name, Method: in.Method, Rows: len(in.rows), Notes: a.notes, Differ: []int{}}
	var found differences
	for _, r := range in.rows {
		theirs, number := a.sides[r.number], r.number+1 // users see row numbers starting at 1
		switch {
		case theirs == nil:
			c.LeftOut = append(c.LeftOut, number)
			continue
		case r.ours == nil:
			c.Refused = append(c.Refused, refused{number, r.why})
			continue
		}
		same := true
		for k := range r.ours {
			tokens := match(theirs[k], r.ours[k])
			same = found.add(number, tokens) && same
			if begins(r.ours[k].IDs, theirs[k].IDs) && !slices.Contains(c.Cut, number) {
				c.Cut = append(c.Cut, number)
			}
			if number == detail {
				spell(tokens, cfg.Tokenizer)
				c.Row = append(c.Row, sideTokens{Side: r.ours[k].Name, Tokens: tokens})
			}
		}
		if same {
			c.Same++
		} else {
			c.Differ = append(c.Differ, number)
		}
	}
	c.Differences = found
	return c, a.versions, nil
}

// begins reports whether whole begins with part and is longer.
func begins(whole, part []int32) bool {
	return len(part) < len(whole) && slices.Equal(whole[:len(part)], part)
}
