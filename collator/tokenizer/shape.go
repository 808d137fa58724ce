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

// Limits on a tokenizer.json that bound the library's memory and time.
const (
	maxVocab          = 8 << 20  // entries in the model's vocabulary
	maxAddedTokens    = 1 << 20  // entries of added_tokens
	maxTokenBytes     = 16 << 10 // limit for a single added token
	maxAddedBytes     = 16 << 20 // limit for all added tokens together, because the library makes an automaton of them
	maxUnigramNodes   = 8 << 20  // distinct prefixes in a Unigram vocabulary, each of which takes the library 350 bytes
	maxTemplateTokens = 1 << 10  // special tokens that templates add to a text
	maxPipelineBytes  = 16 << 20 // limit for each of normalizer, pre_tokenizer, post_processor, decoder
	maxPipelineDepth  = 24
	maxPipelineSize   = 50_000 // lists and objects in all of them, two for each replacement
	maxPadTokens      = 1 << 20
	maxPadBytes       = 64 << 20 // bytes of padding
	maxOverlap        = 64       // windows of a text that may share a token, and tokens added per token of the text
	maxGrowth         = 4096     // factor by which replacement may lengthen a text
	maxPatternBytes   = 16 << 10
	maxPatternDepth   = 32
	maxPatternItems   = 20_000 // items of a pattern, with counted repeats written out
)

