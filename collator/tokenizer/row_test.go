//go:build tokenizers && cgo

package tokenizer

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
	"github.com/nat-go/nat-go/ttc/chat"
)

// everything treats all text as template.
func everything(text string) []chat.Span { return []chat.Span{{End: len(text)}} }

// zoo has tokenizers whose segments depend on their surroundings in every known way.
func zoo(t testing.TB) map[string]*Tokenizer {
	byteLevel := func(prefix, trim bool) map[string]any {
		return map[string]any{"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": trim, "use_regex": true}
	}
	added := func(tokens ...map[string]any) []map[string]any { return tokens }
	files := map[string]map[string]any{
		"plain":            {},
		"metaspace first":  {"pre_tokenizer": metaspace("first"), "decoder": nil},
		"metaspace always": {"pre_tokenizer": metaspace("always"), "decoder": nil},
		"llama prepend": {
			"pre_tokenizer": nil,
			"decoder":       nil,
			"normalizer": map[string]any{"type": "Sequence", "normalizers": []any{
				map[string]any{"type": "Prepend", "prepend": "▁"}, replaceWith(" ", "▁"),
			}},
		},
		"prefix space":        {"pre_tokenizer": byteLevel(true, true)},
		"trim with prefix":    {"pre_tokenizer": byteLevel(true, true), "post_processor": byteLevel(true, true)},
		"trim without prefix": {"post_processor": byteLevel(false, true)},
		"strips": {
			"added_tokens": added(token("<|a|>", map[string]any{"rstrip": true}),
				token("<|end|>", map[string]any{"lstrip": true, "rstrip": true}),
				token("<tool>", map[string]any{"special": false, "lstrip": true, "rstrip": true})),
		},
		"words": {
			"added_tokens": added(token("<|a|>", map[string]any{"single_word": true}),
				token("end", map[string]any{"single_word": true}), token("<tool>", map[string]any{"special": false})),
		},
		"late": {"added_tokens": added(token("<|a|>", map[string]any{"normalized": true}), token("<|end|>", nil),
			token("<tool>", map[string]any{"special": false, "normalized": true}),
			token("|><", map[string]any{"special": false, "normalized": true}))},
		"lower case": {
			"normalizer": map[string]any{"type": "Lowercase"},
			"added_tokens": added(token("<|a|>", nil),
				token("<TOOL>", map[string]any{"special": false, "normalized": true})),
		},
		"strip and NFKC": {"normalizer": map[string]any{"type": "Sequence", "normalizers": []any{
			map[string]any{"type": "NFKC"}, map[string]any{"type": "Strip", "strip_left": true, "strip_right": true},
		}}},
	}
	tokenizers := map[string]*Tokenizer{}
	for name, parts := range files {
		tok, err := New(synthetic(t, parts))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if ok, why := tok.Segmentable(); !ok {
			t.Fatalf("%s: %s", name, why)
		}
		tokenizers[name] = tok
	}
	return tokenizers
}

var fragments = []string{
	"<|a|>", "<|a|>b", "<|end|>", "<tool>", "<TOOL>", "end", "<|", "|>", "<", " ", "  ", "\n", "\t", "a", "b", "Hello",
	" world", "é", "ﬁ", "漢", "👍🏽",
	"\x00", "\x01", "\x02", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "[CLS]", "[MASK]", "<tool_call>", "'s", "123",
	"\u00a0", "\u3000", "_", "e\u0301", "▁",
}

func drawText(r *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(fragments), 0, 12).Draw(r, "fragments"), "")
}

// TestSegmentsEqualWhole proves that encoding between special tokens gives the
// ids and offsets of encoding the whole text.
func TestSegmentsEqualWhole(t *testing.T) {
	tokenizers := zoo(t)
	if !testing.Short() {
		for _, name := range []string{"qwen2_5", "Meta-Llama-3-8B-Instruct", "cohere-tokenizer", "bert-base-uncased"} {
			tokenizers[name] = load(t, name)
		}
	}
	for name, tok := range tokenizers {
		check := func(t rapid.TB, text string) {
			whole, err := tok.encode(text, false, variant{})
			if err != nil {
				t.Fatal(err)
			}
			var row Encoding
			if err := tok.EncodeRow(&row, text, everything(text)); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(row.IDs, whole.IDs) || !slices.Equal(row.Offsets, whole.Offsets) {
				t.Fatalf("%q\n  row %v %v\nwhole %v %v", text, row.IDs, row.Offsets, whole.IDs, whole.Offsets)
			}
		}
		t.Run(name, func(t *testing.T) {
			// Escapes at the start of text and before a trimmed space.
			for _, text := range []string{"\x01<|a|>\x00", "\x00<|a|>\x01", "\x00a\x01", "\x00\x02\x03\x01\x03"} {
				check(t, text)
			}
			property.Check(t, func(r *rapid.T) { check(r, drawText(r)) })
		})
	}
}

