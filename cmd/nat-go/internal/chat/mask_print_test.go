//go:build tokenizers

package chat

import (
	"errors"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/collator/tokenview"
	"github.com/nat-go/nat-go/collator/turns"
)

// TestMaskPrint checks that the output for people shows every token under the party that it belongs to and the reason
// why it is or isn't trained, as in the mask.
func TestMaskPrint(t *testing.T) {
	tok, err := tokenizer.Load("../../../../examples/hints/tokenizer")
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	const template = `{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.role == 'assistant' %}<think>

</think>

{% endif %}{{ m.content }}<|im_end|>
{% endfor %}`
	r, err := turns.New(template, turns.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	in := `{"messages": [{"role": "user", "content": "Book it|now"}, {"role": "assistant", "content": "Done."}]}` + "\n" +
		"[]\n"
	var out strings.Builder
	err = (&Mask{Tokenizer: tok, Template: r, Rows: true}).Print(strings.NewReader(in), &out, tokenview.Look{})
	var refused *Refused
	if !errors.As(err, &refused) || refused.Refused != 1 || refused.Of != 2 {
		t.Errorf("%v", err)
	}
	for _, want := range []string{
		"conversation 1: ", " of them the model's own\n",
		"message 0   context     B", `\|`,
		"message 1   filler", "message 1   trained     D",
		"conversation 2: refused: ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}
