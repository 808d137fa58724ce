package tokenizer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/nat-go/nat-go/internal/lines"
	"github.com/nat-go/nat-go/ttc/json"
)

// MaxLineBytes is the longest line AnswerLines takes; longer ones are refused.
const MaxLineBytes = 128 << 20

// AnswerLines encodes JSON lines, one answer a line, in order, refused and
// malformed lines included. A request is
//
//	{"text": "...", "add_special_tokens": true}
//
// where add_special_tokens is true if absent, as in Hugging Face; other keys are
// ignored. The text is encoded as Encode does with ParseSpecial. Answers are ASCII:
//
//	{"ok":true,"ids":[...],"offsets":[[start,end],...]}
//	{"ok":false,"error":{"code":"...","message":"..."}}
//
// It returns how many lines were refused, and an error only if reading or
// writing itself fails.
func (t *Tokenizer) AnswerLines(r io.Reader, w io.Writer) (refused int, err error) {
	in := bufio.NewReaderSize(r, 1<<16)
	out := bufio.NewWriterSize(w, 1<<16)
	var answer []byte
	for line, err := range lines.Read(in, MaxLineBytes) {
		var enc Encoding
		var problem error
		var tooLong *lines.TooLong
		switch {
		case err == nil:
			enc, problem = t.answer(line)
		case errors.As(err, &tooLong):
			problem = refuse(CodeRequestTooLarge, "the line is longer than %d bytes", MaxLineBytes)
		default:
			return refused, errors.Join(fmt.Errorf("reading requests: %w", err), out.Flush())
		}
		if problem != nil {
			refused++
			answer = appendRefusal(answer[:0], problem)
		} else {
			answer = appendEncoding(answer[:0], enc)
		}
		if _, err := out.Write(append(answer, '\n')); err != nil {
			return refused, fmt.Errorf("writing answers: %w", err)
		}
		// Someone who sends a line and waits for its answer gets it.
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return refused, fmt.Errorf("writing answers: %w", err)
			}
		}
	}
	return refused, out.Flush()
}

func (t *Tokenizer) answer(line []byte) (Encoding, error) {
	request, err := json.Parse(line, json.Limits{})
	if err != nil {
		return Encoding{}, refuse(CodeBadRequest, "the line is no JSON: %v", json.LineError(err))
	}
	if request.Kind() != json.Object {
		return Encoding{}, refuse(CodeBadRequest, `the line is %s, not an object {"text", "add_special_tokens"}`, request.Kind())
	}
	raw, _ := request.Get("text")
	text, ok := raw.Text()
	if !ok {
		return Encoding{}, refuse(CodeBadRequest, `"text" must be a string`)
	}
	opts := Options{AddSpecial: true, ParseSpecial: true}
	if raw, given := request.Get("add_special_tokens"); given && raw.Kind() != json.Null {
		if opts.AddSpecial, ok = raw.Bool(); !ok {
			return Encoding{}, refuse(CodeBadRequest, `"add_special_tokens" must be true or false`)
		}
	}
	return t.Encode(text, opts)
}

func appendEncoding(dst []byte, enc Encoding) []byte {
	dst = append(dst, `{"ok":true,"ids":[`...)
	for i, id := range enc.IDs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(id), 10)
	}
	dst = append(dst, `],"offsets":[`...)
	for i, o := range enc.Offsets {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '[')
		dst = strconv.AppendInt(dst, int64(o.Start), 10)
		dst = append(dst, ',')
		dst = strconv.AppendInt(dst, int64(o.End), 10)
		dst = append(dst, ']')
	}
	return append(dst, "]}"...)
}

func appendRefusal(dst []byte, err error) []byte {
	code := CodeEncodeFailed
	var e *Error
	if errors.As(err, &e) {
		code = e.Code
	}
	dst = append(dst, `{"ok":false,"error":{"code":`...)
	dst = json.AppendASCII(dst, code)
	dst = append(dst, `,"message":`...)
	dst = json.AppendASCII(dst, err.Error())
	return append(dst, "}}"...)
}