// TestContentStaysText checks that special tokens typed by a user never become special ids, and that the template's
// always do.
func TestContentStaysText(t *testing.T) {
	for name, tok := range zoo(t) {
		t.Run(name, func(t *testing.T) {
			open := tok.Specials()[0].Text
			property.Check(t, func(r *rapid.T) {
				content := drawText(r)
				text := open + "x\n" + content + "\n" + open
				start, end := len(open)+2, len(open)+2+len(content)
				var row Encoding
				template := []chat.Span{{End: start}, {Start: end, End: len(text)}}
				if err := tok.EncodeRow(&row, text, template); err != nil {
					r.Fatal(err)
				}
				special := 0
				for i, id := range row.IDs {
					if !tok.IsSpecial(id) {
						continue
					}
					special++
					if o := row.Offsets[i]; o.Start < end && o.End > start &&
						strings.TrimSpace(text[max(o.Start, start):min(o.End, end)]) != "" {
						r.Fatalf("content %q became special token %d", text[o.Start:o.End], id)
					}
				}
				if special != 2 && name != "words" {
					r.Fatalf("%d special tokens in %q, the template has 2", special, text)
				}
			})
		})
	}
}

// TestUnsegmentable checks that text that can't be encoded in segments is encoded as a whole, or rejected if that would
// turn content into special tokens.
func TestUnsegmentable(t *testing.T) {
	tok, err := New(synthetic(t, map[string]any{
		"normalizer":   map[string]any{"type": "Lowercase"},
		"added_tokens": []map[string]any{token("<|A|>", map[string]any{"normalized": true})},
	}))
	if err != nil {
		t.Fatal(err)
	}
	if ok, why := tok.Segmentable(); ok || why == "" {
		t.Fatal("a special token matched in normalised text is not a hard boundary")
	}
	var row Encoding
	if err := tok.EncodeRow(&row, "<|A|>hi", []chat.Span{{End: 5}}); err != nil || len(row.IDs) != 3 ||
		!tok.IsSpecial(row.IDs[0]) {
		t.Errorf("got %v, %v", row.IDs, err)
	}
	var refused *Error
	err = tok.EncodeRow(&row, "<|A|>hi<|A|>", []chat.Span{{End: 5}})
	if !errors.As(err, &refused) || refused.Code != CodeSpecialInText || refused.Offset != 7 {
		t.Errorf("got %v", err)
	}
	if len(row.IDs) != 3 {
		t.Error("a refused row changed the ids of the row before it")
	}
}

// TestCache checks that each distinct segment is tokenised once, while the cache is below its limit.
func TestCache(t *testing.T) {
	tok, err := New(synthetic(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	text := "<|a|>same text<|end|><|a|>same text<|end|>other"
	var first, second Encoding
	for _, row := range []*Encoding{&first, &second} {
		if err := tok.EncodeRow(row, text, everything(text)); err != nil {
			t.Fatal(err)
		}
	}
	if got := [2]uint64{tok.cache.hits, tok.cache.misses}; got != [2]uint64{4, 2} {
		t.Errorf("got %+v", got)
	}
	if !slices.Equal(first.IDs, second.IDs) || !slices.Equal(first.Offsets, second.Offsets) {
		t.Error("the second answer differs")
	}
	c := newCache(4000)
	for i := range 1000 {
		c.put(segment{text: strings.Repeat("x", i)}, Encoding{IDs: make([]int32, 3)})
		if c.bytes > c.limit/2 {
			t.Fatalf("%d bytes in a cache of %d", c.bytes, c.limit)
		}
	}
}

// TestSharedLookalikes checks that a look-alike that begins in content and ends in the template is text, whatever its
// characters spell.
func TestSharedLookalikes(t *testing.T) {
	tok, err := New(synthetic(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	text := "<|en" + "d|><|end|>"
	var row Encoding
	if err := tok.EncodeRow(&row, text, []chat.Span{{Start: 4, End: len(text)}}); err != nil {
		t.Fatal(err)
	}
	end := chat.Span{Start: 7, End: 14}
	if n := len(row.IDs); tok.IsSpecial(row.IDs[0]) || !tok.IsSpecial(row.IDs[n-1]) || row.Offsets[n-1] != end {
		t.Errorf("got %v %v", row.IDs, row.Offsets)
	}
}

// TestConcurrentRows checks that one tokenizer can serve many goroutines (run with -race).
func TestConcurrentRows(t *testing.T) {
	tok, err := New(synthetic(t, map[string]any{"pre_tokenizer": metaspace("first"), "decoder": nil}))
	if err != nil {
		t.Fatal(err)
	}
	tok.SetCacheBytes(2000) // so small that generations change during the test
	texts := []string{"<|a|>one<|end|>two", "three <|a|>one", "<|end|>\x00two", "four"}
	want := make([]Encoding, len(texts))
	for i, text := range texts {
		if err := tok.EncodeRow(&want[i], text, everything(text)); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			var row Encoding
			for i := range 200 {
				k := i % len(texts)
				row.Reset()
				if err := tok.EncodeRow(&row, texts[k], everything(texts[k])); err != nil ||
					!slices.Equal(row.IDs, want[k].IDs) {
					t.Errorf("%q: %v, %v", texts[k], row.IDs, err)
					return
				}
			}
		})
	}
	all.Wait()
}