// shape is a checked tokenizer.json, parsed just far enough to know its tokens and to write variants of it.
type shape struct {
	parts map[string]wire.Raw // top level of the file
	model map[string]wire.Raw
	vocab map[string]int32 // the model's vocabulary, without added tokens
	added []addedToken     // added tokens in file order, with the ids that the library assigns
	size  int              // Hugging Face's len(tokenizer): the number of distinct tokens, including added ones

	backtracks bool // decoding may backtrack
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

// readShape checks a tokenizer.json, and keeps its data. It returns an error for content that makes the library end the
// process (by a failed allocation, or by a panic while loading or decoding; while encoding, the binding catches panics)
// or run without a useful bound, as observed or according to its source. The library checks the rest.
func readShape(data []byte) (*shape, error) {
	if len(data) > MaxTokenizerBytes {
		return nil, refuse(CodeBadTokenizer, "larger than %d bytes", MaxTokenizerBytes)
	}
	// The library puts file content into error messages, and a NUL in one aborts the process.
	if at := bytes.Index(data, []byte(`\u0000`)); at >= 0 {
		return nil, refuseAt(at, CodeBadTokenizer,
			"a NUL character (\\u0000) at byte %d, which the library does not accept", at)
	}
	top, err := wire.Parse(data, wire.Limits{})
	if err != nil {
		return nil, refuse(CodeBadTokenizer, "not JSON: %v", err)
	}
	s := &shape{parts: members(top)}
	if s.model = members(s.parts["model"]); s.model == nil {
		return nil, refuse(CodeBadTokenizer, `no "model" object: this is not a Hugging Face tokenizer.json`)
	}
	if err := cmp.Or(s.readModel(), s.readAdded()); err != nil {
		return nil, err
	}
	steps := stepCheck{growth: 1}
	for _, steps.part = range pipeline {
		raw := s.parts[steps.part]
		if len(raw) > maxPipelineBytes {
			return nil, refuse(CodeBadTokenizer, "%s has more than %d bytes", steps.part, maxPipelineBytes)
		}
		if problem := steps.problem("", raw, 0); problem != "" {
			return nil, refuse(CodeBadTokenizer, "%s%s", steps.part, problem)
		}
	}
	s.backtracks = steps.backtracks
	return s, s.checkBatching(steps.added)
}

// members returns an object's values by key, or nil for any other value. The last of repeated keys counts.
func members(object wire.Raw) map[string]wire.Raw {
	if object.Kind() != wire.Object {
		return nil
	}
	values := map[string]wire.Raw{}
	for key, value := range object.Members() {
		name, _ := key.Text()
		values[name] = value
	}
	return values
}

func (s *shape) readModel() error {
	vocab := s.model["vocab"]
	if kind := vocab.Kind(); kind != wire.Object && kind != wire.Array {
		return refuse(CodeBadTokenizer, `model has no "vocab"`)
	}
	var tokens []string
	var ids []int32
	for key, value := range vocab.Members() {
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
	size := 0
	for pair := range vocab.Elements() { // Unigram: [[token, score], ...]
		entry := slices.Collect(pair.Elements())
		if len(entry) != 2 || entry[0].Kind() != wire.String || len(tokens) == maxVocab {
			return refuse(CodeBadTokenizer, "model.vocab is not a list of at most %d [token, score] pairs", maxVocab)
		}
		token, _ := entry[0].Text()
		size += len(token)
		tokens, ids = append(tokens, token), append(ids, int32(len(ids)))
	}
	if size > maxUnigramNodes && prefixes(tokens) > maxUnigramNodes {
		return refuse(CodeBadTokenizer, "model.vocab: the tokens have more than %d prefixes", maxUnigramNodes)
	}
	s.vocab = packVocabulary(tokens, ids)
	return s.checkMerges()
}

// prefixes returns the number of distinct prefixes of texts, which is the number of nodes in a trie of them.
func prefixes(texts []string) (n int) {
	last := ""
	for _, text := range slices.Sorted(slices.Values(texts)) {
		common := 0
		for common < min(len(text), len(last)) && text[common] == last[common] {
			common++
		}
		n += len(text) - common
		last = text
	}
	return n
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

// checkMerges checks that the right side of each merge is valid UTF-8 after the prefix is cut off. BPE cuts off as many
// bytes as the prefix has, without checking that they are the prefix.
func (s *shape) checkMerges() error {
	prefix, _ := s.model["continuing_subword_prefix"].Text()
	if prefix == "" {
		return nil
	}
	i := 0
	for merge := range s.model["merges"].Elements() {
		var right string
		if line, ok := merge.Text(); ok { // "left right"
			_, right, _ = strings.Cut(line, " ")
		} else if pair := slices.Collect(merge.Elements()); len(pair) == 2 {
			right, _ = pair[1].Text()
		}
		if len(right) < len(prefix) || !utf8.ValidString(right[len(prefix):]) {
			return refuse(CodeBadTokenizer, "model.merges[%d]: its right side does not start with continuing_subword_prefix %q", i, prefix)
		}
		i++
	}
	return nil
}

// add appends the tokens that a folder's configuration adds, as transformers does: first the entries of
// added_tokens_decoder, then named special tokens that were not listed. A token that is special only by name counts as
// special here too: if a user types it, it must remain text, like other special tokens.
func (s *shape) add(config *Config) error {
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
	more = slices.DeleteFunc(more, func(token addedToken) bool {
		return slices.ContainsFunc(s.added, func(t addedToken) bool { t.ID = 0; return t == token })
	})
	if len(more) == 0 {
		return nil
	}
	var list []any
	for raw := range s.parts["added_tokens"].Elements() {
		list = append(list, json.RawMessage(raw))
	}
	for _, token := range more {
		list = append(list, struct {
			ID int `json:"id"`
			addedToken
		}{0, token})
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
	s.size = len(s.vocab)
	ids := map[string]int32{}
	seen := map[addedToken]bool{}
	n, size := 0, 0
	if list := s.parts["added_tokens"]; present(list) && list.Kind() != wire.Array {
		return refuse(CodeBadTokenizer, "added_tokens is not a list")
	}
	for raw := range s.parts["added_tokens"].Elements() {
		token, err := readToken(raw)
		if err != nil {
			return err
		}
		if n++; n > maxAddedTokens {
			return refuse(CodeBadTokenizer, "more than %d added_tokens", maxAddedTokens)
		}
		if len(token.Content) > maxTokenBytes {
			return refuse(CodeBadTokenizer, "an added token has %d bytes; the limit is %d", len(token.Content),
				maxTokenBytes)
		}
		if size += len(token.Content); size > maxAddedBytes {
			return refuse(CodeBadTokenizer, "added_tokens have more than %d bytes", maxAddedBytes)
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
			id = int32(s.size)
			s.size++
		}
		ids[token.Content] = id
		token.ID = id
		s.added = append(s.added, token)
	}
	return nil
}

// readToken reads an entry of added_tokens or added_tokens_decoder.
func readToken(raw wire.Raw) (t addedToken, err error) {
	flags := map[string]*bool{
		"single_word": &t.SingleWord, "lstrip": &t.LStrip, "rstrip": &t.RStrip, "normalized": &t.Normalized,
		"special": &t.Special,
	}
	ok := raw.Kind() == wire.Object
	for key, value := range raw.Members() {
		name, _ := key.Text()
		known := true
		if flag := flags[name]; flag != nil {
			*flag, known = value.Bool()
		} else if name == "content" {
			t.Content, known = value.Text()
		}
		ok = ok && known
	}
	if !ok {
		return t, refuse(CodeBadTokenizer, "invalid added token: %.200s", raw)
	}
	return t, nil
}

// checkBatching refuses padding and truncation that would allocate without bound or panic. added is the number of
// tokens that templates add.
func (s *shape) checkBatching(added int) error {
	padding, truncation := s.parts["padding"], s.parts["truncation"]
	for _, part := range []string{"padding", "truncation"} {
		if raw := s.parts[part]; present(raw) && raw.Kind() != wire.Object { // the library reads a list as well
			return refuse(CodeBadTokenizer, "%s is not an object", part)
		}
	}
	strategy, _ := padding.Get("strategy")
	fixed, _ := number(strategy, "Fixed")
	multiple, _ := number(padding, "pad_to_multiple_of")
	pad := max(fixed, multiple)
	if pad > maxPadTokens {
		return refuse(CodeBadTokenizer, "invalid padding: %.0f tokens; the limit is %d", pad, maxPadTokens)
	}
	if bytes := pad * float64(len(text(padding, "pad_token"))); bytes > maxPadBytes {
		return refuse(CodeBadTokenizer, "invalid padding: %.0f bytes; the limit is %d", bytes, maxPadBytes)
	}
	length, _ := number(truncation, "max_length")
	stride, _ := number(truncation, "stride")
	// The library makes all windows of a text, adds a template's tokens to each, and pads each.
	more := max(pad, float64(added))
	own := (length - stride - float64(added)) * maxOverlap
	if present(truncation) && (stride > 0 && own < length || more > maxOverlap && own < more) {
		return refuse(CodeBadTokenizer, "invalid truncation: stride %.0f, max_length %.0f, padded to %.0f",
			stride, length, pad)
	}
	return nil
}

// fingerprint returns the SHA-256 of the parts that determine ids and offsets; file layout, truncation, padding and the
// decoder don't count.
func (s *shape) fingerprint() string {
	h := sha256.New()
	for _, part := range []string{"added_tokens", "normalizer", "pre_tokenizer", "post_processor", "model"} {
		raw := wire.AppendCompact(nil, s.parts[part])
		if len(raw) == 0 {
			raw = []byte("null")
		}
		fmt.Fprintf(h, "%s %d\n", part, len(raw))
		h.Write(raw)
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

// variant describes how an instance of the library differs from the file.
type variant struct {
	specialsAsText bool // special-token look-alikes remain text
	batching       bool // the file's truncation and padding apply
	continued      bool // for text that is not at the start of its row
	nul            bool // the escapes in nul.go encode NUL
}

// write serialises the file for a variant. Dropout is off in all variants, because ids must be deterministic.
func (s *shape) write(v variant) []byte {
	parts := maps.Clone(s.parts)
	if !v.batching {
		delete(parts, "truncation")
		delete(parts, "padding")
	}
	if present(s.model["dropout"]) {
		model := maps.Clone(s.model)
		delete(model, "dropout")
		parts["model"] = object(model)
	}
	if v.continued {
		maps.Copy(parts, s.continued())
	}
	if v.nul {
		parts["normalizer"] = nulNormalizer(parts["normalizer"])
		parts["decoder"] = nulDecoder(parts["decoder"])
	}
	return object(parts)
}

// object is the inverse of members.
func object(values map[string]wire.Raw) wire.Raw {
	out := []byte("{")
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(wire.AppendString(out, name), ':'), values[name]...)
	}
	return append(out, '}')
}

// continued returns the parts of the file that differ for text that is not at the start of its row.
func (s *shape) continued() map[string]wire.Raw {
	parts := map[string]wire.Raw{}
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
// leading space only there. For later pieces, continueSteps sets them to "never" and false. It reports whether it
// changed a setting.
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
