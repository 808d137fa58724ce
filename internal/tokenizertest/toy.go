package tokenizertest

import "encoding/json"

// Toy returns the tokenizer.json of a byte-level BPE whose only merge joins two newlines; "!" has id 0, as in GPT-2,
// Llama and Qwen.
func Toy() []byte {
	vocab := map[string]int{"!": 0}
	for r := rune(0x21); r <= 0x17F; r++ {
		if _, ok := vocab[string(r)]; !ok {
			vocab[string(r)] = len(vocab)
		}
	}
	vocab["ĊĊ"] = len(vocab) // two newlines
	added := []map[string]any{}
	for _, s := range []string{"<|im_start|>", "<|im_end|>", "<think>", "</think>", "<|pad|>"} {
		added = append(added, map[string]any{
			"id":          len(vocab) + len(added),
			"content":     s,
			"special":     true,
			"normalized":  false,
			"single_word": false,
			"lstrip":      false,
			"rstrip":      false,
		})
	}
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
	words := map[string]any{"type": "Split", "pattern": map[string]any{"Regex": `[^\s]+|\s*[\r\n]+|\s+(?!\S)|\s+`}, "behavior": "Isolated", "invert": false} // as in Llama 3
	pre := map[string]any{"type": "Sequence", "pretokenizers": []any{words, level}}
	data, err := json.Marshal(map[string]any{
		"version": "1.0", "added_tokens": added, "normalizer": nil, "pre_tokenizer": pre, "post_processor": nil,
		"decoder": level,
		"model":   map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{"Ċ Ċ"}},
	})
	if err != nil {
		panic(err)
	}
	return data
}
