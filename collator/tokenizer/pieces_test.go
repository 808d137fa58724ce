//go:build tokenizers && cgo

package tokenizer

import (
	"encoding/json"
	"hash/maphash"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/oracletest"
	"github.com/nat-go/nat-go/internal/property"
	"github.com/nat-go/nat-go/ttc/chat"
)

// alphabet has a character of each class, more where an expression tells them apart, and some outside ASCII: a letter,
// a digit, white space, a mark that composes with the letter before it, and one that composes to an ASCII character.
var alphabet = []string{
	"a", "s", "B", "1", "2", ".", "'", "/", " ", "\t", "\n", "\r", "\v", "é", "²", "\u00a0", "\u0301", "\u212a",
}

// pairsOf returns a tokenizer.json that merges any two bytes of the alphabet, so that an end within a word shows in the
// ids, with a pre-tokenizer that has this pattern; "" is GPT-2's.
func pairsOf(t testing.TB, pattern string) []byte {
	t.Helper()
	vocab := map[string]int{}
	var symbols, merges []string
	for r := rune(0x21); r <= 0x143; r++ { // covers the byte-level alphabet
		vocab[string(r)] = len(vocab)
	}
	for _, c := range strings.Join(alphabet, "") {
		for _, b := range []byte(string(c)) {
			r := rune(b)
			switch {
			case b <= ' ':
				r = 0x100 + rune(b)
			case b >= 0x7f && b <= 0xa0:
				r = 0x121 + rune(b) - 0x7f
			}
			if !slices.Contains(symbols, string(r)) {
				symbols = append(symbols, string(r))
			}
		}
	}
	for _, a := range symbols {
		for _, b := range symbols {
			merges = append(merges, a+" "+b)
			vocab[a+b] = len(vocab)
		}
	}
	bytesOnly := map[string]any{
		"type":             "ByteLevel",
		"add_prefix_space": false,
		"trim_offsets":     true,
		"use_regex":        pattern == "",
	}
	pre := bytesOnly
	if pattern != "" {
		pre = map[string]any{"type": "Sequence", "pretokenizers": []any{map[string]any{
			"type": "Split", "pattern": map[string]any{"Regex": pattern}, "behavior": "Isolated", "invert": false,
		}, bytesOnly}}
	}
	return synthetic(t, map[string]any{
		"normalizer":    map[string]any{"type": "NFC"},
		"pre_tokenizer": pre,
		"model":         map[string]any{"type": "BPE", "vocab": vocab, "merges": merges},
		"added_tokens": []map[string]any{
			token("<|end|>", nil), token("<tool>", map[string]any{"special": false}),
			token("</tool>", map[string]any{"special": false}),
		},
	})
}

// piecewise returns tokenizers that encode in pieces: one for each expression, and published ones.
func piecewise(t testing.TB) map[string]*Tokenizer {
	t.Helper()
	all := map[string]*Tokenizer{
		"qwen2_5": load(t, "qwen2_5"),
		"llama":   load(t, "Meta-Llama-3-8B-Instruct"),
		"cohere":  load(t, "cohere-tokenizer"),
	}
	for pattern := range wordPatterns {
		all["of "+pattern] = made(t, pairsOf(t, pattern))
	}
	all["of GPT-2"] = made(t, pairsOf(t, ""))
	for name, tok := range all {
		if tok.pieces == nil {
			t.Fatalf("%s doesn't encode in pieces", name)
		}
	}
	return all
}

func made(t testing.TB, data []byte) *Tokenizer {
	t.Helper()
	tok, err := New(data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tok.Close)
	return tok
}

func libraryOf(tok *Tokenizer) func(string) (Encoding, error) {
	return func(text string) (Encoding, error) { return tok.encode(text, false, variant{specialsAsText: true}) }
}

