package tokenizer

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/nat-go/nat-go/ttc/chat"
	wire "github.com/nat-go/nat-go/ttc/json"
)

// pieces encodes segments piece by piece and caches the pieces, so only new words reach the library. A byte-level BPE
// encodes each word independently, and a regular expression defines a word. A piece is one or more whole words: it ends
// between two characters that are never in the same word under any known expression.
type pieces struct {
	digits int     // maximum digits in a word; 0 for GPT-2's words, which may have any number and may follow a space
	added  *finder // finds the added tokens that are not special; nil if all are special
	cache  *pieceCache
	lists  sync.Pool // of *pieceList
}

// wordPatterns are the expressions whose words are known to end where pieces do, with the maximum number of digits in a
// word. Add another one here once TestPieces passes with it.
var wordPatterns = map[string]int{
	// Llama 3 and cl100k
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|` +
		` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: 3,
	// Qwen 2 and later
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: 1,
	// o200k
	`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`: 3,
}

const (
	maxPieceBytes  = 128       // longer pieces are not cached
	maxPiecesBytes = 256 << 10 // longer segments are encoded whole, because a list of pieces takes too much memory
	maxPlainTokens = 256       // maximum number of added tokens that are not special
)

// newPieces returns nil for a tokenizer that can't, or is not known to, encode piece by piece.
func newPieces(s *shape, cache *pieceCache) *pieces {
	digits, known := wordsOf(s.parts["pre_tokenizer"])
	if !known || !independent(s) {
		return nil
	}
	p := &pieces{digits: digits, cache: cache}
	p.lists.New = func() any { return new(pieceList) }
	var plain []addedToken
	all, once := effective(s.added)
	for _, t := range all {
		if t.Special {
			continue
		}
		plain = append(plain, t)
		if !once || t.SingleWord || t.LStrip || t.RStrip || t.Normalized || len(plain) > maxPlainTokens {
			return nil
		}
		for i := range all {
			if other := all[i].Content; other != t.Content && (overlap(t.Content, other) || overlap(other, t.Content)) {
				return nil
			}
		}
	}
	if len(plain) > 0 {
		p.added = newFinder(plain)
	}
	return p
}

// wordsOf returns the maximum number of digits in a pre-tokenizer's words, if they are known.
func wordsOf(preTokenizer wire.Raw) (digits int, known bool) {
	bytesOnly := func(step wire.Raw, regex bool) bool {
		return text(step, "type") == "ByteLevel" && !flag(step, "add_prefix_space", true) &&
			flag(step, "use_regex", true) == regex
	}
	if bytesOnly(preTokenizer, true) { // GPT-2's expression
		return 0, true
	}
	list, _ := preTokenizer.Get("pretokenizers")
	steps := slices.Collect(list.Elements())
	if text(preTokenizer, "type") != "Sequence" || len(steps) != 2 || !bytesOnly(steps[1], false) {
		return 0, false
	}
	split := steps[0]
	if text(split, "type") != "Split" || text(split, "behavior") != "Isolated" || flag(split, "invert", false) {
		return 0, false
	}
	pattern, _ := split.Get("pattern")
	digits, known = wordPatterns[text(pattern, "Regex")]
	return digits, known
}

// independent reports whether a word's ids and offsets depend only on the word.
func independent(s *shape) bool {
	if raw := s.parts["normalizer"]; !identity(raw) && text(raw, "type") != "NFC" {
		return false
	}
	kind, _ := s.model["type"].Text() // missing from old files, but a BPE model has merges
	prefix, _ := s.model["continuing_subword_prefix"].Text()
	suffix, _ := s.model["end_of_word_suffix"].Text()
	return s.model["merges"] != nil && (kind == "" || kind == "BPE") && prefix == "" && suffix == "" &&
		!trims(s.parts["post_processor"])
}

// trims reports whether a post-processor may trim white space from offsets. Trimming can depend on a token's position.
func trims(step wire.Raw) bool {
	processors, _ := step.Get("processors")
	for inner := range processors.Elements() {
		if trims(inner) {
			return true
		}
	}
	switch text(step, "type") {
	case "Sequence", "TemplateProcessing":
		return false
	case "ByteLevel":
		return flag(step, "trim_offsets", true)
	}
	return present(step)
}

// overlap reports whether an occurrence of b can begin within an occurrence of a.
func overlap(a, b string) bool {
	for i := range len(a) {
		if rest := a[i:]; strings.HasPrefix(rest, b) || strings.HasPrefix(b, rest) {
			return true
		}
	}
	return false
}

// class is a byte's class in the known expressions.
type class uint8

const (
	// outside ASCII, a control character, or an apostrophe; next to one, a word is known to end only before a space or
	// tab
	other  class = iota
	letter       // ASCII, like all classes below
	digit        //
	mark         // punctuation or a symbol
	slash        // some expressions accept it after line breaks
	blank        // space or tab
	// carriage return or line feed; except in GPT-2's expression, a white-space word with a line break ends in one
	newline
	classes
)

var classOf = func() (of [256]class) {
	for c := byte('!'); c <= '~'; c++ {
		switch {
		case c >= '0' && c <= '9':
			of[c] = digit
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			of[c] = letter
		case c == '/':
			of[c] = slash
		case c != '\'':
			of[c] = mark
		}
	}
	of[' '], of['\t'], of['\n'], of['\r'] = blank, blank, newline, newline
	return of
}()

// ends[a][b] reports whether a word always ends between a byte of class a and one of class b.
var ends = [classes][classes]bool{
	letter:  {digit: true, mark: true, slash: true, blank: true, newline: true},
	digit:   {letter: true, mark: true, slash: true, blank: true, newline: true},
	mark:    {digit: true, blank: true},
	slash:   {digit: true, blank: true},
	newline: {letter: true, digit: true, mark: true},
}

