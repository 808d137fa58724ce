package chat

import (
	"fmt"
	"time"

	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// Render is an Answerer. Its answers contain the text that a template renders.
//
// A request is {"messages", "tools"?, "kwargs"?, "add_generation_prompt"?}. Unless Normalise is set, the conversation
// is rendered as in transformers, with the aliases of reasoning added and nothing else changed. An answer contains
//
//	"text":"...","spans":[{"start","end","message","field"},...],"generations":[[start,end],...]
//
// Positions are UTF-8 byte offsets in the text. Text that no span covers comes from the template, its variables or the
// tools. generations is present if the template marks the model's own text.
type Render struct {
	Now       time.Time // the time that strftime_now returns
	Normalise bool      // whether to prepare messages as for traces (template.Conversation)

	tmpl    *template.Template
	room    template.Room // reused, because each answer is written before the next render
	invalid error         // the error for every request, if the template doesn't compile
}

// NewRender compiles the template. If it doesn't compile, every request is rejected, as in transformers.
func NewRender(source string) *Render {
	t, err := template.Compile(source)
	if err != nil {
		err = invalid{err}
	}
	return &Render{tmpl: t, invalid: err}
}

func (r *Render) answer(dst, line []byte) ([]byte, error) {
	q, err := parseRequest(line)
	if err == nil {
		err = r.invalid
	}
	if err != nil {
		return nil, err
	}
	if r.Normalise {
		if q.Messages, err = asTraces(line); err != nil {
			return nil, err
		}
	}
	res, err := r.tmpl.RenderIn(&r.room, template.Input{
		Messages: q.Messages, Tools: q.Tools, AddGenerationPrompt: q.Open, Kwargs: q.kwargs, Now: r.Now,
	})
	if err != nil {
		return nil, err
	}
	dst = json.AppendASCII(append(dst, `,"text":`...), res.Text)
	dst = append(appendSpans(append(dst, `,"spans":[`...), res.Spans), ']')
	if res.Generations != nil {
		dst = appendList(dst, "generations", res.Generations, func(dst []byte, g [2]int) []byte {
			return appendRange(dst, g[0], g[1])
		})
	}
	return dst, nil
}

// asTraces reads a request's messages as if they came from a trace.
func asTraces(line []byte) ([]pyvalue.Value, error) {
	raw, _ := json.Raw(line).Get("messages") // cannot fail: the line has been parsed
	messages, err := chat.ParseMessages(raw)
	if err != nil {
		return nil, err
	}
	return template.Conversation(messages)
}

// appendSpans writes the spans that come from messages, joining adjacent ones from the same field.
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

// Tokens is an Answerer. Its answers contain the token ids of a text.
//
// A request is {"text": "...", "add_special_tokens": true}, where add_special_tokens defaults to true, as in Hugging
// Face; other keys are ignored. Special tokens in the text are parsed. An answer contains "ids" and "offsets", which
// count UTF-8 bytes.
type Tokens struct {
	Tokenizer *tokenizer.Tokenizer
}

func (t *Tokens) answer(dst, line []byte) ([]byte, error) {
	request, err := json.Parse(line, json.Limits{})
	if err != nil {
		return nil, fmt.Errorf("invalid JSON: %w", json.LineError(err))
	}
	if request.Kind() != json.Object {
		return nil, fmt.Errorf(`expected an object {"text", "add_special_tokens"}, got %s`, request.Kind())
	}
	raw, _ := request.Get("text")
	text, ok := raw.Text()
	if !ok {
		return nil, fmt.Errorf(`"text" must be a string`)
	}
	opts := tokenizer.Options{AddSpecial: true, ParseSpecial: true}
	if raw, given := request.Get("add_special_tokens"); given && raw.Kind() != json.Null {
		if opts.AddSpecial, ok = raw.Bool(); !ok {
			return nil, fmt.Errorf(`"add_special_tokens" must be true or false`)
		}
	}
	enc, err := t.Tokenizer.Encode(text, opts)
	if err != nil {
		return nil, err
	}
	dst = appendList(dst, "ids", enc.IDs, appendInt)
	return appendList(dst, "offsets", enc.Offsets, func(dst []byte, o chat.Span) []byte {
		return appendRange(dst, o.Start, o.End)
	}), nil
}
