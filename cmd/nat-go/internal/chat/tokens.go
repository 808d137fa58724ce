package chat

import (
	"fmt"

	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

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
