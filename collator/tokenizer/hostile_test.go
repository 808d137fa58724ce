//go:build tokenizers && cgo

package tokenizer

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/ttc/chat"
)

// FuzzHostileFile replaces random places in valid files with random content and uses whatever still loads. A panic or
// failed allocation in the library ends the process.
func FuzzHostileFile(f *testing.F) {
	bases := [][]byte{synthetic(f, nil)}
	for _, parts := range hostileBases() {
		bases = append(bases, synthetic(f, parts))
	}
	for seed := range uint64(300) {
		f.Add(seed, seed*7)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) {
		r := rand.New(rand.NewPCG(a, b))
		var file any
		if err := json.Unmarshal(bases[r.IntN(len(bases))], &file); err != nil {
			t.Fatal(err)
		}
		for range 1 + r.IntN(4) {
			mutate(r, file, 0)
		}
		data, _ := json.Marshal(file)
		if r.IntN(8) == 0 { // some are not JSON
			data[r.IntN(len(data))] ^= byte(1 + r.IntN(255))
		}
		tok, err := New(data)
		if err != nil {
			return
		}
		defer tok.Close()
		for _, text := range []string{"", "hi <|a|> you\x00", "  <|end|>  é漢👍 1234 <tool>aaaaaaaaaaaaaaaa"} {
			enc, err := tok.Encode(text, Options{AddSpecial: true, ParseSpecial: true})
			if err != nil {
				continue
			}
			for _, o := range enc.Offsets {
				if o.Start < 0 || o.End > len(text) || o.Start > o.End {
					t.Errorf("offset %v in %d bytes", o, len(text))
				}
			}
			_, _ = tok.Decode(append(enc.IDs, 5, -1<<31), r.IntN(2) == 0)
			var row Encoding
			_ = tok.EncodeRow(&row, text, []chat.Span{{Start: 0, End: len(text) / 2}})
		}
	})
}

