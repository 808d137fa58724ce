package tokenizer

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc/chat"
)

// MaxTextBytes is the maximum length in bytes of text for Encode and EncodeRow.
const MaxTextBytes = 64 << 20

// Encoding holds the tokens of text. Offsets[i] is the part of the text that token i covers, in bytes of UTF-8;
// tokens added by a post-processor or by padding have {0, 0}. For a character split over several byte-level tokens,
// each of them reports the whole character, as Hugging Face does.
type Encoding struct {
	IDs     []int32     // [n]
	Offsets []chat.Span // [n]
}

// Reset empties e but keeps its allocated memory.
func (e *Encoding) Reset() { e.IDs, e.Offsets = e.IDs[:0], e.Offsets[:0] }

// append appends the tokens of x, with base added to their offsets.
func (e *Encoding) append(x Encoding, base int) {
	e.IDs = append(e.IDs, x.IDs...)
	e.Offsets = slices.Grow(e.Offsets, len(x.Offsets))
	for _, s := range x.Offsets {
		e.Offsets = append(e.Offsets, chat.Span{Start: base + s.Start, End: base + s.End})
	}
}

// Options determine how Encode treats special tokens.
type Options struct {
	// AddSpecial adds the tokens of the file's post-processor ([CLS], a BOS).
	AddSpecial bool
	// ParseSpecial turns look-alikes in the text into special tokens, as Hugging Face does by default. If it is off,
	// they are encoded as plain text (encode_special_tokens in the library).
	ParseSpecial bool
}

// Special is a special token of the tokenizer.
type Special struct {
	ID             int32
	Text           string
	LStrip, RStrip bool // the token absorbs the white space before or after it
}

// Tokenizer is a loaded tokenizer. It is safe for concurrent use.
type Tokenizer struct {
	// Config is the configuration found next to tokenizer.json; empty if only that file was loaded.
	Config *Config

	shape       *shape
	specials    *specials
	fingerprint string
	maxID       int32
	continues   bool // a segment's tokens depend on whether it starts the row
	cache       *cache
	pieces      *pieces           // nil if segments can't be encoded in pieces
	texts       func() *byteTexts // returns nil unless ids are decoded byte by byte

	mu      sync.Mutex
	engines map[variant]func() (engine, error) // each builds its instance only once, because it takes up to a second
}

// engine is one instance of the library. Its methods are safe for concurrent use.
type engine interface {
	encode(text string, addSpecial bool) (Encoding, bool)
	decode(ids []int32, skipSpecial bool) (string, bool)
	close()
}

// Load reads a Hugging Face folder or a single tokenizer.json. Without the library (build tag "tokenizers") it returns
// ErrUnavailable.
func Load(path string) (*Tokenizer, error) {
	file, dir, err := locate(path)
	if err != nil {
		return nil, err
	}
	if !available {
		return nil, ErrUnavailable
	}
	config := &Config{}
	if dir != "" {
		if config, err = ReadConfig(dir); err != nil {
			return nil, err
		}
	}
	data, err := readLimited(file, MaxTokenizerBytes)
	if err != nil {
		return nil, err
	}
	t, err := newTokenizer(data, config)
	if e, ok := err.(*Error); ok {
		e.Message = file + ": " + e.Message
	}
	return t, err
}

// New makes a tokenizer from the content of a tokenizer.json.
func New(data []byte) (*Tokenizer, error) {
	if !available {
		return nil, ErrUnavailable
	}
	return newTokenizer(bytes.Clone(data), &Config{})
}

func newTokenizer(data []byte, config *Config) (*Tokenizer, error) {
	s, err := readShape(data)
	if err == nil {
		err = s.add(config)
	}
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{
		Config:      config,
		shape:       s,
		specials:    newSpecials(s),
		fingerprint: s.fingerprint(),
		maxID:       s.maxID(),
		continues:   len(s.continued()) > 0,
		engines:     map[variant]func() (engine, error){},
	}
	t.SetCacheBytes(DefaultCacheBytes)
	t.texts = sync.OnceValue(func() *byteTexts { return newByteTexts(s) })
	// Check now, rather than with the first text, whether the library accepts the file.
	if _, err := t.engine(variant{specialsAsText: true}); err != nil {
		return nil, err
	}
	return t, nil
}

// Close frees the library's memory. No other call may be in progress or follow.
func (t *Tokenizer) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, built := range t.engines {
		if e, err := built(); err == nil {
			e.close()
		}
	}
	t.engines = nil
}

// Fingerprint identifies everything in the file that determines ids and offsets: "sha256:" and 64 hex digits.
func (t *Tokenizer) Fingerprint() string { return t.fingerprint }

// VocabSize returns the number of distinct tokens, including added ones: Hugging Face's len(tokenizer). Ids may be
// equal to it or larger; see MaxID.
func (t *Tokenizer) VocabSize() int { return t.shape.size }

// MaxID returns the largest id of any token; a model's embedding has at least MaxID+1 rows.
func (t *Tokenizer) MaxID() int32 { return t.maxID }

// ID returns the id of a token in the vocabulary's spelling ("<|im_end|>"; in byte-level vocabularies "Ġthe"
// for " the").
func (t *Tokenizer) ID(token string) (int32, bool) {
	for _, added := range t.shape.added {
		if added.Content == token {
			return added.ID, true
		}
	}
	id, ok := t.shape.vocab[token]
	return id, ok
}