// inPieces compares a segment encoded in pieces, using the pieces in the cache, with the library's encoding of the
// segment.
func inPieces(t rapid.TB, tok *Tokenizer, text string) {
	t.Helper()
	library := libraryOf(tok)
	want, err := library(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, memory := range []string{"of others", "of its own"} {
		var got Encoding
		if err := tok.pieces.encode(&got, text, 0, library); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.IDs, want.IDs) || !slices.Equal(got.Offsets, want.Offsets) {
			t.Fatalf("%q with pieces %s: %s", text, memory, cmp.Diff(want, got))
		}
	}
}

// TestPieces encodes every text of up to three characters of the alphabet, or four with NATGO_LONG=1, in pieces, and
// compares it with the library.
func TestPieces(t *testing.T) {
	for name, tok := range piecewise(t) {
		t.Run(name, func(t *testing.T) {
			longest := 3
			if os.Getenv("NATGO_LONG") != "" && strings.HasPrefix(name, "of ") {
				longest = 4
			}
			var all func(text string, n int)
			all = func(text string, n int) {
				if inPieces(t, tok, text); n > 0 {
					for _, c := range alphabet {
						all(text+c, n-1)
					}
				}
			}
			all("", longest)
			for _, text := range []string{"²12121", "1²2121", "12121²", "1'2121", "..\n/"} {
				inPieces(t, tok, text)
			}
		})
	}
}

// TestPiecesRemembered encodes texts with each subset of their pieces cached. The library gets the other pieces, and
// the tokens of white space depend on the text that follows.
func TestPiecesRemembered(t *testing.T) {
	for name, tok := range piecewise(t) {
		t.Run(name, func(t *testing.T) {
			library := libraryOf(tok)
			var all func(text string, n int)
			all = func(text string, n int) {
				var l pieceList
				l.cut(text, 0, len(text), tok.pieces.digits)
				for choice := range 1 << len(l.all) {
					tok.pieces.cache = newPieceCache(1 << 20)
					for i, x := range l.all {
						if choice>>i&1 == 1 {
							if err := tok.pieces.encode(&Encoding{}, text[x.Start:x.End], 0, library); err != nil {
								t.Fatal(err)
							}
						}
					}
					inPieces(t, tok, text)
				}
				if n > 0 {
					for _, c := range []string{" ", "\n", "1", "a", "."} {
						all(text+c, n-1)
					}
				}
			}
			if all("", 3); os.Getenv("NATGO_LONG") != "" {
				all("", 4)
			}
		})
	}
}

// TestPiecesOfAnything encodes longer random texts with a cache that is always too small.
func TestPiecesOfAnything(t *testing.T) {
	parts := slices.Concat(alphabet, fragments, []string{
		"</tool>", "<tool", "123456789", "can't", "'LL", "HTTPServer", "   ", "\r\n", "?\n\n", "\n/", "//", "x²3",
		"мир", "中 文",
	})
	for name, tok := range piecewise(t) {
		t.Run(name, func(t *testing.T) {
			tok.SetCacheBytes(20_000)
			property.Check(t, func(r *rapid.T) {
				text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 30).Draw(r, "parts"), "")
				if strings.IndexByte(text, 0) < 0 {
					inPieces(r, tok, text)
				}
			})
		})
	}
}

// TestPiecesOfTraces encodes the texts of real conversations.
func TestPiecesOfTraces(t *testing.T) {
	data, err := os.ReadFile(oracletest.Path(t, "chat", "traces", "gpt-4o-airline-dev.json"))
	if err != nil {
		t.Fatal(err)
	}
	var runs []struct{ Traj []struct{ Content *string } }
	if err := json.Unmarshal(data, &runs); err != nil {
		t.Fatal(err)
	}
	for name, tok := range piecewise(t) {
		t.Run(name, func(t *testing.T) {
			for _, run := range runs {
				for _, m := range run.Traj {
					if m.Content != nil {
						inPieces(t, tok, *m.Content)
					}
				}
			}
		})
	}
}

