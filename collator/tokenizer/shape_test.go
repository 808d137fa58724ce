package tokenizer

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
	"github.com/nat-go/nat-go/ttc/chat"
)

// TestKnownPatterns checks that the regular expressions of widely used tokenizers pass, and those that backtrack
// without bound don't.
func TestKnownPatterns(t *testing.T) {
	for _, pattern := range []string{
		`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
		`[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_` + "`" + `{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
		` ?[^(\s|[.,!?…。，、।۔،])]+`, `[一-龥぀-ゟ゠-ヿ]+`, `\p{N}{1,3}(?=(?:\p{N}{3})*(?:\P{N}|$))`, `[\p{Han}]+|[^\r\n&&[^\p{Han}]]*`, `<\|start\|>|a{2,}|x*?y++|[]a]+|a{b`,
	} {
		if problem := checkPattern(pattern); problem != "" {
			t.Errorf("%s: %s", pattern, problem)
		}
	}
	for _, pattern := range []string{`(a*)*`, `((ab)+c?)+`, `(?:\s+)*x`, `(a)\1`, `(?<n>a)\k<n>`, `a{100000}`, strings.Repeat("(", 50) + strings.Repeat(")", 50), `(`, `)`, `[a`, strings.Repeat("a", 20000), `(x+){2,}`, `((a{0,100}){0,100}){0,100}`, `(ab{0,999}c){0,999}`} {
		if checkPattern(pattern) == "" {
			t.Errorf("%.40s passed", pattern)
		}
	}
}

// TestNULEscapes checks that escaping is unambiguous, and that spans map back to where they were.
func TestNULEscapes(t *testing.T) {
	property.Check(t, func(r *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{"\x00", "\x01", "\x02", "\x03", "a", "é", "\x00\x01"})).
			Draw(r, "parts")
		text := strings.Join(parts, "")
		escaped, offsets := escapeNUL(text)
		if strings.Contains(escaped, "\x00") || unescapeNUL(escaped) != text {
			r.Fatalf("%q became %q became %q", text, escaped, unescapeNUL(escaped))
		}
		at := 0
		for i := range len(text) { // each byte's escape maps back onto it
			n := 1
			if text[i] <= 1 {
				n = 2
			}
			want := chat.Span{Start: i, End: i + 1}
			if got := unmapSpan(chat.Span{Start: at, End: at + n}, offsets); got != want {
				r.Fatalf("byte %d of %q is %v", i, text, got)
			}
			if got := unmapSpan(chat.Span{Start: at + n - 1, End: at + n}, offsets); got != want {
				r.Fatalf("the end of byte %d of %q is %v", i, text, got)
			}
			if got := unmapSpan(chat.Span{Start: at, End: at + 1}, offsets); got != want {
				r.Fatalf("the start of byte %d of %q is %v", i, text, got)
			}
			at += n
		}
	})
}

// TestFingerprint checks that layout, truncation and the decoder don't matter, while tokens do.
func TestFingerprint(t *testing.T) {
	of := func(parts map[string]any) string {
		s, err := readShape(synthetic(t, parts))
		if err != nil {
			t.Fatal(err)
		}
		return s.fingerprint()
	}
	plain := of(nil)
	if !strings.HasPrefix(plain, "sha256:") || len(plain) != 7+64 {
		t.Errorf("got %s", plain)
	}
	if plain != of(map[string]any{"decoder": nil, "truncation": map[string]any{"max_length": 5, "stride": 0}}) {
		t.Error("what changes no id changes the fingerprint")
	}
	for _, part := range []string{"added_tokens", "pre_tokenizer"} {
		if plain == of(map[string]any{part: nil}) {
			t.Errorf("%s is not in the fingerprint", part)
		}
	}
}

// TestAddedIDs checks that ids are assigned as in the library, regardless of the file. A token in the vocabulary keeps
// its id, and others get the next free ones.
func TestAddedIDs(t *testing.T) {
	s, err := readShape(synthetic(t, map[string]any{
		"model": map[string]any{"type": "WordLevel", "unk_token": "a", "vocab": map[string]int{"a": 0, "b": 70}},
		"added_tokens": []map[string]any{
			token("x", nil), token("b", nil), token("", nil), token("y", nil), token("x", nil),
			token("x", map[string]any{"lstrip": true}),
		},
	}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range s.added {
		got = append(got, a.Content+strings.Repeat("'", int(a.ID)%10))
	}
	if strings.Join(got, " ") != "x'' b y''' x''" || s.maxID() != 70 || s.size != 4 {
		t.Errorf("got %v, largest %d, size %d", s.added, s.maxID(), s.size)
	}
}

// TestVariantsAreJSON checks that the files written for the library are JSON, even if a part is missing.
func TestVariantsAreJSON(t *testing.T) {
	s, err := readShape([]byte(`{"a \"": {}, "truncation": null, "model": {"type": "BPE", "dropout": 0.1,
		"vocab": {"\u00e9": 7, "b": 0, "b": 3}}}`))
	if err != nil || len(s.vocab) != 2 || s.vocab["é"] != 7 || s.vocab["b"] != 3 {
		t.Fatal(s, err)
	}
	for _, v := range []variant{{}, {batching: true}, {nul: true, continued: true}} {
		var parts map[string]any
		if data := s.write(v); json.Unmarshal(data, &parts) != nil || parts["a \""] == nil {
			t.Errorf("%+v: %s", v, data)
		}
	}
}

// TestKeysDistinguishCase checks that keys are case-sensitive, as in the library.
func TestKeysDistinguishCase(t *testing.T) {
	data := bytes.ReplaceAll(synthetic(t, nil), []byte(`"special":true`), []byte(`"special":true,"Special":false`))
	data = bytes.Replace(data, []byte(`"normalizer":`), []byte(`"normalizer":{"type":"NFD","Type":"NFC"},"x":`), 1)
	s, err := readShape(data)
	if err != nil {
		t.Fatal(err)
	}
	if !s.added[0].Special || independent(s) {
		t.Errorf("got %+v, independent %v", s.added[0], independent(s))
	}
	c, err := ReadConfig(folder(t, map[string]string{
		"tokenizer_config.json": `{"added_tokens_decoder": {"1": {"content": "a", "Content": "b", "special": true, "Special": false}}}`,
	}))
	if err != nil || len(c.added) != 1 || !c.added[0].Special || c.added[0].Content != "a" {
		t.Errorf("got %+v, %v", c, err)
	}
}

// TestAddedTokensAreAList checks that a folder's tokens don't replace added_tokens of another kind.
func TestAddedTokensAreAList(t *testing.T) {
	if _, err := readShape(synthetic(t, map[string]any{"added_tokens": map[string]any{}})); err == nil {
		t.Error("an object was accepted")
	}
}