// piece is a part of text and, if known, its encoding.
type piece struct {
	chat.Span
	token  *addedToken // the added token that makes up the whole piece, if any
	tokens []byte      // see pieceCache
	known  bool
}

type pieceList struct{ all []piece }

// cut appends the pieces of text[from:to], which the library splits into words separately from the text around it.
func (l *pieceList) cut(text string, from, to, digits int) {
	start := from
	run := 0 // number of digits before i in the current run of digits; -1 if that is unknown
	var a, b class
	for i := from; i < to; i++ {
		a, b = b, classOf[text[i]]
		if i == from {
			if b == digit {
				run = 1
			}
			continue
		}
		if a == letter && b == letter { // true of most bytes
			continue
		}
		end := ends[a][b]
		switch {
		case (a == blank || a == newline) && (b == blank || b == newline && digits == 0):
			// The last white space character belongs to the word after it, or is a word itself.
			end = i+1 < to && classOf[text[i+1]]-letter <= slash-letter
		case a == newline && digits == 0:
			end = end && start == i-1
		case a == blank && b == digit:
			end = digits > 0 && start == i-1
		case a == digit && b == digit:
			end = digits > 0 && run%digits == 0
		case b == blank && a == other:
			end = endsBeforeBlank(text[start:i])
		}
		if b == digit {
			switch {
			case a != digit && a != other:
				run = 1
			case a == digit && run > 0:
				run++
			default:
				run = -1
			}
		}
		if end {
			l.all = append(l.all, piece{Span: chat.Span{Start: start, End: i}})
			start = i
		}
	}
	if start < to {
		l.all = append(l.all, piece{Span: chat.Span{Start: start, End: to}})
	}
}

// endsBeforeBlank reports whether text ends in a non-ASCII character that can't be white space.
func endsBeforeBlank(text string) bool {
	r, _ := utf8.DecodeLastRuneInString(text)
	return r >= 0xC0 && r < 0x1000 || r >= 0x3041 && r < 0xD800 || r >= 0x1F000
}

// encode appends the tokens of a segment to dst, with base added to their offsets. library encodes a part of the
// segment; encode fails if library does.
func (p *pieces) encode(dst *Encoding, text string, base int, library func(string) (Encoding, error)) error {
	l := p.lists.Get().(*pieceList)
	defer func() {
		clear(l.all)
		l.all = l.all[:0]
		p.lists.Put(l)
	}()
	from := 0
	if p.added != nil {
		for _, f := range p.added.find(nil, text, 0, func(int, int, *addedToken) bool { return true }) {
			l.cut(text, from, f.Start, p.digits)
			l.all = append(l.all, piece{Span: f.Span, token: f.token, known: true})
			from = f.End
		}
	}
	l.cut(text, from, len(text), p.digits)
	p.recall(text, l.all)
	for i := 0; i < len(l.all); i++ {
		first := i
		// How white space is split into words depends on whether text follows it.
		for i < len(l.all) && (!l.all[i].known || first < i && endsBlank(text, &l.all[i-1])) {
			i++
		}
		if first < i {
			start, end := l.all[first].Start, l.all[i-1].End
			enc, err := library(text[start:end])
			if err != nil {
				return err
			}
			p.learn(text, l.all[first:i], enc)
			dst.append(enc, base+start)
		}
		if i < len(l.all) {
			l.all[i].appendTo(dst, base)
		}
	}
	return nil
}

// appendTo appends the tokens of a known piece of text that begins at base.
func (x *piece) appendTo(dst *Encoding, base int) {
	base += x.Start
	if x.token != nil {
		dst.IDs = append(dst.IDs, x.token.ID)
		dst.Offsets = append(dst.Offsets, chat.Span{Start: base, End: base + x.End - x.Start})
	}
	for t := x.tokens; len(t) > 0; t = t[tokenWidth:] {
		dst.IDs = append(dst.IDs, int32(binary.LittleEndian.Uint32(t)))
		dst.Offsets = append(dst.Offsets, chat.Span{Start: base + int(t[4]), End: base + int(t[5])})
	}
}

func endsBlank(text string, x *piece) bool { return classOf[text[x.End-1]] >= blank }

// recall fills in the encodings of pieces that are remembered.
func (p *pieces) recall(text string, all []piece) {
	p.cache.mu.Lock()
	defer p.cache.mu.Unlock()
	for i := range all {
		if x := &all[i]; !x.known && x.End-x.Start <= maxPieceBytes {
			x.tokens, x.known = p.cache.find(text[x.Start:x.End])
		}
	}
}

// learn remembers the encodings of adjacent pieces, given the encoding of their joint text.
func (p *pieces) learn(text string, run []piece, enc Encoding) {
	base := run[0].Start
	endOf := func(x *piece, at int) int { // returns the end of x's tokens, which begin at index at
		for at < len(enc.IDs) && base+enc.Offsets[at].End <= x.End && base+enc.Offsets[at].Start >= x.Start {
			at++
		}
		return at
	}
	at := 0
	for i := range run {
		at = endOf(&run[i], at)
	}
	if at < len(enc.IDs) {
		return // a token without characters, or with characters in two pieces
	}
	at = 0
	for i := range run {
		x := &run[i]
		end := endOf(x, at)
		if x.End-x.Start <= maxPieceBytes {
			p.cache.put(text[x.Start:x.End], enc.IDs[at:end], enc.Offsets[at:end], x.Start-base)
		}
		at = end
	}
}
