package chat

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/collator/tokenview"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// Mask is an Answerer. Its answers contain the tokens of a conversation and a mask of the trained ones.
//
// Requests are the same as for Render. An answer contains
//
//	"ids":[...],"mask":[...],"straddle":false,"unstable":[message,...],"filler":[[start,end],...]
//
// mask has one item per id. unstable lists the assistant messages that are not rendered as they were sampled. filler
// contains UTF-8 byte ranges of the text.
type Mask struct {
	Tokenizer *tokenizer.Tokenizer
	Template  *turns.Renderer
	Vars      *pyvalue.Dict // template variables, to which a request's kwargs are added
	Now       time.Time     // the time that strftime_now returns
	// Rows selects the content of token rows: text that looks like a special token remains text, and filler and
	// straddling tokens are not trained on. Otherwise, the answer is the plain render as Hugging Face encodes it. Such
	// text then becomes a special token, and a token is in the mask if it overlaps any character of a turn, including
	// filler.
	Rows bool

	last    *turns.Renderer
	lastKey string
}

func (m *Mask) answer(dst, line []byte) ([]byte, error) {
	k, err := m.examine(line)
	if err != nil {
		return nil, err
	}
	dst = appendList(dst, "ids", k.enc.IDs, appendInt)
	dst = appendList(dst, "mask", k.mask, func(dst []byte, on bool) []byte {
		if on {
			return append(dst, '1')
		}
		return append(dst, '0')
	})
	dst = strconv.AppendBool(append(dst, `,"straddle":`...), k.straddle >= 0)
	dst = appendList(dst, "unstable", k.unstable, appendInt)
	return appendList(dst, "filler", k.filler, func(dst []byte, f chat.Span) []byte {
		return appendRange(dst, f.Start, f.End)
	}), nil
}

// masked holds a conversation's tokens and marks the trained ones.
type masked struct {
	res      template.Result
	turns    []turns.Turn
	enc      tokenizer.Encoding
	mask     []bool
	straddle int   // index of the first token across the edge of a turn or, with Rows, of filler; -1 means none
	unstable []int // indices of the messages that the template doesn't render as sampled
	filler   []chat.Span
}

func (m *Mask) examine(line []byte) (*masked, error) {
	c, r, err := m.conversation(line)
	if err != nil {
		return nil, err
	}
	k := &masked{}
	if k.res, err = r.RenderTurns(c); err != nil {
		return nil, err
	}
	if k.turns, err = r.Find(c, &k.res); err != nil {
		return nil, err
	}
	for i := range k.turns {
		ok, err := r.Stable(c, &k.res, &k.turns[i])
		if err != nil || !ok { // if the template rejects the prefix, the turn can't have been sampled from it
			k.unstable = append(k.unstable, k.turns[i].Message)
		}
		k.filler = append(k.filler, k.turns[i].Filler...)
	}
	if m.Rows {
		err = m.Tokenizer.EncodeRow(&k.enc, k.res.Text, turns.Template(&k.res))
	} else {
		k.enc, err = m.Tokenizer.Encode(k.res.Text, tokenizer.Options{ParseSpecial: true})
	}
	if err != nil {
		return nil, err
	}
	ranges := lists.Map(k.turns, func(t turns.Turn) chat.Span { return chat.Span{Start: t.Start, End: t.End} })
	if m.Rows {
		ranges = turns.Trained(k.turns...)
	}
	runs, straddle := turns.Tokens(nil, k.enc.Offsets, ranges)
	k.straddle, k.mask = straddle, make([]bool, len(k.enc.IDs))
	for j, run := range runs {
		for i := run.Start; i < run.End; i++ {
			o := k.enc.Offsets[i]
			if o.Start < o.End && (!m.Rows || o.Start >= ranges[j].Start && o.End <= ranges[j].End) {
				k.mask[i] = true
			}
		}
	}
	return k, nil
}

// conversation returns a request's conversation, and a renderer with the variables in m.Vars and the request's kwargs.
// A kwarg add_generation_prompt sets the conversation's field Open instead of a variable.
func (m *Mask) conversation(line []byte) (*turns.Conversation, *turns.Renderer, error) {
	q, err := parseRequest(line)
	if err != nil {
		return nil, nil, err
	}
	c := &q.Conversation
	if q.kwargs == nil {
		return c, m.Template, nil
	}
	vars := &pyvalue.Dict{}
	for _, d := range []*pyvalue.Dict{m.Vars, q.kwargs} {
		for i := range d.Len() {
			k, v := d.At(i)
			if k.Text() == "add_generation_prompt" {
				c.Open = v.IsTrue()
				continue
			}
			_ = vars.Set(k, v)
		}
	}
	r, err := m.renderer(vars)
	return c, r, err
}

// renderer returns the template's renderer for the given variables. It keeps the last one, because consecutive requests
// usually have the same variables.
func (m *Mask) renderer(vars *pyvalue.Dict) (*turns.Renderer, error) {
	key, err := pyvalue.Repr(pyvalue.OfDict(vars))
	if err != nil {
		return nil, err
	}
	if m.last == nil || key != m.lastKey {
		m.last, m.lastKey = m.Template.With(turns.Settings{Vars: vars, Now: m.Now}), key
	}
	return m.last, nil
}

// Print reads requests and prints the tokens of each conversation with their owners. For each token, it shows whether
// the token is the model's own or why it isn't. It returns the same errors as Answer.
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
		_ = side.Print(t, look) // the terminal's writer keeps the first error
		return nil
	})
}

// notes returns remarks on problems that aren't visible in the list of tokens.
func (k *masked) notes() (notes []string) {
	if k.straddle >= 0 {
		notes = append(notes, fmt.Sprintf("token %d crosses the edge of a turn", k.straddle))
	}
	unstable := lists.Map(k.unstable, func(m int) string { return fmt.Sprintf("message %d", m) })
	if unstable != nil {
		notes = append(notes, "not rendered as sampled: "+strings.Join(unstable, ", "))
	}
	return notes
}

// side returns the tokens of a conversation for printing.
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

// whyUntrained explains why a token in a turn is not trained on. Either the template inserted the token, or the token
// spans the turn's edge.
func whyUntrained(t *turns.Turn, at int) string {
	if slices.ContainsFunc(t.Filler, func(f chat.Span) bool { return at >= f.Start && at < f.End }) {
		return batch.Filler
	}
	return "across edge"
}
