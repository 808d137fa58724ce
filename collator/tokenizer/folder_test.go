//go:build tokenizers && cgo

package tokenizer

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"testing"

	"github.com/nat-go/nat-go/internal/pythontest"
	"github.com/nat-go/nat-go/ttc/chat"
)

// TestTokens checks that a token's reported properties match the library's behaviour.
func TestTokens(t *testing.T) {
	for name, vocab := range map[string]int{
		"Meta-Llama-3-8B-Instruct": 128256, "qwen2_5": 151665, "cohere-tokenizer": 75500,
		"bert-base-uncased": 30522, "all-minilm-l6-v2": 30522, "sentence-transformers-labse": 16,
	} {
		t.Run(name, func(t *testing.T) {
			tok := load(t, name)
			if tok.VocabSize() != vocab {
				t.Errorf("%s: vocabulary of %d, want %d", name, tok.VocabSize(), vocab)
			}
			var largest int32
			for _, s := range tok.Specials() {
				enc, err := tok.encode(s.Text, false, variant{})
				if err != nil || !slices.Equal(enc.IDs, []int32{s.ID}) || !tok.IsSpecial(s.ID) {
					t.Errorf("%s: %q is %v, we say %d (%v)", name, s.Text, enc.IDs, s.ID, err)
				}
				if id, ok := tok.ID(s.Text); !ok || id != s.ID {
					t.Errorf("%s: ID(%q) = %d", name, s.Text, id)
				}
				largest = max(largest, s.ID)
			}
			if tok.MaxID() < largest || name != "sentence-transformers-labse" && tok.MaxID() != int32(vocab-1) {
				t.Errorf("%s: largest id %d", name, tok.MaxID())
			}
		})
	}
}

// configuredFolders returns folders whose tokenizer_config.json adds to or overrides tokenizer.json.
func configuredFolders(t *testing.T) []string {
	var dirs []string
	for _, config := range []string{
		`{"tokenizer_class": "PreTrainedTokenizerFast"}`,
		`{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<new>", "additional_special_tokens": ["<tool>", "[x]"]}`,
		`{"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<late>", "added_tokens_decoder": {
			"500": {"content": "<late>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": false},
			"600": {"content": "<|a|>", "single_word": false, "lstrip": false, "rstrip": true, "normalized": false, "special": true},
			"400": {"content": "<early>", "single_word": false, "lstrip": true, "rstrip": false, "normalized": false, "special": true}}}`,
	} {
		dirs = append(dirs,
			folder(t, map[string]string{"tokenizer.json": string(synthetic(t, nil)), "tokenizer_config.json": config}))
	}
	return dirs
}

// TestFoldersAgainstTransformers checks that a folder gives the same ids as AutoTokenizer.
func TestFoldersAgainstTransformers(t *testing.T) {
	py := pythontest.Need(t, "transformers", "import transformers", "folders were not compared with it")
	texts := []string{"hi <new> you", "a<|a|>  b<tool>[x]c", "x <late> <early> y<|end|> <early>", "  <|a|>\n<|a|>b"}
	for _, dir := range configuredFolders(t) {
		request, _ := json.Marshal(texts)
		cmd := exec.Command(py, "-c", `
import sys, json
from transformers import PreTrainedTokenizerFast
tok = PreTrainedTokenizerFast.from_pretrained(sys.argv[1])
print(json.dumps([tok(t, add_special_tokens=False).input_ids for t in json.load(sys.stdin)] + [sorted(tok.all_special_ids)]))
`, dir)
		cmd.Stdin = bytes.NewReader(request)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var want [][]int32
		if err := json.Unmarshal(out[bytes.IndexByte(out, '['):], &want); err != nil {
			t.Fatal(err)
		}
		tok, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range texts {
			got, err := tok.Encode(text, Options{ParseSpecial: true})
			if err != nil || !slices.Equal(got.IDs, want[i]) {
				t.Errorf("%q\n got %v\nwant %v (%v)", text, got.IDs, want[i], err)
			}
			if ok, why := tok.Segmentable(); !ok {
				t.Errorf("not segmentable: %s", why)
			}
			var row Encoding
			if err := tok.EncodeRow(&row, text, everything(text)); err != nil || !slices.Equal(row.IDs, want[i]) {
				t.Errorf("%q as a row\n got %v\nwant %v (%v)", text, row.IDs, want[i], err)
			}
		}
		for _, id := range want[len(texts)] {
			if !tok.IsSpecial(id) {
				t.Errorf("%d is special in transformers", id)
			}
		}
	}
}

// TestConfiguredFolders does the same without Python, by checking what must hold.
func TestConfiguredFolders(t *testing.T) {
	dirs := configuredFolders(t)
	tok, err := Load(dirs[2])
	if err != nil {
		t.Fatal(err)
	}
	pad, _ := tok.Config.Token("pad_token")
	id, ok := tok.ID(pad)
	if !ok || !tok.IsSpecial(id) {
		t.Errorf("pad token %q: id %d", pad, id)
	}
	enc, err := tok.Encode("<|a|>  b", Options{ParseSpecial: true})
	if err != nil || len(enc.IDs) != 2 || enc.Offsets[0] != (chat.Span{Start: 0, End: 7}) {
		t.Errorf("the configuration's rstrip is not applied: %v, %v", enc, err)
	}
}
