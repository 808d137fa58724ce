//go:build tokenizers

package tokenizer_test

import (
	"fmt"

	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/ttc/chat"
)

// letters is a tokenizer.json of a few letters and one special token.
const letters = `{"version": "1.0", "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
	"added_tokens": [{"id": 7, "content": "<end>", "special": true,
		"single_word": false, "lstrip": false, "rstrip": false, "normalized": false}],
	"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "<": 2, "e": 3, "n": 4, "d": 5, ">": 6}, "merges": []}}`

// In a training row only the chat template creates special tokens: whatever looks like one in a user's text remains
// text.
func Example() {
	tok, err := tokenizer.New([]byte(letters))
	if err != nil {
		panic(err)
	}
	defer tok.Close()
	text := "ab<end><end>"
	template := []chat.Span{{Start: 7, End: 12}} // the second <end>
	var row tokenizer.Encoding
	if err := tok.EncodeRow(&row, text, template); err != nil {
		panic(err)
	}
	fmt.Println(row.IDs)
	last := len(row.IDs) - 1
	fmt.Println(row.Offsets[last], tok.IsSpecial(row.IDs[last]))
	// Output:
	// [0 1 2 3 4 5 6 7]
	// {7 12} true
}
