package chat

import (
	"strconv"
	"time"

	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// Mask answers what of a conversation is trained.
//
// A request is that of Render. An answer has
//
//	"ids":[...],"mask":[...],"straddle":false,"unstable":[message,...],"filler":[[start,end],...]
//
// mask has an item for each id. unstable lists the assistant messages that the render does not show as they were
// sampled; filler has UTF-8 byte ranges of the text.
type Mask struct {
	Tokenizer *tokenizer.Tokenizer
	Template  *turns.Renderer
	Vars      *pyvalue.Dict // template variables; a request's kwargs come on top
	Now       time.Time     // what strftime_now shows
	// Rows answers what token rows hold: look-alikes in content stay text, filler and straddling tokens are out. Otherwise
	// it is the plain render as Hugging Face encodes it: look-alikes become special tokens, a token is in the mask that
	// overlaps a turn in any character, filler counted.
	Rows bool

	last    *turns.Renderer
	lastKey string
}

func (m *Mask) answer(dst, line []byte) ([]byte, error) {
	c, r, err := m.conversation(line)
	if err != nil {
		return nil, err
	}
	res, err := r.Render(c)
	if err != nil {
		return nil, err
	}
	found, err := r.Find(c, &res)
	if err != nil {
		return nil, err
	}
	var unstable []int
	var filler []chat.Span
	for i := range found {
		ok, err := r.Stable(c, &res, &found[i])
		if err != nil || !ok { // a beginning that the template refuses was never sampled from as it is here
			unstable = append(unstable, found[i].Message)
		}
		filler = append(filler, found[i].Filler...)
	}
	enc, err := m.encode(&res)
	if err != nil {
		return nil, err
	}
	spans := make([]chat.Span, len(found))
	for i, t := range found {
		spans[i] = chat.Span{Start: t.Start, End: t.End}
	}
	ranges := spans
	if m.Rows {
		ranges = turns.Trained(found, nil)
	}
	runs, straddle := turns.Tokens(nil, enc.Offsets, ranges)
	mask := make([]byte, len(enc.IDs))
	for i := range mask {
		mask[i] = '0'
	}
	for k, run := range runs {
		for i := run.Start; i < run.End; i++ {
			o := enc.Offsets[i]
			if o.Start < o.End && (!m.Rows || o.Start >= ranges[k].Start && o.End <= ranges[k].End) {
				mask[i] = '1'
			}
		}
	}
	dst = appendList(dst, "ids", enc.IDs, appendID)
	dst = appendList(dst, "mask", mask, func(dst []byte, on byte) []byte { return append(dst, on) })
	dst = strconv.AppendBool(append(dst, `,"straddle":`...), straddle >= 0)
	dst = appendList(dst, "unstable", unstable, func(dst []byte, m int) []byte {
		return strconv.AppendInt(dst, int64(m), 10)
	})
	return appendList(dst, "filler", filler, func(dst []byte, f chat.Span) []byte {
		return appendRange(dst, f.Start, f.End)
	}), nil
}

func (m *Mask) encode(res *template.Result) (enc tokenizer.Encoding, err error) {
	if !m.Rows {
		return m.Tokenizer.Encode(res.Text, tokenizer.Options{ParseSpecial: true})
	}
	err = m.Tokenizer.EncodeRow(&enc, res.Text, turns.Template(res))
	return enc, err
}

// conversation is what a request asks about, and the renderer with its variables: the template's own and the request's
// kwargs, which may hold add_generation_prompt.
func (m *Mask) conversation(line []byte) (*turns.Conversation, *turns.Renderer, error) {
	q, err := parseRequest(line)
	if err != nil {
		return nil, nil, err
	}
	c := &turns.Conversation{Messages: q.messages, Tools: q.tools, Open: q.open}
	for i, v := range c.Messages {
		c.Messages[i] = template.AliasReasoning(v)
	}
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

// renderer is the template with a request's variables. Requests in a row tend to have the same.
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
