package tokenizer

import (
	"errors"
	"fmt"
)

// ErrUnavailable means that this build lacks a tokenizer library. A command that needs one exits with status 3.
var ErrUnavailable = errors.New("cannot tokenize: this build of nat-go lacks the tokenizer library; run `make " +
	"lib`, then build with `make build` (or with -tags tokenizers)")

// Codes of an Error. They are part of the output of `nat-go chat tokens`.
const (
	CodeLoneSurrogate   = "lone_surrogate"           // the text contains an unpaired surrogate
	CodeInvalidUTF8     = "invalid_utf8"             // the text is not UTF-8
	CodeTextTooLong     = "text_too_long"            // the text has more than MaxTextBytes bytes
	CodeEncodeFailed    = "encode_failed"            // the library failed to encode the text
	CodeDecodeFailed    = "decode_failed"            // the library failed to decode the ids
	CodeSpecialInText   = "special_token_in_content" // this tokenizer can't keep a special-token look-alike as text
	CodeBadTokenizer    = "bad_tokenizer"            // the files are malformed or beyond a limit
	CodeMissingFile     = "missing_tokenizer_file"   // no tokenizer.json where one was expected
	CodeBadRequest      = "bad_request"              // a line of input is not a valid request
	CodeRequestTooLarge = "request_too_large"        // a line of input is too long
)

// Error describes rejected input, with a code for programs and a message for users.
type Error struct {
	Code    string
	Message string
	Offset  int // byte offset into the text, or -1
}

func (e *Error) Error() string { return e.Message }

func refuse(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Offset: -1}
}

func refuseAt(offset int, code, format string, args ...any) *Error {
	e := refuse(code, format, args...)
	e.Offset = offset
	return e
}