// IsSpecial reports whether id is a special token.
func (t *Tokenizer) IsSpecial(id int32) bool {
	_, ok := t.specials.byID[id]
	return ok
}

// IsAdded reports whether id is an added token, special or not: no merge crosses its edges.
func (t *Tokenizer) IsAdded(id int32) bool {
	return slices.ContainsFunc(t.shape.added, func(a addedToken) bool { return a.ID == id })
}

// Specials lists the special tokens in file order.
func (t *Tokenizer) Specials() []Special {
	return lists.Map(t.specials.list, func(a addedToken) Special {
		return Special{a.ID, a.Content, a.LStrip, a.RStrip}
	})
}

// Encode encodes text as Hugging Face's tokenizers does with this file, including truncation and padding. Like
// Python, it returns an error for text that isn't UTF-8, and for lone surrogates.
func (t *Tokenizer) Encode(text string, opts Options) (Encoding, error) {
	return t.encode(text, opts.AddSpecial, variant{specialsAsText: !opts.ParseSpecial, batching: true})
}

func (t *Tokenizer) encode(text string, addSpecial bool, v variant) (Encoding, error) {
	if err := checkText(text); err != nil {
		return Encoding{}, err
	}
	given := text
	var offsets []int
	if i := strings.IndexByte(text, 0); i >= 0 {
		v.nul = true
		if token, bad := lists.Find(t.shape.added, hasControl); bad {
			return Encoding{}, refuseAt(i, CodeEncodeFailed, "the text contains a NUL and this tokenizer's added "+
				"token %q contains control characters; the two can't be told apart", token.Content)
		}
		text, offsets = escapeNUL(text)
	}
	e, err := t.engine(v)
	if err != nil {
		return Encoding{}, err
	}
	enc, ok := e.encode(text, addSpecial)
	if !ok {
		return Encoding{}, refuse(CodeEncodeFailed, "cannot encode text of %d bytes; the vocabulary may lack a token for unknown words", len(given))
	}
	if v.nul {
		for i, s := range enc.Offsets {
			enc.Offsets[i] = unmapSpan(s, offsets)
		}
	}
	return enc, nil
}

// hasControl reports whether a token contains a character used by the NUL escapes.
func hasControl(t addedToken) bool { return strings.ContainsAny(t.Content, "\x01\x02\x03") }

// Decode returns the text of ids. As in Hugging Face, unknown ids are skipped, and bytes that don't form UTF-8 become
// U+FFFD.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) (string, error) {
	if len(ids) == 0 {
		return "", nil
	}
	if texts := t.texts(); texts != nil && !skipSpecial {
		if text, ok := texts.decode(ids); ok {
			return text, nil
		}
	}
	if t.shape.backtracks {
		return "", refuse(CodeDecodeFailed, "the decoder has a regular expression that may backtrack; "+
			"if that takes too long, the library ends the process")
	}
	// If the first instance fails, most likely the text contains a NUL, which a C string can't hold.
	for _, nul := range []bool{false, true} {
		e, err := t.engine(variant{specialsAsText: true, nul: nul})
		if err != nil {
			return "", err
		}
		text, ok := e.decode(ids, skipSpecial)
		switch {
		case ok && nul:
			return unescapeNUL(text), nil
		case ok:
			return text, nil
		}
	}
	return "", refuse(CodeDecodeFailed, "cannot decode these %d ids", len(ids))
}

// DecodesTo reports whether Decode returns text for ids, special tokens included.
func (t *Tokenizer) DecodesTo(ids []int32, text string) bool {
	if texts := t.texts(); texts != nil && texts.are(ids, text) {
		return true
	}
	got, err := t.Decode(ids, false)
	return err == nil && got == text
}

// engine returns the instance for a variant, building it on the first call.
func (t *Tokenizer) engine(v variant) (engine, error) {
	// Variants that are equivalent for this file share one instance.
	if !present(t.shape.parts["truncation"]) && !present(t.shape.parts["padding"]) {
		v.batching = false
	}
	if len(t.specials.byID) == 0 {
		v.specialsAsText = false
	}
	t.mu.Lock()
	built := t.engines[v]
	if built == nil {
		built = sync.OnceValues(func() (engine, error) { return t.build(v) })
		t.engines[v] = built
	}
	t.mu.Unlock()
	return built()
}

func (t *Tokenizer) build(v variant) (e engine, err error) {
	e, err = newEngine(t.shape.write(v), v.specialsAsText)
	if err != nil {
		return nil, refuse(CodeBadTokenizer, "the tokenizer library refuses the file: %v", err)
	}
	return e, nil
}

// checkText returns an error for text that no tokenizer accepts.
func checkText(text string) error {
	if len(text) > MaxTextBytes {
		return refuse(CodeTextTooLong, "the text has %d bytes; the limit is %d", len(text), MaxTextBytes)
	}
	if utf8.ValidString(text) {
		return nil
	}
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 {
			if i+2 < len(text) && text[i] == 0xED && text[i+1] >= 0xA0 && text[i+1] <= 0xBF && text[i+2]&0xC0 == 0x80 {
				unit := 0xD000 | rune(text[i+1]&0x3F)<<6 | rune(text[i+2]&0x3F)
				return refuseAt(i, CodeLoneSurrogate, "lone surrogate U+%04X at byte %d: it has no UTF-8 form, so no tokenizer encodes it", unit, i)
			}
			return refuseAt(i, CodeInvalidUTF8, "the text is not UTF-8 at byte %d", i)
		}
		i += n
	}
	return nil
}