func hostileBases() []map[string]any {
	seq := func(key string, steps ...any) map[string]any { return map[string]any{"type": "Sequence", key: steps} }
	step := func(kind string, kv ...any) map[string]any {
		m := map[string]any{"type": kind}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1]
		}
		return m
	}
	regex := func(p string) map[string]any { return map[string]any{"Regex": p} }
	template := step("TemplateProcessing",
		"single", []any{
			map[string]any{"SpecialToken": map[string]any{"id": "<|a|>", "type_id": 0}},
			map[string]any{"Sequence": map[string]any{"id": "A", "type_id": 0}},
		},
		"pair", []any{
			map[string]any{"Sequence": map[string]any{"id": "A", "type_id": 0}},
			map[string]any{"Sequence": map[string]any{"id": "B", "type_id": 1}},
		},
		"special_tokens",
		map[string]any{"<|a|>": map[string]any{"id": "<|a|>", "ids": []int{400}, "tokens": []string{"<|a|>"}}})
	return []map[string]any{
		{
			"pre_tokenizer": metaspace("first"),
			"decoder":       metaspace("first"),
			"truncation":    step("", "direction", "Right", "max_length", 8, "strategy", "LongestFirst", "stride", 2),
		},
		{
			"normalizer": seq("normalizers", step("Prepend", "prepend", "▁"), replaceWith(" ", "▁"),
				step("Strip", "strip_left", true, "strip_right", true)),
			"decoder": seq("decoders", replaceWith("▁", " "), step("ByteFallback"), step("Fuse"),
				step("Strip", "content", " ", "start", 1, "stop", 0)),
		},
		{
			"pre_tokenizer": seq("pretokenizers", step("Split", "pattern", regex(` ?[^(\s|[.,!?])]+|\s+(?!\S)`), "behavior", "Isolated", "invert", false), step("Digits", "individual_digits", true),
				step("Punctuation", "behavior", "Isolated"), step("FixedLength", "length", 3),
				step("ByteLevel", "add_prefix_space", true, "trim_offsets", true, "use_regex", false)),
			"post_processor": template,
			"padding": step("", "strategy", map[string]any{"Fixed": 16}, "direction", "Left",
				"pad_to_multiple_of", 8, "pad_id", 0, "pad_type_id", 0, "pad_token", "<unk>"),
		},
		{
			"normalizer": step("BertNormalizer", "clean_text", true, "handle_chinese_chars", true, "strip_accents", nil,
				"lowercase", true),
			"pre_tokenizer":  step("BertPreTokenizer"),
			"post_processor": step("BertProcessing", "sep", []any{"<|end|>", 3}, "cls", []any{"<|a|>", 2}),
			"decoder":        step("WordPiece", "prefix", "##", "cleanup", true),
			"model": step("WordPiece", "unk_token", "<unk>", "continuing_subword_prefix", "##",
				"max_input_chars_per_word", 100, "vocab", map[string]int{"<unk>": 0, "h": 1, "##i": 2}),
		},
		{
			"normalizer": step("Precompiled", "precompiled_charsmap",
				charsmap([]uint32{0, 0x100 | 'a', 0}, "b\x00")),
			"pre_tokenizer": metaspace("always"),
			"model": step("Unigram", "unk_id", 0, "byte_fallback", false, "vocab", []any{
				[]any{"<unk>", 0},
				[]any{"▁", -1},
				[]any{"h", -2},
				[]any{"▁hi", -1.5},
			}),
		},
		{
			"decoder": step("CTC", "pad_token", "<unk>", "word_delimiter_token", "|", "cleanup", true),
			"post_processor": step("RobertaProcessing", "sep", []any{"<|end|>", 3}, "cls", []any{"<|a|>", 2},
				"trim_offsets", true, "add_prefix_space", true),
			"model": step("BPE", "dropout", 0.1, "continuing_subword_prefix", "##", "end_of_word_suffix", "</w>",
				"byte_fallback", true, "fuse_unk", true, "vocab", map[string]int{"h": 0, "##i": 1, "hi": 2}, "merges",
				[]string{"h ##i"}),
		},
		{
			"model":         step("WordLevel", "unk_token", "<unk>", "vocab", map[string]int{"<unk>": 0, "hi": 1}),
			"pre_tokenizer": step("Whitespace"),
			"normalizer":    seq("normalizers", step("NFKD"), step("StripAccents"), step("Lowercase"), step("Nmt")),
		},
	}
}

// charsmap encodes a double-array trie and its texts as SentencePiece does.
func charsmap(units []uint32, texts string) string {
	data := binary.LittleEndian.AppendUint32(nil, uint32(4*len(units)))
	for _, u := range units {
		data = binary.LittleEndian.AppendUint32(data, u)
	}
	return base64.StdEncoding.EncodeToString(append(data, texts...))
}

var nasty = []any{
	nil, true, false, 0, 1, -1, 2, 3.5, 1e9, 1e18, 4294967295, "", " ", "x", "\u00e9", "\x01\x02", "BPE", "Sequence",
	"Strip", "Replace", "Fuse", "first", "never", "Fixed", "<|a|>", "##",
	[]any{},
	map[string]any{},
	[]any{"a", "b"},
	[]any{[]any{"a", 0}},
	map[string]any{"Regex": `\s+`},
	map[string]any{"Regex": `(`},
	map[string]any{"Regex": `[\x00-`},
	map[string]any{"String": ""},
	map[string]any{"type": "Split", "pattern": map[string]any{"Regex": ``}, "behavior": "Removed", "invert": true},
	map[string]any{"type": "FixedLength", "length": 0},
	map[string]any{"type": "Sequence", "normalizers": []any{}},
	map[string]any{"type": "Strip", "content": "h", "start": 3, "stop": 0},
	strings.Repeat("<|a|>", 20),
	map[string]any{"type": "Replace", "pattern": map[string]any{"String": "h"}, "content": strings.Repeat("h", 2000)},
}

