package doctor

import (
	"slices"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/show"
	"github.com/nat-go/nat-go/collator/tokenizer"
)

// token is a token of a row. It is in the trainer's sequence, in ours, or in both.
type token struct {
	ID       int32  `json:"id"`
	Text     string `json:"text"`
	Class    string `json:"class"`    // the token's kind in our row
	Trainer  string `json:"trainer"`  // trained, context, absent
	Ours     string `json:"ours"`     // trained, context, absent
	Position [2]int `json:"position"` // index in the trainer's sequence and in ours; -1 if the token isn't there
}

// The roles of a token in the trainer's sequence or in ours.
const (
	trained = "trained"
	given   = "context"
	absent  = "absent"
)

// The kinds of difference.
const (
	trainerTrains = "trainer_trains"  // the trainer trains on tokens that are context for us
	oursTrains    = "ours_trains"     // we train on tokens that are context for the trainer
	trainerOnly   = "only_in_trainer" // the trainer's row has tokens that ours lacks
	oursOnly      = "only_in_ours"    // our row has tokens that the trainer's lacks
)

// difference counts the tokens of one class that have the same kind of difference.
type difference struct {
	Kind    string `json:"kind"`
	Class   string `json:"class"`   // kind of the tokens, in words
	Trained bool   `json:"trained"` // whether the trainer or we train on the tokens
	Tokens  int    `json:"tokens"`
	Rows    []int  `json:"rows"` // row numbers, from 1
}

// sideTokens holds the aligned tokens of one side of a row.
type sideTokens struct {
	Side   string  `json:"side"`
	Tokens []token `json:"tokens"`
}

// match aligns the trainer's sequence with ours.
func match(theirs, ours Side) []token {
	inTheirs, inOurs := make([]bool, len(theirs.IDs)), make([]bool, len(ours.IDs))
	show.Diff(theirs.IDs, ours.IDs, inTheirs, inOurs)
	var out []token
	for i, j := 0, 0; i < len(theirs.IDs) || j < len(ours.IDs); {
		theirsOnly := i < len(theirs.IDs) && inTheirs[i]
		oursOnly := !theirsOnly && j < len(ours.IDs) && inOurs[j]
		t := token{Class: "tokens that our row lacks", Trainer: absent, Ours: absent, Position: [2]int{-1, -1}}
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
