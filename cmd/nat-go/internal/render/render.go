package render

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/nat-go/nat-go/internal/lines"
	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// Renders answers requests with one template.
type Renders struct {
	Now       time.Time // what strftime_now shows
	Normalise bool      // prepare messages as traces are (template.Normalise)

	tmpl    *template.Template
	room    template.Room // the answer is written before the next render
	invalid error         // why the template doesn't compile: then every answer says so
}

// New compiles the template. A template that doesn't compile refuses every request, as it would in transformers.
func New(source string) *Renders {
	t, err := template.Compile(source)
	return &Renders{tmpl: t, invalid: err}
}

// maxLine is the longest request Answer takes, in bytes.
const maxLine = 128 << 20

// Answer reads JSON lines {"messages", "tools"?, "kwargs"?, "add_generation_prompt"?} and writes one line for each, in order:
//
//	{"ok":true,"text":"...","spans":[{"start","end","message","field"},...],"generations":[[start,end],...]}
//	{"ok":false,"error":{"code":"...","message":"...","line":0,"column":0}}
//
// Places are UTF-8 bytes of the text; what no span covers comes from the template, its variables or the tools. generations
// is there where the template marks what the model generates. An error is one of reading or writing.
func (r *Renders) Answer(in io.Reader, out io.Writer) error {
	w := bufio.NewWriter(out)
	var answer []byte
	for line, err := range lines.Read(in, maxLine) {
		if err != nil {
			return err
		}
		answer = r.answer(answer[:0], bytes.TrimSpace(line))
		if _, err := w.Write(answer); err != nil {
			return err
		}
		if err := w.Flush(); err != nil { // whoever asks line by line is waiting
			return err
		}
	}
	return nil
}

func (r *Renders) answer(dst, line []byte) []byte {
	in, err := r.request(line)
	if err == nil && r.invalid != nil {
		err = r.invalid
	}
	if err != nil {
		return r.refuse(dst, err)
	}
	res, err := r.tmpl.RenderIn(&r.room, in)
	if err != nil {
		return r.refuse(dst, err)
	}
	dst = json.AppendASCII(append(dst, `{"ok":true,"text":`...), res.Text)
	dst = appendSpans(append(dst, `,"spans":[`...), res.Spans)
	dst = append(dst, ']')
	if res.Generations != nil {
		dst = append(dst, `,"generations":[`...)
		for i, g := range res.Generations {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = fmt.Appendf(dst, "[%d,%d]", g[0], g[1])
		}
		dst = append(dst, ']')
	}
	return append(dst, "}\n"...)
}

// appendSpans writes the spans that come from messages; those of one field that follow each other are one.
func appendSpans(dst []byte, spans []template.Span) []byte {
	first := true
	for i := 0; i < len(spans); {
		s := spans[i]
		i++
		if s.Message == template.FromTools {
			continue
		}
		for i < len(spans) && spans[i].Start == s.End && spans[i].Message == s.Message && spans[i].Field == s.Field {
			s.End = spans[i].End
			i++
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = fmt.Appendf(dst, `{"start":%d,"end":%d,"message":%d,"field":`, s.Start, s.End, s.Message)
		dst = append(json.AppendASCII(dst, s.Field), '}')
	}
	return dst
}

func (r *Renders) refuse(dst []byte, err error) []byte {
	code, text, line, column := "bad_request", err.Error(), 0, 0
	var t *template.Error
	if errors.As(err, &t) {
		code, text, line, column = "template_refused", t.Class+": "+t.Text, t.Line, t.Column
		switch {
		case r.invalid != nil:
			code = "template_invalid"
		case t.Class == "LimitError":
			code = "template_limit"
		}
	}
	dst = json.AppendASCII(append(dst, `{"ok":false,"error":{"code":`...), code)
	dst = json.AppendASCII(append(dst, `,"message":`...), text)
	dst = strconv.AppendInt(append(dst, `,"line":`...), int64(line), 10)
	dst = strconv.AppendInt(append(dst, `,"column":`...), int64(column), 10)
	return append(dst, "}}\n"...)
}

// request reads a line.
func (r *Renders) request(line []byte) (template.Input, error) {
	in := template.Input{Now: r.Now}
	raw, err := json.Parse(line, json.Limits{})
	if err != nil {
		return in, json.LineError(err)
	}
	if in.Messages, err = template.RequestMessages(raw); err != nil {
		return in, err
	}
	for i, m := range in.Messages {
		if r.Normalise {
			m = template.WithOrigin(template.Normalise(m), i)
		}
		in.Messages[i] = template.AliasReasoning(m)
	}
	if tools, ok := raw.Get("tools"); ok && tools.Kind() != json.Null {
		if in.Tools, err = template.ParseTools(tools); err != nil {
			return in, err
		}
	}
	if v, ok := raw.Get("add_generation_prompt"); ok {
		in.AddGenerationPrompt, _ = v.Bool()
	}
	kwargs, ok := raw.Get("kwargs")
	if !ok || kwargs.Kind() == json.Null {
		return in, nil
	}
	v, err := pyvalue.Parse(kwargs)
	if err != nil {
		return in, err
	}
	if in.Kwargs = v.Dict(); in.Kwargs == nil {
		return in, fmt.Errorf("kwargs are %s, not an object", kwargs.Kind())
	}
	return in, nil
}