// something returns a new copy of a hostile value, because trees must not share nodes.
func something(r *rand.Rand) any {
	data, _ := json.Marshal(nasty[r.IntN(len(nasty))])
	var value any
	_ = json.Unmarshal(data, &value)
	return value
}

// mutate inserts a hostile value at a random place below node.
func mutate(r *rand.Rand, node any, depth int) {
	switch node := node.(type) {
	case map[string]any:
		keys := make([]string, 0, len(node))
		for k := range node {
			if k != "vocab" || r.IntN(10) == 0 {
				keys = append(keys, k)
			}
		}
		if len(keys) == 0 {
			return
		}
		k := keys[r.IntN(len(keys))]
		switch roll := r.IntN(10); {
		case roll < 6-depth:
			mutate(r, node[k], depth+1)
		case roll == 9:
			delete(node, k)
		default:
			node[k] = something(r)
		}
	case []any:
		if len(node) == 0 {
			return
		}
		i := r.IntN(len(node))
		if r.IntN(10) < 6 {
			mutate(r, node[i], depth+1)
		} else {
			node[i] = something(r)
		}
	}
}

// TestDecodersThatBacktrack checks that a file whose decoder may backtrack still encodes.
func TestDecodersThatBacktrack(t *testing.T) {
	for pattern, straight := range map[string]bool{
		`\s`: true, `\s+`: true, ` {2,}`: true, `^▁?`: true, `a*a*a*a*[bc]`: false, `a|b`: false,
		`(a+)`: false, `a+b`: false, `a{2}b`: false, `a+?`: false,
	} {
		tok := made(t, synthetic(t, map[string]any{"decoder": map[string]any{"type": "Sequence", "decoders": []any{
			map[string]any{"type": "Fuse"},
			map[string]any{"type": "Replace", "pattern": map[string]any{"Regex": pattern}, "content": ""},
		}}}))
		enc, err := tok.Encode("h", Options{})
		if err != nil {
			t.Fatal(err)
		}
		text, err := tok.Decode(enc.IDs, false)
		var refused *Error
		if straight && (err != nil || text != "h") ||
			!straight && (!errors.As(err, &refused) || refused.Code != CodeDecodeFailed) {
			t.Errorf("%s: got %q, %v", pattern, text, err)
		}
	}
}

// TestLargeUnigramVocabularies checks that only distinct prefixes count, so a vocabulary of a million pieces loads.
func TestLargeUnigramVocabularies(t *testing.T) {
	vocabulary := []any{[]any{"<unk>", 0}}
	for i := range 10 {
		vocabulary = append(vocabulary, []any{strings.Repeat("x", 1<<20) + strconv.Itoa(i), -1})
	}
	data := synthetic(t, map[string]any{"model": map[string]any{"type": "Unigram", "unk_id": 0, "vocab": vocabulary}})
	if _, err := readShape(data); err != nil {
		t.Error(err)
	}
}

