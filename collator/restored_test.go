//go:build tokenizers

package collator

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/property"
	"github.com/nat-go/nat-go/internal/tokenizertest"
)

// TestRestored checks that what is concluded about a text from the tokens of its other characters alone matches what
// decoding all of them shows.
func TestRestored(t *testing.T) {
	lower, err := tokenizer.New([]byte(strings.Replace(string(tokenizertest.Toy()), `"normalizer":null`, `"normalizer":{"type":"Replace","pattern":{"String":"é"},"content":"e"}`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	drops, err := tokenizer.New([]byte(strings.Replace(string(tokenizertest.Toy()), `"normalizer":null`, `"normalizer":{"type":"Replace","pattern":{"String":"é"},"content":""}`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	fragments := []string{
		"a", " ", "\n\n", "<|im_start|>", "it’s", "漢字", "é", "e\u0301", "👍🏽", " ü", "–", "\x00", "\x01", "end",
	}
	for name, tok := range map[string]*tokenizer.Tokenizer{"toy": toy(t), "é to e": lower, "é to nothing": drops} {
		t.Run(name, func(t *testing.T) {
			if !restores(tok) {
				t.Fatalf("%s: ASCII text is not restored", name)
			}
			w := &worker{Collator: &Collator{cfg: Config{Tokenizer: tok}}}
			property.Check(t, func(r *rapid.T) {
				text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(fragments), 0, 12).Draw(r, "text"), "")
				var enc tokenizer.Encoding
				if err := tok.EncodeRow(&enc, text, nil); err != nil {
					r.Fatal(err)
				}
				ids := make([]int32, len(enc.IDs))
				copy(ids, enc.IDs)
				whole, err := tok.Decode(ids, false)
				want := err == nil && whole == text
				if w.decodesTo(ids, text) != want {
					r.Fatalf("%s: %q: compared, it is not %v", name, text, want)
				}
				if got := w.restored(ids, enc.Offsets, text); got != want {
					r.Fatalf("%s: %q: %v, decoded whole it is %v", name, text, got, want)
				}
			})
		})
	}
}
