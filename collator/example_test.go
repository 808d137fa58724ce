//go:build tokenizers

package collator_test

import (
	"context"
	"fmt"
	"iter"
	"os"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/tokenizertest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

const chatML = `{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

// A demonstration becomes a batch, which is then checked from the files alone.
func Example() {
	tok, err := tokenizer.New(tokenizertest.Toy()) // tokenizer.Load reads a model's folder instead
	if err != nil {
		panic(err)
	}
	defer tok.Close()
	c, err := collator.New(collator.Config{Tokenizer: tok, Template: chatML, MaxLength: 100, BatchTokens: 1000})
	if err != nil {
		panic(err)
	}
	conversation := ttc.Chain([]chat.Message{
		{Role: "user", Form: chat.Text, Text: "2 + 2?"},
		{Role: "assistant", Form: chat.Text, Text: "4"},
	}, ttc.Yes)
	item := collator.Item{Hash: "a", Record: &builders.Resolved{
		Record:   &builders.Demonstration{Train: builders.TrainAll, Weight: 1},
		Origin:   &builders.Origin{Example: "sum"},
		Messages: builders.Passage{Nodes: conversation.Nodes},
	}}
	var groups iter.Seq2[[]collator.Item, error] = func(yield func([]collator.Item, error) bool) {
		yield([]collator.Item{item}, nil)
	}
	dir, err := os.MkdirTemp("", "collated")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	dropped := func(d ledger.Drop) { fmt.Println("dropped", d.Reason) }
	result, err := c.Collate(context.Background(), groups, dir, dir, dropped)
	if err != nil {
		panic(err)
	}
	n := result.Counts["sft/train"]
	fmt.Println(n.Rows, "row,", n.Tokens, "tokens,", n.Active, "in the loss")
	report, err := collator.Verify(dir, tok)
	if err != nil {
		panic(err)
	}
	fmt.Println(report.Rows, "row checked,", len(report.Problems), "problems")
	// Output:
	// 1 row, 28 tokens, 2 in the loss
	// 1 row checked, 0 problems
}
