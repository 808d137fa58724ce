//go:build tokenizers && cgo

package tokenizer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestAnswerLines(t *testing.T) {
	tok, err := New(synthetic(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	in := strings.Join([]string{
		`{"text": "a<|a|>é", "add_special_tokens": false}`,
		`{"text": ""}`,
		``,
		`{"text": "x\ud800y"}`,
		`[1]`,
		`{"text": 3}`,
		`{"text": "a", "add_special_tokens": "yes"}`,
		`{"text": "\ud83d\udc4d", "add_special_tokens": null, "more": 1}`,
		"{\"text\": \"\xff\"}",
		`{"text": "last"`,
	}, "\n")
	var out bytes.Buffer
	refused, err := tok.AnswerLines(strings.NewReader(in), &out)
	if err != nil {
		t.Fatal(err)
	}
	codes := []string{"", "", CodeBadRequest, CodeLoneSurrogate, CodeBadRequest, CodeBadRequest, CodeBadRequest, "", CodeBadRequest, CodeBadRequest}
	lines := bufio.NewScanner(&out)
	for i, code := range codes {
		if !lines.Scan() {
			t.Fatalf("no answer to line %d", i)
		}
		var answer struct {
			OK      bool
			IDs     []uint32
			Offsets [][2]int
			Error   struct{ Code, Message string }
		}
		if err := json.Unmarshal(lines.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		if answer.OK != (code == "") || answer.Error.Code != code || code != "" && answer.Error.Message == "" {
			t.Errorf("line %d: %s, want code %q", i, lines.Text(), code)
		}
		if strings.ContainsFunc(lines.Text(), func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("line %d is not ASCII: %s", i, lines.Text())
		}
		if i == 0 && (len(answer.IDs) != 4 || !slices.Equal(answer.Offsets, [][2]int{{0, 1}, {1, 6}, {6, 8}, {6, 8}})) {
			t.Errorf("got %s", lines.Text())
		}
	}
	if lines.Scan() || refused != 7 {
		t.Errorf("%d refused, then %q", refused, lines.Text())
	}
}

// TestLongLine: a line that is too long is refused, and the one after it answered.
func TestLongLine(t *testing.T) {
	tok, err := New(synthetic(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	long := io.MultiReader(strings.NewReader(strings.Repeat("x", MaxLineBytes+1)), strings.NewReader("\n{\"text\": \"a\"}\n"))
	refused, err := tok.AnswerLines(long, &out)
	answers := strings.Split(strings.TrimSpace(out.String()), "\n")
	if err != nil || refused != 1 || len(answers) != 2 || !strings.Contains(answers[0], CodeRequestTooLarge) ||
		!strings.Contains(answers[1], `"ok":true`) {
		t.Errorf("%d refused, %.300q, %v", refused, answers, err)
	}
}

// TestRefusedTexts: what Python's tokenizers refuses is refused, with the place.
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
		var refused *Error
		_, err := tok.Encode(text, Options{})
		if !errors.As(err, &refused) || refused.Code != want.Code || refused.Offset != want.Offset {
			t.Errorf("%.10q: %v", text, err)
		}
		var row Encoding
		if err := tok.EncodeRow(&row, text, nil); !errors.As(err, &refused) || refused.Code != want.Code {
			t.Errorf("%.10q as a row: %v", text, err)
		}
	}
}
