package doctor

import (
	"slices"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/show"
	"github.com/nat-go/nat-go/collator/tokenizer"
)

// Token is a token of a row, in the trainer's sequence, ours, or both.
type Token struct {
	ID       int32  `json:"id"`
	Text     string `json:"text"`
	Class    string `json:"class"`    // what it is, according to our row
	Trainer  string `json:"trainer"`  // trained, context, absent
	Ours     string `json:"ours"`     // trained, context, absent
	Position [2]int `json:"position"` // in the trainer's sequence and in ours; -1: missing
}

// What a token is on each side.
const (
	trained = "trained"
	given   = "context"
	absent  = "absent"
)

// What a difference is about.
const (
	TrainerTrains = "trainer_trains"  // the trainer trains tokens that are context for us
	OursTrains    = "ours_trains"     // we train tokens that are context for the trainer
	TrainerOnly   = "only_in_trainer" // the trainer's row has tokens that ours lacks
	OursOnly      = "only_in_ours"    // our row has tokens that the trainer's lacks
)

// Difference counts the tokens in which rows differ, for one kind of difference.
type Difference struct {
	Kind    string `json:"kind"`
	Class   string `json:"class"`   // what the tokens are, in words
	Trained bool   `json:"trained"` // whether the side that has them trains them
	Tokens  int    `json:"tokens"`
	Rows    []int  `json:"rows"`
}

// SideTokens are the tokens of one side of a row, aligned.
type SideTokens struct {
	Side   string  `json:"side"`
	Tokens []Token `json:"tokens"`
}

// match aligns the trainer's sequence with ours.
func match(theirs, ours Side) []Token {
	inTheirs, inOurs := make([]bool, len(theirs.IDs)), make([]bool, len(ours.IDs))
	show.Diff(theirs.IDs, ours.IDs, inTheirs, inOurs)
	var out []Token
	for i, j := 0, 0; i < len(theirs.IDs) || j < len(ours.IDs); {
		switch {
		case i < len(theirs.IDs) && inTheirs[i]:
			out = append(out, Token{
				ID: theirs.IDs[i], Class: "tokens that our row lacks", Trainer: mark(theirs.Trained[i]),
				Ours: absent, Position: [2]int{i, -1},
			})
			i++
		case j < len(ours.IDs) && inOurs[j]:
			out = append(out, Token{
				ID: ours.IDs[j], Class: ours.class[j], Trainer: absent, Ours: mark(ours.Trained[j]),
				Position: [2]int{-1, j},
			})
			j++
		default:
			out = append(out, Token{
				ID: theirs.IDs[i], Class: ours.class[j], Trainer: mark(theirs.Trained[i]),
				Ours: mark(ours.Trained[j]), Position: [2]int{i, j},
			})
			i, j = i+1, j+1
		}
	}
	return out
}

func mark(on bool) string {
	if on {
		return trained
	}
	return given
}

// kind returns a token's kind of difference; empty means none.
func (t *Token) kind() (kind string, trains bool) {
	switch {
	case t.Ours == absent:
		return TrainerOnly, t.Trainer == trained
	case t.Trainer == absent:
		return OursOnly, t.Ours == trained
	case t.Trainer == trained && t.Ours == given:
		return TrainerTrains, true
	case t.Trainer == given && t.Ours == trained:
		return OursTrains, true
	}
	return "", false
}

// differences collects the differences between rows.
type differences []Difference

func (d *differences) add(row int, tokens []Token) (same bool) {
	same = true
	for i := range tokens {
		kind, trains := tokens[i].kind()
		if kind == "" {
			continue
		}
		same = false
		at := slices.IndexFunc(*d, func(x Difference) bool {
			return x.Kind == kind && x.Class == tokens[i].Class && x.Trained == trains
		})
		if at < 0 {
			at = len(*d)
			*d = append(*d, Difference{Kind: kind, Class: tokens[i].Class, Trained: trains})
		}
		x := &(*d)[at]
		x.Tokens++
		if n := len(x.Rows); n == 0 || x.Rows[n-1] != row {
			x.Rows = append(x.Rows, row)
		}
	}
	return same
}

// spell fills in the texts of tokens.
func spell(tokens []Token, tok *tokenizer.Tokenizer) {
	for i := range tokens {
		if id := tokens[i].ID; id >= 0 {
			if text, err := tok.Decode([]int32{id}, false); err == nil {
				tokens[i].Text = text
			}
		}
	}
}
