//go:build tokenizers && cgo

package tokenizer

import (
	"errors"
	"strings"
	"testing"
)

// TestRefusedTexts checks that each text that Python's tokenizers reject is rejected, with the position.
func TestRefusedTexts(t *testing.T) {
	tok, err := New(synthetic(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]Error{
		"ab\xed\xa0\x80":                    {Code: CodeLoneSurrogate, Offset: 2},
		"\xed\xbf\xbfa":                     {Code: CodeLoneSurrogate, Offset: 0},
		"é\xff":                             {Code: CodeInvalidUTF8, Offset: 2},
		"\xed":                              {Code: CodeInvalidUTF8, Offset: 0},
		strings.Repeat("a", MaxTextBytes+1): {Code: CodeTextTooLong, Offset: -1},
	} {
		t.Run(text, func(t *testing.T) {
			var refused *Error
			_, err := tok.Encode(text, Options{})
			if !errors.As(err, &refused) || refused.Code != want.Code || refused.Offset != want.Offset {
				t.Errorf("%.10q: %v", text, err)
			}
			var row Encoding
			if err := tok.EncodeRow(&row, text, nil); !errors.As(err, &refused) || refused.Code != want.Code {
				t.Errorf("%.10q as a row: %v", text, err)
			}
		})
	}
}
