package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/show"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/tokenizer"
)

// Report is the result of an examination.
type Report struct {
	Trainer  string            `json:"trainer"`
	Versions map[string]string `json:"versions,omitempty"`
	Inputs   []Compared        `json:"inputs"`
	Serving  *Serving          `json:"serving,omitempty"`
}

// Compared is the result of comparing an input's rows as tokenised by the trainer and by nat-go.
type Compared struct {
	File   string `json:"file"`
	Method method `json:"method"`
	Rows   int    `json:"rows"`
	Same   int    `json:"same"`
	// numbers of the rows that differ; in all fields, row numbers start at 1
	Differ      []int        `json:"differ"`
	Refused     []refused    `json:"refused,omitempty"`     // rows that the collator rejects
	LeftOut     []int        `json:"left_out,omitempty"`    // rows that the trainer omits
	Cut         []int        `json:"cut,omitempty"`         // rows that the trainer truncates
	Differences []difference `json:"differences,omitempty"` // how the rows differ
	Notes       []string     `json:"notes,omitempty"`       // the trainer's warnings
	Row         []sideTokens `json:"row,omitempty"`         // the requested row, token by token
}

// refused is a row that the collator rejects.
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

// compare compares an input's rows as tokenised by the trainer and by nat-go. It also returns the versions of the
// trainer and its libraries. detail is the number of a row to show token by token, starting at 1; 0 means none.
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
	if err := makeRows(ctx, cfg, in, filepath.Join(scratch, "ours")); err != nil {
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
			whole, part := r.ours[k].IDs, theirs[k].IDs
			cut := len(part) < len(whole) && slices.Equal(whole[:len(part)], part)
			if cut && !slices.Contains(c.Cut, number) {
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

// token is a token of a row. It is in the trainer's sequence, in nat-go's, or in both.
type token struct {
	ID       int32  `json:"id"`
	Text     string `json:"text"`
	Class    string `json:"class"`    // the token's kind in nat-go's row
	Trainer  string `json:"trainer"`  // one of the roles below
	Ours     string `json:"ours"`     // one of the roles below
	Position [2]int `json:"position"` // index in the trainer's sequence and in nat-go's; -1 if the token isn't there
}

// The roles of a token in the trainer's sequence or in nat-go's.
const (
	trained = "trained"
	given   = "context"
	absent  = "absent"
)

// The kinds of difference.
const (
	trainerTrains = "trainer_trains"  // the trainer trains on tokens that are context in nat-go's row
	oursTrains    = "ours_trains"     // nat-go's row trains on tokens that are context for the trainer
	trainerOnly   = "only_in_trainer" // the trainer's row has tokens that nat-go's lacks
	oursOnly      = "only_in_ours"    // nat-go's row has tokens that the trainer's lacks
)

// difference counts the tokens of one class that have the same kind of difference.
type difference struct {
	Kind    string `json:"kind"`
	Class   string `json:"class"`   // kind of the tokens in nat-go's row
	Trained bool   `json:"trained"` // whether the trainer's row or nat-go's trains on the tokens
	Tokens  int    `json:"tokens"`
	Rows    []int  `json:"rows"` // row numbers, starting at 1
}

// sideTokens holds the aligned tokens of one side of a row.
type sideTokens struct {
	Side   string  `json:"side"`
	Tokens []token `json:"tokens"`
}

// match aligns the trainer's token sequence with nat-go's.
func match(theirs, ours Side) []token {
	inTheirs, inOurs := make([]bool, len(theirs.IDs)), make([]bool, len(ours.IDs))
	show.Diff(theirs.IDs, ours.IDs, inTheirs, inOurs)
	var out []token
	for i, j := 0, 0; i < len(theirs.IDs) || j < len(ours.IDs); {
		theirsOnly := i < len(theirs.IDs) && inTheirs[i]
		oursOnly := !theirsOnly && j < len(ours.IDs) && inOurs[j]
		t := token{Class: "tokens that nat-go's row lacks", Trainer: absent, Ours: absent, Position: [2]int{-1, -1}}
		if !oursOnly {
			t.ID, t.Trainer, t.Position[0] = theirs.IDs[i], mark(theirs.Trained[i]), i
			i++
		}
		if !theirsOnly {
			t.ID, t.Class, t.Ours, t.Position[1] = ours.IDs[j], ours.class[j], mark(ours.Trained[j]), j
			j++
		}
		out = append(out, t)
	}
	return out
}

func mark(on bool) string {
	if on {
		return trained
	}
	return given
}

// kind returns how the two rows differ at a token, and whether either side trains on it. It returns "" if they agree.
func (t *token) kind() (kind string, trains bool) {
	switch {
	case t.Ours == absent:
		return trainerOnly, t.Trainer == trained
	case t.Trainer == absent:
		return oursOnly, t.Ours == trained
	case t.Trainer == trained && t.Ours == given:
		return trainerTrains, true
	case t.Trainer == given && t.Ours == trained:
		return oursTrains, true
	}
	return "", false
}

// differences collects the differences between rows.
type differences []difference

// add adds the differences on one side of a row, and reports whether the sides are the same.
func (d *differences) add(row int, tokens []token) (same bool) {
	same = true
	for i := range tokens {
		kind, trains := tokens[i].kind()
		if kind == "" {
			continue
		}
		same = false
		at := slices.IndexFunc(*d, func(x difference) bool {
			return x.Kind == kind && x.Class == tokens[i].Class && x.Trained == trains
		})
		if at < 0 {
			at = len(*d)
			*d = append(*d, difference{Kind: kind, Class: tokens[i].Class, Trained: trains})
		}
		x := &(*d)[at]
		x.Tokens++
		if n := len(x.Rows); n == 0 || x.Rows[n-1] != row {
			x.Rows = append(x.Rows, row)
		}
	}
	return same
}

// spell fills in the tokens' text.
func spell(tokens []token, tok *tokenizer.Tokenizer) {
	for i := range tokens {
		if id := tokens[i].ID; id >= 0 {
			if text, err := tok.Decode([]int32{id}, false); err == nil {
				tokens[i].Text = text
			}
		}
	}
}