// TestNoPieces lists tokenizers whose words are unknown or depend on the surrounding text.
func TestNoPieces(t *testing.T) {
	byteLevel := func(key string, value any) map[string]any {
		step := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": true}
		step[key] = value
		return step
	}
	plain := func(content string, flags ...string) map[string]any {
		on := map[string]any{"special": false}
		for _, f := range flags {
			on[f] = true
		}
		return token(content, on)
	}
	model := func(key, value string) map[string]any {
		return map[string]any{
			"type": "BPE",
			"vocab": map[string]int{
				"a":         0,
				"b":         1,
				value + "b": 2,
				"b" + value: 3,
				"ab":        4,
			},
			"merges": []string{},
			key:      value,
		}
	}
	noTokens := []map[string]any{}
	for name, parts := range map[string]map[string]any{
		"an overlap with a special token": {},
		"an overlap with a plain token":   {"added_tokens": []map[string]any{plain("<<tool"), plain("tool>>")}},
		"whole words":                     {"added_tokens": []map[string]any{plain("tool", "single_word")}},
		"white space before":              {"added_tokens": []map[string]any{plain("tool", "lstrip")}},
		"white space after":               {"added_tokens": []map[string]any{plain("tool", "rstrip")}},
		"normalised text":                 {"added_tokens": []map[string]any{plain("tool", "normalized")}},
		"a prefix": {
			"added_tokens":  noTokens,
			"pre_tokenizer": byteLevel("add_prefix_space", true),
		},
		"no words":             {"added_tokens": noTokens, "pre_tokenizer": byteLevel("use_regex", false)},
		"trimmed offsets":      {"added_tokens": noTokens, "post_processor": byteLevel("trim_offsets", true)},
		"another normalizer":   {"added_tokens": noTokens, "normalizer": map[string]any{"type": "Lowercase"}},
		"prefixes of subwords": {"added_tokens": noTokens, "model": model("continuing_subword_prefix", "##")},
		"suffixes of words":    {"added_tokens": noTokens, "model": model("end_of_word_suffix", "</w>")},
		"metaspace":            {"added_tokens": noTokens, "pre_tokenizer": metaspace("never")},
	} {
		t.Run(name, func(t *testing.T) {
			if made(t, synthetic(t, parts)).pieces != nil {
				t.Error("it encodes in pieces")
			}
		})
	}
	if made(t, pairsOf(t, `\p{N}+|\P{N}+`)).pieces != nil {
		t.Error("words of an expression that is not listed")
	}
}

// TestPieceCache checks that pieces remain in the cache until there are too many, or while they are being used, within
// the limit.
func TestPieceCache(t *testing.T) {
	w := newPieceCache(40_000)
	ids, offsets := []int32{7, -1}, []chat.Span{{Start: 10, End: 12}, {Start: 11, End: 13}}
	w.put("recurs", ids, offsets, 10)
	for i := range 5000 {
		if _, ok := w.find("recurs"); !ok {
			t.Fatalf("a piece that recurs is lost after %d others", i)
		}
		text := strconv.Itoa(i)
		w.put(text, ids, offsets, 10)
		if got, ok := w.find(text); !ok || string(got) != "\x07\x00\x00\x00\x00\x02\xff\xff\xff\xff\x01\x03" {
			t.Fatalf("%s: got %q, %v", text, got, ok)
		}
		if bytes := len(w.young.data) + 8*len(w.young.slots); bytes > w.limit/2 {
			t.Fatalf("%d bytes in one half of %d", bytes, w.limit)
		}
	}
	if w.young.find("4998", maphash.String(w.seed, "4999")) != nil {
		t.Error("a piece is found under another's hash")
	}
	for text, want := range map[string]bool{"4999": true, "0": false, "": false, "499": false} {
		if _, ok := w.find(text); ok != want {
			t.Errorf("%q: got %v", text, ok)
		}
	}
}
