package chat

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/internal/lines"
	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// maxLine is the maximum size of a request in bytes; longer requests are rejected.
const maxLine = 128 << 20

// Answerer answers requests. Render, Mask and Tokens implement it.
type Answerer interface {
	// answer appends to dst the members of the answer to a request line, except "ok". The error explains why the
	// request can't be answered.
	answer(dst, line []byte) ([]byte, error)
}

// Answer reads requests and writes one line for each, {"ok":true,...} or
//
//	{"ok":false,"error":{"code":"...","message":"...","line":0,"column":0}}
//
// If the template refused the request, line and column are a position in the template. Otherwise, they are 0. Answers
// from Tokens lack both. Answer returns read and write errors. If it refused any requests, it returns a *Refused after
// the last line.
func Answer(a Answerer, in io.Reader, out io.Writer) error {
	w := bufio.NewWriterSize(out, 1<<16)
	var dst []byte
	_, plain := a.(*Tokens)
	return requests(in, w.Flush, func(_ int, line []byte, err error) error {
		dst = append(dst[:0], `{"ok":true`...)
		if err == nil {
			dst, err = a.answer(dst, line)
		}
		if err != nil {
			dst = appendRefusal(dst[:0], err, !plain)
		}
		dst = append(dst, "}\n"...)
		_, _ = w.Write(dst) // the writer keeps the first error, which Flush returns
		return err
	})
}

// requests reads requests and calls answer with each one and its number, counted from 1, or with the reason why it
// can't be read. answer returns an error if it rejects the request. flush is called before waiting for a line, so a
// client can wait for each answer before sending its next request.
func requests(in io.Reader, flush func() error, answer func(n int, line []byte, err error) error) error {
	r := bufio.NewReaderSize(in, 1<<16)
	asked, refused := 0, 0
	for text, err := range lines.Read(r, maxLine) {
		asked++
		switch {
		case errors.As(err, new(*lines.TooLong)):
			err = &tokenizer.Error{
				Code: tokenizer.CodeRequestTooLarge, Message: fmt.Sprintf("the line is longer than %d bytes", maxLine),
			}
		case err != nil:
			return errors.Join(fmt.Errorf("reading requests: %w", err), flush())
		}
		if answer(asked, bytes.TrimSpace(text), err) != nil {
			refused++
		}
		if r.Buffered() == 0 {
			if err := flush(); err != nil {
				return fmt.Errorf("writing answers: %w", err)
			}
		}
	}
	if err := flush(); err != nil {
		return fmt.Errorf("writing answers: %w", err)
	}
	if refused > 0 {
		return &Refused{refused, asked}
	}
	return nil
}

// Refused is the error if any requests were refused. The answer to each refused request contains the reason.
type Refused struct{ Refused, Of int }

func (e *Refused) Error() string {
	return fmt.Sprintf("%d of %d requests were refused; see the errors in their output lines", e.Refused, e.Of)
}

// invalid is the error for a template that doesn't compile.
type invalid struct{ error }

func (e invalid) Unwrap() error { return e.error }

// appendRefusal appends an error answer up to, but not including, its last brace. If placed is set, the answer includes
// the line and column.
func appendRefusal(dst []byte, err error, placed bool) []byte {
	code, text, line, column := "bad_request", err.Error(), 0, 0
	var t *template.Error
	var tok *tokenizer.Error
	switch {
	case errors.As(err, &t):
		code, text, line, column = "template_refused", t.Class+": "+t.Text, t.Line, t.Column
		switch {
		case errors.As(err, new(invalid)):
			code = "template_invalid"
		case t.Class == "LimitError":
			code = "template_limit"
		}
	case errors.As(err, &tok):
		code = tok.Code
	case errors.As(err, new(*turns.NotFound)):
		code = "turn_not_found"
	}
	dst = json.AppendASCII(append(dst, `{"ok":false,"error":{"code":`...), code)
	dst = json.AppendASCII(append(dst, `,"message":`...), text)
	if !placed {
		return append(dst, '}')
	}
	dst = strconv.AppendInt(append(dst, `,"line":`...), int64(line), 10)
	dst = strconv.AppendInt(append(dst, `,"column":`...), int64(column), 10)
	return append(dst, '}')
}

// appendList appends `,"key":[...]`.
func appendList[T any](dst []byte, key string, list []T, item func(dst []byte, x T) []byte) []byte {
	dst = append(append(append(dst, `,"`...), key...), `":[`...)
	for i, x := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = item(dst, x)
	}
	return append(dst, ']')
}

func appendInt[T int | int32](dst []byte, x T) []byte { return strconv.AppendInt(dst, int64(x), 10) }

func appendRange(dst []byte, start, end int) []byte {
	dst = strconv.AppendInt(append(dst, '['), int64(start), 10)
	return append(strconv.AppendInt(append(dst, ','), int64(end), 10), ']')
}

// request is a conversation to render: {"messages", "tools"?, "kwargs"?, "add_generation_prompt"?}.
type request struct {
	turns.Conversation
	kwargs *pyvalue.Dict // nil means none
}

func parseRequest(line []byte) (q request, err error) {
	raw, err := json.Parse(line, json.Limits{})
	if err != nil {
		return q, json.LineError(err)
	}
	if raw.Kind() != json.Object {
		return q, fmt.Errorf("expected a request object, got %s", raw.Kind())
	}
	messages, ok := raw.Get("messages")
	if !ok {
		return q, errors.New("missing messages in the request")
	}
	if messages.Kind() != json.Array {
		return q, fmt.Errorf("expected a list of messages, got %s", messages.Kind())
	}
	if q.Messages, err = template.ParseMessages(messages); err != nil {
		return q, err
	}
	for i, m := range q.Messages {
		q.Messages[i] = template.AliasReasoning(m)
	}
	if tools, ok := raw.Get("tools"); ok && tools.Kind() != json.Null {
		if q.Tools, err = template.ParseTools(tools); err != nil {
			return q, err
		}
	}
	if v, ok := raw.Get("add_generation_prompt"); ok {
		q.Open, _ = v.Bool()
	}
	kwargs, ok := raw.Get("kwargs")
	if !ok || kwargs.Kind() == json.Null {
		return q, nil
	}
	v, err := pyvalue.Parse(kwargs)
	if err != nil {
		return q, err
	}
	if q.kwargs = v.Dict(); q.kwargs == nil {
		return q, fmt.Errorf("expected an object of kwargs, got %s", kwargs.Kind())
	}
	return q, nil
}
