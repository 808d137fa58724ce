//go:build tokenizers && cgo

package tokenizer

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
)

// TestByteTexts compares the texts of each single id, and of random ids, with the library's.
func TestByteTexts(t *testing.T) {
	spaces := made(t, synthetic(t, map[string]any{"added_tokens": []map[string]any{
		token("<a b>", nil), token("é", nil), token("Ġ漢", nil),
	}}))
	for name, tok := range map[string]*Tokenizer{
		"qwen2_5": load(t, "qwen2_5"), "llama": load(t, "Meta-Llama-3-8B-Instruct"),
		"cohere": load(t, "cohere-tokenizer"), "a space in a token": spaces,
	} {
		t.Run(name, func(t *testing.T) {
			texts := newByteTexts(tok.shape)
			engine, err := tok.engine(variant{specialsAsText: true})
			if err != nil || texts == nil {
				t.Fatal(err, texts)
			}
			compare := func(t rapid.TB, ids []int32) (known bool) {
				got, ok := texts.decode(ids)
				if want, has := engine.decode(ids, false); ok && has && got != want {
					t.Fatalf("%d are %q, not %q", ids, want, got)
				}
				if ok && !texts.are(ids, got) || texts.are(ids, got+"x") || got != "" && texts.are(ids, got[1:]) {
					t.Fatalf("%d are %q, but compared with it or with other text, they are not or are", ids, got)
				}
				return ok
			}
			known := 0
			for id := range tok.MaxID() + 2 {
				if compare(t, []int32{id}) {
					known++
				}
			}
			if known < tok.VocabSize()*9/10 && known < tok.VocabSize()-0x80 {
				t.Errorf("%d of %d tokens have a text", known, tok.VocabSize())
			}
			property.Check(t, func(r *rapid.T) {
				compare(r, rapid.SliceOfN(rapid.Int32Range(-1, tok.MaxID()+1), 0, 40).Draw(r, "ids"))
				text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(fragments), 1, 12).Draw(r, "fragments"), "")
				enc, err := tok.Encode(text, Options{ParseSpecial: true})
				if err == nil && !compare(r, enc.IDs) && tok != spaces {
					r.Fatalf("%q: %d have no text", text, enc.IDs)
				}
			})
		})
	}
	for name, parts := range map[string]map[string]any{
		"another decoder": {"decoder": metaspace("first")},
		"no decoder":      {"decoder": nil},
		"one id of two tokens": {"model": map[string]any{
			"type": "BPE", "vocab": map[string]int{"a": 0, "b": 0}, "merges": []string{},
		}},
	} {
		if newByteTexts(made(t, synthetic(t, parts)).shape) != nil {
			t.Errorf("%s: ids have texts of their own", name)
		}
	}
}