// TestHostileFiles checks files each of which would end the process or run away if it reached the library.
func TestHostileFiles(t *testing.T) {
	step := func(kind string, kv ...any) map[string]any {
		m := map[string]any{"type": kind}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1]
		}
		return m
	}
	deep := any(map[string]any{"type": "NFC"})
	for range 40 {
		deep = step("Sequence", "normalizers", []any{deep})
	}
	var grow, untyped, repeats []any
	for range 30 {
		grow = append(grow, replaceWith("a", "aa"))
		more := replaceWith("a", "aa")
		delete(more, "type")
		untyped = append(untyped, more)
		repeats = append(repeats, map[string]any{"Sequence": map[string]any{"id": "A", "type_id": 0}})
	}
	adds := func(times int, name string) map[string]any { // a template that adds a special token
		piece := map[string]any{"SpecialToken": map[string]any{"id": "x", "type_id": 0}}
		return step("TemplateProcessing", "single", slices.Repeat([]any{piece}, times), "pair", []any{},
			"special_tokens", map[string]any{"x": map[string]any{"id": "x", "ids": []any{1}, "tokens": []any{name}}})
	}
	var many, nothing []any
	for range maxPipelineSize {
		nothing = append(nothing, step("NFC"))
	}
	for i := range 1100 {
		many = append(many, token(strconv.Itoa(i)+strings.Repeat("x", maxTokenBytes-10), nil))
	}
	units := make([]uint32, 512)
	units[0] = 256 << 10
	trie := charsmap(units, "b\x00")
	cases := map[string]map[string]any{
		"merge shorter than its prefix": {
			"model": step("BPE", "continuing_subword_prefix", "####", "vocab", map[string]int{
				"a":  0,
				"b":  1,
				"ab": 2,
			}, "merges", []string{"a b"}),
		},
		"NUL in a message": {"version": "1.\x00"},
		"strip decoder":    {"decoder": step("Strip", "content", "a", "start", 1, "stop", 1)},
		"padding": {
			"padding": step("", "strategy", map[string]any{"Fixed": uint64(1) << 40}, "direction", "Right", "pad_id", 0,
				"pad_type_id", 0, "pad_token", "x"),
		},
		"padding multiple": {
			"padding": step("", "strategy", "BatchLongest", "direction", "Right", "pad_to_multiple_of", uint64(1)<<40,
				"pad_id", 0, "pad_type_id", 0, "pad_token", "x"),
		},
		"stride": {
			"truncation": step("", "direction", "Right", "max_length", 4, "strategy", "LongestFirst", "stride", 4),
		},
		"nesting":       {"normalizer": deep},
		"growth":        {"normalizer": step("Sequence", "normalizers", grow)},
		"nested repeat": {"pre_tokenizer": step("Split", "pattern", map[string]any{"Regex": `(a+)+b`}, "behavior", "Isolated", "invert", false)},
		"trie out of bounds": {
			"normalizer": step("Precompiled", "precompiled_charsmap", charsmap([]uint32{0x100 | 'a'<<10}, "b\x00")),
		},
		"trie size":    {"normalizer": step("Precompiled", "precompiled_charsmap", "/////w==")},
		"fixed length": {"pre_tokenizer": step("FixedLength", "length", 0)},
		// The library identifies a step of an unknown type by its settings.
		"strip decoder without type": {"decoder": map[string]any{"content": "a", "start": 1, "stop": 1}},
		"strip decoder, mistyped":    {"decoder": step("X", "content", "a", "start", 1, "stop", 1)},
		"growth without types":       {"normalizer": step("Sequence", "normalizers", untyped)},
		"template without type": {
			"post_processor": map[string]any{"single": repeats, "pair": []any{}, "special_tokens": map[string]any{}},
		},
		// It takes a list for an object's values.
		"strip decoder as a list": {"decoder": step("Sequence", "decoders", []any{[]any{"a", 1, 1}})},
		"template as a list":      {"post_processor": []any{repeats, []any{}, map[string]any{}}},
		"special token as a list": {"post_processor": step("TemplateProcessing", "single", []any{}, "pair", []any{},
			"special_tokens", map[string]any{"ids": []any{"ids", []any{1, 2}, []any{"a", "b"}}})},
		"padding as a list":    {"padding": []any{"BatchLongest", "Right", uint64(1) << 40, 0, 0, "x"}},
		"truncation as a list": {"truncation": []any{"Right", 4, "LongestFirst", 4}},
		"prefix":               {"normalizer": step("Prepend", "prepend", strings.Repeat("x", 1<<20))},
		"line break in base64": {"normalizer": step("Precompiled", "precompiled_charsmap", trie[:8]+"\n"+trie[8:])},
		"bits after base64":    {"normalizer": step("Precompiled", "precompiled_charsmap", strings.Replace(trie, "A=", "B=", 1))},
		"no charsmap":          {"normalizer": step("Precompiled")},
		"windows":              {"truncation": step("", "direction", "Right", "max_length", 20000, "strategy", "LongestFirst", "stride", 19999)},
		"surrogate in decoder": {"decoder": step("Fuse", "x", `☃\ud800`)},
		"surrogate in a key":   {"decoder": step("Fuse", `☃\ud800`, 1)},
		"number out of range":  {"decoder": step("Fuse", "x", json.RawMessage("1e999"))},
		"integer out of range": {"decoder": step("Fuse", "x", json.RawMessage(strings.Repeat("9", 400)))},
		"padding in other case": {
			"padding": step("", "strategy", "BatchLongest", "direction", "Right", "pad_to_multiple_of", uint64(1)<<40,
				"☃Pad_to_multiple_of", 1, "pad_id", 0, "pad_type_id", 0, "pad_token", "x"),
		},
		"stride in other case": {
			"truncation": step("", "direction", "Right", "max_length", 4, "strategy", "LongestFirst", "stride", 4, "☃Stride", 0),
		},
		"long padding": {
			"padding": step("", "strategy", map[string]any{"Fixed": 1 << 20}, "direction", "Right", "pad_to_multiple_of", nil,
				"pad_id", 0, "pad_type_id", 0, "pad_token", strings.Repeat("x", 1<<14)),
		},
		"padded windows": {
			"padding": step("", "strategy", map[string]any{"Fixed": 1 << 20}, "direction", "Right", "pad_to_multiple_of", nil,
				"pad_id", 0, "pad_type_id", 0, "pad_token", "x"),
			"truncation": step("", "direction", "Right", "max_length", 1, "strategy", "LongestFirst", "stride", 0),
		},
		"windows with special tokens": {
			"post_processor": adds(1000, "x"),
			"truncation":     step("", "direction", "Right", "max_length", 1001, "strategy", "LongestFirst", "stride", 0),
		},
		"long special token": {"post_processor": adds(1000, strings.Repeat("x", 1<<20))},
		"templates":          {"post_processor": step("Sequence", "processors", []any{adds(1000, "x"), adds(1000, "x")})},
		"many steps":         {"normalizer": step("Sequence", "normalizers", nothing)},
		"much added":         {"added_tokens": many},
		"long Unigram vocabulary": {
			"model": step("Unigram", "unk_id", 0, "vocab", []any{[]any{"<unk>", 0}, []any{strings.Repeat("x", 9<<20), -1}}),
		},
		"token in other case": {
			"added_tokens": []any{token(strings.Repeat("x", 1<<20), map[string]any{"☃Content": "x"})},
		},
	}
	// JSON that json.Marshal doesn't write: a surrogate, and keys that differ in case, the other one last.
	raw := strings.NewReplacer(`☃\\`, `\`, "☃", "")
	for name, parts := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := New([]byte(raw.Replace(string(synthetic(t, parts)))))
			var refused *Error
			if !errors.As(err, &refused) || refused.Code != CodeBadTokenizer {
				t.Fatalf("got %v", err)
			}
			if strings.Contains(refused.Message, "library refuses") {
				t.Errorf("reached the library: %v", err)
			}
		})
	}
	for _, data := range []string{
		"", "null", "[]", "{}", `{"model":{}}`, `{"model":{"vocab":3}}`, "\xff", `{"model":{"vocab":{"a":-1}}}`,
		`{"model":{"vocab":{"a":1.5}}}`, `{"model":{"vocab":{"a":2147483648}}}`, `{"model":{"vocab":{"a":null}}}`,
	} {
		t.Run(data, func(t *testing.T) {
			if _, err := New([]byte(data)); err == nil {
				t.Errorf("%q was accepted", data)
			}
		})
	}
}
