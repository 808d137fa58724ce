package chat

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tokenview"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Print reads requests and prints the tokens of each conversation, their owners, whether they are the model's own and,
// if not, why. It returns the same errors as Answer.
func (m *Mask) Print(in io.Reader, out io.Writer, look tokenview.Look) error {
	t := terminal.For(out)
	return requests(in, t.Flush, func(n int, line []byte, err error) error {
		var k *masked
		if err == nil {
			k, err = m.examine(line)
		}
		if n > 1 {
			fmt.Fprintln(t)
		}
		if err != nil {
			fmt.Fprintf(t, "conversation %d: refused: %s\n", n, terminal.Line(err.Error()))
			return err
		}
		side, err := m.side(k)
		if err != nil {
			return err
		}
		trained := 0
		for _, s := range side.Tokens {
			if s.Trained {
				trained++
			}
		}
		fmt.Fprintf(t, "conversation %d: %s, %d of them the model's own\n", n,
			ledger.Quantity(int64(len(side.Tokens)), "token"), trained)
		for _, note := range k.notes() {
			fmt.Fprintln(t, "  note: "+note)
		}
		_ = side.Print(t, look) // the terminal's writer remembers write errors
		return nil
	})
}

// notes returns remarks on anything that the tokens themselves don't show.
func (k *masked) notes() (notes []string) {
	if k.straddle >= 0 {
		notes = append(notes, fmt.Sprintf("token %d crosses the edge of a turn", k.straddle))
	}
	var unstable []string
	for _, m := range k.unstable {
		unstable = append(unstable, fmt.Sprintf("message %d", m))
	}
	if unstable != nil {
		notes = append(notes, "not rendered as sampled: "+strings.Join(unstable, ", "))
	}
	return notes
}

// side returns the conversation token by token.
func (m *Mask) side(k *masked) (*tokenview.Side, error) {
	s := &tokenview.Side{}
	spans := slices.Collect(turns.Fields(&k.res))
	turn, sp := 0, 0
	for i, id := range k.enc.IDs {
		text, err := m.Tokenizer.Decode([]int32{id}, false)
		if err != nil {
			return nil, err
		}
		at := k.enc.Offsets[i].Start
		for turn < len(k.turns) && k.turns[turn].End <= at {
			turn++
		}
		for sp < len(spans) && spans[sp].End <= at {
			sp++
		}
		t := tokenview.Token{Position: i, ID: id, Text: text, Message: -1, Trained: k.mask[i], Why: batch.Markup}
		switch {
		case turn < len(k.turns) && k.turns[turn].Start <= at:
			t.Message, t.Why = k.turns[turn].Message, whyUntrained(&k.turns[turn], at)
		case sp < len(spans) && spans[sp].Start <= at && spans[sp].Message >= 0:
			t.Message, t.Why = spans[sp].Message, batch.Context
		case sp < len(spans) && spans[sp].Start <= at:
			t.Why = batch.Tools
		}
		if t.Trained {
			t.Why = batch.InLoss
		}
		s.Tokens = append(s.Tokens, t)
	}
	return s, nil
}

// whyUntrained explains why a token in a turn is not trained on: the template inserted it, or it spans the turn's edge.
func whyUntrained(t *turns.Turn, at int) string {
	if slices.ContainsFunc(t.Filler, func(f chat.Span) bool { return at >= f.Start && at < f.End }) {
		return batch.Filler
	}
	return "across edge"
}
