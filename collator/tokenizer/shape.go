package tokenizer

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	wire "github.com/nat-go/nat-go/ttc/json"
)

// Limits on the demands that a tokenizer.json may make on the library.
const (
	maxVocab          = 8 << 20  // entries in the model's vocabulary
	maxAddedTokens    = 1 << 20  // entries of added_tokens
	maxTokenBytes     = 16 << 10 // limit for a single added token
	maxTemplateTokens = 1 << 10  // special tokens that a template adds to a text
	maxPipelineBytes  = 16 << 20 // limit for each of normalizer, pre_tokenizer, post_processor, decoder
	maxPipelineDepth  = 24
	maxPadTokens      = 1 << 20
	maxGrowth         = 4096 // factor by which replacement may lengthen a text
	maxPatternBytes   = 16 << 10
	maxPatternDepth   = 32
	maxPatternItems   = 20_000 // items of a pattern, with counted repeats written out
	maxPatternRepeats = 10_000
)

// shape is a checked tokenizer.json, parsed just far enough to know its tokens and to write variants of it.
type shape struct {
	parts map[string]json.RawMessage // top level of the file
	model map[string]json.RawMessage
	vocab map[string]int32 // the model's own
	added []addedToken     // in file order, with the ids that the library assigns
}

// addedToken is an entry of added_tokens. Its ID is the library's, which may differ from the file's: a token in the
// model's vocabulary keeps its id there, and others get ids counting up from the vocabulary's size.
type addedToken struct {
	ID         int32  `json:"-"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// pipeline names the parts of a file that are trees of typed steps.
var pipeline = []string{"normalizer", "pre_tokenizer", "post_processor", "decoder"}

// readShape checks a tokenizer.json. It refuses content that makes the library end the process (by a panic or a failed
// allocation while loading) or run without a useful bound, as observed or according to its source. The library checks
// the rest.
func readShape(data []byte) (*shape, error) {
	if len(data) > MaxTokenizerBytes {
		return nil, refuse(CodeBadTokenizer, "larger than %d bytes", MaxTokenizerBytes)
	}
	if !utf8.Valid(data) {
		return nil, refuse(CodeBadTokenizer, "not UTF-8 text")
	}
	// The library puts file content into error messages, and a NUL in one aborts the process.
	if at := bytes.Index(data, []byte(`\u0000`)); at >= 0 {
		return nil, refuseAt(at, CodeBadTokenizer,
			"a NUL character (\\u0000) at byte %d, which the library does not accept", at)
	}
	s := &shape{}
	if err := json.Unmarshal(data, &s.parts); err != nil {
		return nil, refuse(CodeBadTokenizer, "not a JSON object: %v", err)
	}
	if json.Unmarshal(s.parts["model"], &s.model) != nil || s.model == nil {
		return nil, refuse(CodeBadTokenizer, `no "model" object: this is not a Hugging Face tokenizer.json`)
	}
	if err := cmp.Or(s.readModel(), s.readAdded()); err != nil {
		return nil, err
	}
	growth := 1.0
	for _, part := range pipeline {
		if len(s.parts[part]) > maxPipelineBytes {
			return nil, refuse(CodeBadTokenizer, "%s has more than %d bytes", part, maxPipelineBytes)
		}
		if depthOf(s.parts[part]) > maxPipelineDepth {
			return nil, refuse(CodeBadTokenizer, "%s is nested more than %d deep", part, maxPipelineDepth)
		}
		var tree any
		if raw := s.parts[part]; raw != nil && json.Unmarshal(raw, &tree) != nil {
			return nil, refuse(CodeBadTokenizer, "%s is malformed", part)
		}
		if err := checkSteps(part, tree, &growth); err != nil {
			return nil, err
		}
	}
	return s, s.checkBatching()
}

func (s *shape) readModel() error {
	raw := bytes.TrimSpace(s.model["vocab"])
	var tokens []string
	var ids []int32
	switch {
	case bytes.HasPrefix(raw, []byte("{")):
		list, err := wire.Parse(raw, wire.Limits{}) // loading a tokenizer takes long enough without encoding/json
		if err != nil {
			return refuse(CodeBadTokenizer, "model.vocab: %v", err)
		}
		for key, value := range list.Members() {
			if len(tokens) == maxVocab {
				return refuse(CodeBadTokenizer, "model.vocab has more than %d entries", maxVocab)
			}
			token, _ := key.Text()
			id, ok := value.Int64()
			if !ok || id < 0 || id > math.MaxInt32 {
				return refuse(CodeBadTokenizer, "model.vocab: ids must be integers from 0 to %d: %q has %s",
					math.MaxInt32, token, value)
			}
			tokens, ids = append(tokens, token), append(ids, int32(id))
		}
	case bytes.HasPrefix(raw, []byte("[")): // Unigram: [[token, score], ...]
		var list [][]json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil || len(list) > maxVocab {
			return refuse(CodeBadTokenizer, "model.vocab is not a list of at most %d [token, score] pairs", maxVocab)
		}
		for i, pair := range list {
			var token string
			if len(pair) != 2 || json.Unmarshal(pair[0], &token) != nil {
				return refuse(CodeBadTokenizer, "model.vocab[%d] is not a [token, score] pair", i)
			}
			tokens, ids = append(tokens, token), append(ids, int32(i))
		}
	default:
		return refuse(CodeBadTokenizer, `model has no "vocab"`)
	}
	s.vocab = packVocabulary(tokens, ids)
	// BPE cuts this prefix off the right side of every merge without checking that it is there.
	var prefix string
	if json.Unmarshal(s.model["continuing_subword_prefix"], &prefix) == nil && prefix != "" &&
		s.model["merges"] != nil {
		return s.checkMerges(prefix)
	}
	return nil
}

// packVocabulary keeps a vocabulary's tokens in a single string. As separate strings they would account for most of the
// work in every garbage collection.
func packVocabulary(tokens []string, ids []int32) map[string]int32 {
	all := strings.Join(tokens, "")
	out := make(map[string]int32, len(tokens))
	for i, token := range tokens {
		out[all[:len(token)]] = ids[i]
		all = all[len(token):]
	}
	return out
}

func (s *shape) checkMerges(prefix string) error {
	var merges []json.RawMessage
	if err := json.Unmarshal(s.model["merges"], &merges); err != nil {
		return refuse(CodeBadTokenizer, "model.merges is not a list")
	}
	for i, raw := range merges {
		var right string
		var line string
		var pair []string
		if json.Unmarshal(raw, &line) == nil {
			if _, after, ok := bytes.Cut([]byte(line), []byte(" ")); ok {
				right = string(after)
			}
		} else if json.Unmarshal(raw, &pair) == nil && len(pair) == 2 {
			right = pair[1]
		}
		if len(right) < len(prefix) || !utf8.ValidString(right[len(prefix):]) {
			return refuse(CodeBadTokenizer, "model.merges[%d]: its right side does not start with continuing_subword_prefix %q", i, prefix)
		}
	}
	return nil
}

// add appends the tokens that a folder's configuration adds, as transformers does: first the entries of
// added_tokens_decoder, then named special tokens that were not listed. A token that is special only by name counts as
// special here too: if a user types it, it must stay text, like other special tokens.
func (s *shape) add(config *Config) error {
	var list []json.RawMessage
	if raw := s.parts["added_tokens"]; raw != nil {
		if err := json.Unmarshal(raw, &list); err != nil {
			return refuse(CodeBadTokenizer, "added_tokens is malformed: %v", err)
		}
	}
	before := len(list)
	more := slices.Clone(config.added)
	for _, text := range config.specialTexts() {
		if text == "" {
			continue
		}
		token := addedToken{Content: text}
		for _, known := range slices.Concat(s.added, more) {
			if known.Content == text {
				token = known
			}
		}
		token.ID, token.Special = 0, true
		more = append(more, token)
	}
	for _, token := range more {
		if !slices.ContainsFunc(s.added, func(t addedToken) bool { t.ID = 0; return t == token }) {
			raw, err := json.Marshal(struct {
				ID int `json:"id"`
				addedToken
			}{0, token})
			if err != nil {
				return err
			}
			list = append(list, raw)
		}
	}
	if len(list) == before {
		return nil
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if bytes.Contains(raw, []byte(`\u0000`)) {
		return refuse(CodeBadTokenizer,
			"tokenizer_config.json: an added token contains a NUL character, which the library does not accept")
	}
	s.parts["added_tokens"] = raw
	s.added = nil
	return s.readAdded()
}

// readAdded reads added_tokens and assigns ids as the library does (AddedVocabulary::add_tokens in tokenizers 0.22).
func (s *shape) readAdded() error {
	var list []addedToken
	if raw := s.parts["added_tokens"]; raw != nil {
		if err := json.Unmarshal(raw, &list); err != nil {
			return refuse(CodeBadTokenizer, "added_tokens is malformed: %v", err)
		}
	}
	if len(list) > maxAddedTokens {
		return refuse(CodeBadTokenizer, "more than %d added_tokens", maxAddedTokens)
	}
	next := int32(len(s.vocab))
	ids := map[string]int32{}
	seen := map[addedToken]bool{}
	for _, token := range list {
		if len(token.Content) > maxTokenBytes {
			return refuse(CodeBadTokenizer, "an added token has %d bytes; the limit is %d", len(token.Content),
				maxTokenBytes)
		}
		if token.Content == "" || seen[token] {
			continue
		}
		seen[token] = true
		id, known := ids[token.Content]
		if !known {
			id, known = s.vocab[token.Content]
		}
		if !known {
			id = next
			next++
		}
		ids[token.Content] = id
		token.ID = id
		s.added = append(s.added, token)
	}
	return nil
}

// checkBatching refuses padding and truncation that would allocate without bound or panic.
func (s *shape) checkBatching() error {
	var padding struct {
		Strategy json.RawMessage `json:"strategy"`
		Multiple *uint64         `json:"pad_to_multiple_of"`
	}
	if raw := s.parts["padding"]; raw != nil {
		if err := json.Unmarshal(raw, &padding); err != nil {
			return refuse(CodeBadTokenizer, "padding is malformed: %v", err)
		}
	}
	var strategy struct{ Fixed *uint64 }
	_ = json.Unmarshal(padding.Strategy, &strategy) // "BatchLongest" is a string: no fixed length
	for _, n := range []*uint64{strategy.Fixed, padding.Multiple} {
		if n != nil && *n > maxPadTokens {
			return refuse(CodeBadTokenizer, "invalid padding: %d tokens; the limit is %d", *n, maxPadTokens)
		}
	}
	var truncation struct {
		MaxLength uint64 `json:"max_length"`
		Stride    uint64 `json:"stride"`
	}
	if raw := s.parts["truncation"]; raw != nil {
		if err := json.Unmarshal(raw, &truncation); err != nil {
			return refuse(CodeBadTokenizer, "truncation is malformed: %v", err)
		}
		if truncation.Stride > 0 && truncation.Stride >= truncation.MaxLength {
			return refuse(CodeBadTokenizer, "invalid truncation: stride %d, max_length %d", truncation.Stride,
				truncation.MaxLength)
		}
	}
	return nil
}

// fingerprint returns the SHA-256 of the parts that determine ids and offsets; file layout, truncation, padding and the
// decoder don't count.
func (s *shape) fingerprint() string {
	h := sha256.New()
	for _, part := range []string{"added_tokens", "normalizer", "pre_tokenizer", "post_processor", "model"} {
		var compact bytes.Buffer
		raw := s.parts[part]
		if raw == nil {
			raw = json.RawMessage("null")
		}
		if json.Compact(&compact, raw) != nil {
			continue // impossible, because readShape has parsed the part
		}
		fmt.Fprintf(h, "%s %d\n", part, compact.Len())
		h.Write(compact.Bytes())
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// maxID returns the largest id of any token.
func (s *shape) maxID() int32 {
	var largest int32
	for _, id := range s.vocab {
		largest = max(largest, id)
	}
	for _, token := range s.added {
		largest = max(largest, token.ID)
	}
	return largest
}

// size returns Hugging Face's len(tokenizer), the number of distinct tokens, including added ones.
func (s *shape) size() int {
	n := len(s.vocab)
	seen := map[string]bool{}
	for _, token := range s.added {
		if _, known := s.vocab[token.Content]; !known && !seen[token.Content] {
			seen[token.Content] = true
			n++
		}
	}
	return n
}

// variant describes how an instance of the library differs from the file.
type variant struct {
	specialsAsText bool // special-token look-alikes stay text
	batching       bool // the file's truncation and padding apply
	continued      bool // for text that is not at the start of its row
	nul            bool // the escapes in nul.go encode NUL
}

// write serialises the file for a variant. Dropout is off in all variants, because ids must be deterministic.
func (s *shape) write(v variant) ([]byte, error) {
	parts := maps.Clone(s.parts)
	if !v.batching {
		delete(parts, "truncation")
		delete(parts, "padding")
	}
	if present(s.model["dropout"]) {
		model := maps.Clone(s.model)
		delete(model, "dropout")
		raw, err := json.Marshal(model)
		if err != nil {
			return nil, err
		}
		parts["model"] = raw
	}
	if v.continued {
		maps.Copy(parts, s.continued())
	}
	if v.nul {
		parts["normalizer"] = nulNormalizer(parts["normalizer"])
		parts["decoder"] = nulDecoder(parts["decoder"])
	}
	out := []byte("{") // by hand, because json.Marshal would parse the parts again
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		raw := parts[name]
		if raw == nil {
			raw = json.RawMessage("null")
		}
		out = append(append(wire.AppendString(out, name), ':'), raw...)
	}
	return append(out, '}'), nil
}

// continued returns the parts of the file that differ for text that is not at the start of its row.
func (s *shape) continued() map[string]json.RawMessage {
	parts := map[string]json.RawMessage{}
	for _, part := range []string{"pre_tokenizer", "post_processor"} {
		var tree any
		if raw := s.parts[part]; raw == nil || json.Unmarshal(raw, &tree) != nil || !continueSteps(part, tree) {
			continue
		}
		if raw, err := json.Marshal(tree); err == nil {
			parts[part] = raw
		}
	}
	return parts
}

// continueSteps rewrites the two settings in the library that depend on whether a piece is the first of its text:
// Metaspace with prepend_scheme "first" adds its prefix only there, and offset trimming with add_prefix_space keeps a
// leading space only there. For later pieces they become "never" and false. It reports whether there was one.
func continueSteps(part string, node any) (changed bool) {
	switch node := node.(type) {
	case []any:
		for _, item := range node {
			changed = continueSteps(part, item) || changed
		}
	case map[string]any:
		trims, given := node["trim_offsets"].(bool)
		trims = trims || !given
		kind := node["type"]
		switch {
		case part == "pre_tokenizer" && kind == "Metaspace" && node["prepend_scheme"] == "first":
			node["prepend_scheme"] = "never"
			delete(node, "add_prefix_space")
			changed = true
		case part == "post_processor" && (kind == "ByteLevel" || kind == "RobertaProcessing") && trims &&
			node["add_prefix_space"] != false:
			node["add_prefix_space"] = false
			changed = true
		}
		for _, item := range node {
			changed = continueSteps(part, item) || changed
		}
	}
	return changed
}
