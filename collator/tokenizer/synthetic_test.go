package tokenizer

import (
	"encoding/json"
	"testing"
)

// synthetic builds a tokenizer.json of a byte-level BPE without merges (or, for Metaspace, of characters) whose other
// parts the test chooses. It is small, but shows the behaviour of added tokens, prefixes and trimming.
func synthetic(t testing.TB, overrides map[string]any) []byte {
	t.Helper()
	vocab := map[string]int{"<unk>": 0, "▁": 1}
	for r := rune(0x21); r <= 0x17F; r++ { // covers the byte-level alphabet
		if _, known := vocab[string(r)]; !known {
			vocab[string(r)] = len(vocab)
		}
	}
	file := map[string]any{
		"version": "1.0",
		"added_tokens": []map[string]any{
			token("<|a|>", nil), token("<|a|>b", map[string]any{"special": false}), token("<|end|>", nil),
			token("<tool>", map[string]any{"special": false}),
		},
		"normalizer": nil,
		"pre_tokenizer": map[string]any{
			"type":             "ByteLevel",
			"add_prefix_space": false,
			"trim_offsets":     true,
			"use_regex":        true,
		},
		"post_processor": nil,
		"decoder": map[string]any{
			"type":             "ByteLevel",
			"add_prefix_space": false,
			"trim_offsets":     true,
			"use_regex":        true,
		},
		"model": map[string]any{"type": "BPE", "unk_token": "<unk>", "vocab": vocab, "merges": []string{}},
	}
	for key, value := range overrides {
		file[key] = value
	}
	data, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// token returns an added token: special, matched literally in the text, unless flags say otherwise.
func token(content string, flags map[string]any) map[string]any {
	t := map[string]any{
		"id":          1000,
		"content":     content,
		"single_word": false,
		"lstrip":      false,
		"rstrip":      false,
		"normalized":  false,
		"special":     true,
	}
	for key, value := range flags {
		t[key] = value
	}
	return t
}

func metaspace(scheme string) map[string]any {
	return map[string]any{"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true}
}

func replaceWith(from, to string) map[string]any {
	return map[string]any{"type": "Replace", "pattern": map[string]any{"String": from}, "content": to}
}
