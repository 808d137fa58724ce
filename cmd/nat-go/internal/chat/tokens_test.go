//go:build tokenizers && cgo

package chat

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/collator/tokenizer"
)

func TestTokens(t *testing.T) {
	tok := toy(t)
	in := strings.Join([]string{
		`{"text": "a<|im_end|>é", "add_special_tokens": false}`,
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
	err := Answer(&Tokens{Tokenizer: tok}, strings.NewReader(in), &out)
	if r := new(Refused); !errors.As(err, &r) || r.Refused == 0 || r.Refused >= r.Of {
		t.Fatal(err)
	}
	codes := []string{
		"", "", tokenizer.CodeBadRequest, tokenizer.CodeLoneSurrogate, tokenizer.CodeBadRequest,
		tokenizer.CodeBadRequest, tokenizer.CodeBadRequest, "", tokenizer.CodeBadRequest, tokenizer.CodeBadRequest,
	}
	lines := bufio.NewScanner(&out)
	for i, code := range codes {
		t.Run(code, func(t *testing.T) {
			if !lines.Scan() {
				t.Fatalf("no answer to line %d", i)
			}
			var answer struct {
				OK      bool
				IDs     []int32
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
			if i == 0 &&
				(len(answer.IDs) != 4 || !slices.Equal(answer.Offsets, [][2]int{{0, 1}, {1, 11}, {11, 13}, {11, 13}})) {
				t.Errorf("got %s", lines.Text())
			}
		})
	}
	if lines.Scan() {
		t.Errorf("one answer too many: %q", lines.Text())
	}
}

// TestLongLine checks that a line that is too long is refused and that the next one is answered.
func TestLongLine(t *testing.T) {
	tok := toy(t)
	var out strings.Builder
	long := io.MultiReader(strings.NewReader(strings.Repeat("x", maxLine+1)),
		strings.NewReader("\n{\"text\": \"a\"}\n"))
	err := Answer(&Tokens{Tokenizer: tok}, long, &out)
	answers := strings.Split(strings.TrimSpace(out.String()), "\n")
	if !errors.As(err, new(*Refused)) || len(answers) != 2 ||
		!strings.Contains(answers[0], tokenizer.CodeRequestTooLarge) ||
		!strings.Contains(answers[1], `"ok":true`) {
		t.Errorf("%.300q, %v", answers, err)
	}
}
