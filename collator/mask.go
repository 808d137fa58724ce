package collator

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/internal/lines"
	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// Masks answers what of a conversation is trained, for people and tests (`nat-go chat mask`).
type Masks struct {
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

// maxMaskLine is the longest line Answer takes.
const maxMaskLine = 128 << 20

// Answer reads JSON lines {"messages", "tools"?, "kwargs"?, "add_generation_prompt"?} and writes one line for each, in order:
//
//	{"ok":true,"ids":[...],"mask":[...],"straddle":false,"unstable":[message,...],"filler":[[start,end],...]}
//	{"ok":false,"error":{"code":"...","message":"...","line":0,"column":0}}
//
// mask has an item for each id. unstable lists the assistant messages that the render does not show as they were sampled;
// filler has UTF-8 byte ranges of the text. An error is one of reading or writing.
func (m *Masks) Answer(in io.Reader, out io.Writer) error {
	r := bufio.NewReaderSize(in, 1<<16)
	w := bufio.NewWriter(out)
	for line, err := range lines.Read(r, maxMaskLine) {
		if err != nil {
			return err
		}
		if _, err := w.Write(m.answer(bytes.TrimSpace(line))); err != nil {
			return err
		}
		if r.Buffered() == 0 { // someone who sends a line and waits for its answer gets it
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

func (m *Masks) answer(line []byte) []byte {
	mask, err := m.line(line)
	if err != nil {
		return appendRefusal(nil, err)
	}
	return mask.append(nil)
}

// refusal is an answer that says why there is none.
type refusal struct {
	code, message string
	line, column  int
}

func appendRefusal(dst []byte, err error) []byte {
	r := refusal{code: "bad_request", message: err.Error()}
	var t *template.Error
	var tok *tokenizer.Error
	var lost *turns.NotFound
	switch {
	case errors.As(err, &t):
		r = refusal{"template_refused", t.Class + ": " + t.Text, t.Line, t.Column}
	case errors.As(err, &tok):
		r.code, r.message = tok.Code, tok.Message
	case errors.As(err, &lost):
		r.code = "turn_not_found"
	}
	dst = append(dst, `{"ok":false,"error":{"code":`...)
	dst = json.AppendASCII(dst, r.code)
	dst = append(dst, `,"message":`...)
	dst = json.AppendASCII(dst, r.message)
	dst = append(dst, `,"line":`...)
	dst = strconv.AppendInt(dst, int64(r.line), 10)
	dst = append(dst, `,"column":`...)
	dst = strconv.AppendInt(dst, int64(r.column), 10)
	return append(dst, "}}\n"...)
}

// maskAnswer is an answer with a mask.
type maskAnswer struct {
	ids      []uint32
	mask     []bool
	straddle bool
	unstable []int
	filler   []turns.Range
}

func (a *maskAnswer) append(dst []byte) []byte {
	dst = append(dst, `{"ok":true,"ids":[`...)
	for i, id := range a.ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(id), 10)
	}
	dst = append(dst, `],"mask":[`...)
	for i, on := range a.mask {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, "01"[btoi(on)])
	}
	dst = append(dst, `],"straddle":`...)
	dst = strconv.AppendBool(dst, a.straddle)
	dst = append(dst, `,"unstable":[`...)
	for i, m := range a.unstable {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(m), 10)
	}
	dst = append(dst, `],"filler":[`...)
	for i, f := range a.filler {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = fmt.Appendf(dst, "[%d,%d]", f.Start, f.End)
	}
	return append(dst, "]}\n"...)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// line answers one request.
func (m *Masks) line(text []byte) (*maskAnswer, error) {
	c, r, err := m.request(text)
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
	a := &maskAnswer{}
	for i := range found {
		ok, err := r.Stable(c, &res, &found[i])
		if err != nil || !ok { // a beginning that the template refuses was never sampled from as it is here
			a.unstable = append(a.unstable, found[i].Message)
		}
		a.filler = append(a.filler, found[i].Filler...)
	}
	enc, err := m.encode(&res)
	if err != nil {
		return nil, err
	}
	spans := make([]turns.Range, len(found))
	for i, t := range found {
		spans[i] = turns.Range{Start: t.Start, End: t.End}
	}
	ranges := spans
	if m.Rows {
		ranges = turns.Trained(found, nil)
	}
	runs, straddle := turns.Tokens(nil, enc.Offsets, ranges)
	a.ids, a.mask, a.straddle = enc.IDs, make([]bool, len(enc.IDs)), straddle >= 0
	for k, run := range runs {
		for i := run.Start; i < run.End; i++ {
			o := enc.Offsets[i]
			a.mask[i] = o.Start < o.End && (!m.Rows || o.Start >= ranges[k].Start && o.End <= ranges[k].End)
		}
	}
	return a, nil
}

func (m *Masks) encode(res *template.Result) (enc tokenizer.Encoding, err error) {
	if !m.Rows {
		return m.Tokenizer.Encode(res.Text, tokenizer.Options{ParseSpecial: true})
	}
	own := turns.Template(res)
	spans := make([]tokenizer.Span, len(own))
	for i, r := range own {
		spans[i] = tokenizer.Span{Start: r.Start, End: r.End}
	}
	err = m.Tokenizer.EncodeRow(&enc, res.Text, spans)
	return enc, err
}

// request reads a line.
func (m *Masks) request(line []byte) (*turns.Conversation, *turns.Renderer, error) {
	raw, err := json.Parse(line, json.Limits{})
	if err != nil {
		return nil, nil, json.LineError(err)
	}
	c := &turns.Conversation{}
	if c.Messages, err = template.RequestMessages(raw); err != nil {
		return nil, nil, err
	}
	for i, v := range c.Messages {
		c.Messages[i] = template.AliasReasoning(v)
	}
	if tools, ok := raw.Get("tools"); ok && tools.Kind() != json.Null {
		if c.Tools, err = template.ParseTools(tools); err != nil {
			return nil, nil, err
		}
	}
	vars, err := m.variables(raw, &c.Open)
	if err != nil || vars == nil {
		return c, m.Template, err
	}
	r, err := m.renderer(vars)
	return c, r, err
}

// variables are the template variables of a request: the renderer's own and its kwargs, without add_generation_prompt.
// They are nil where the request has none.
func (m *Masks) variables(raw json.Raw, open *bool) (*pyvalue.Dict, error) {
	if v, ok := raw.Get("add_generation_prompt"); ok {
		*open, _ = v.Bool()
	}
	kwargs, ok := raw.Get("kwargs")
	if !ok || kwargs.Kind() == json.Null {
		return nil, nil
	}
	v, err := pyvalue.Parse(kwargs)
	if err != nil {
		return nil, err
	}
	given := v.Dict()
	if given == nil {
		return nil, errors.New("kwargs is no object")
	}
	vars := &pyvalue.Dict{}
	for _, d := range []*pyvalue.Dict{m.Vars, given} {
		for i := range d.Len() {
			k, v := d.At(i)
			if k.Text() == "add_generation_prompt" {
				*open = v.IsTrue()
				continue
			}
			_ = vars.Set(k, v)
		}
	}
	return vars, nil
}

// renderer is the template with a request's variables. Requests in a row tend to have the same.
func (m *Masks) renderer(vars *pyvalue.Dict) (*turns.Renderer, error) {
	key, err := pyvalue.Repr(pyvalue.OfDict(vars))
	if err != nil {
		return nil, err
	}
	if m.last == nil || key != m.lastKey {
		m.last, m.lastKey = m.Template.With(turns.Settings{Vars: vars, Now: m.Now}), key
	}
	return m.last, nil
}
