package overlap

import (
	"math/bits"
	"unicode"
	"unicode/utf8"
)

const (
	// runLength is the number of words in a run, which is also called a gram.
	runLength = 13
	// minLetters is the minimum number of letters and digits in a text that is shorter than a run and compared as a
	// whole. Very short texts such as "42" and "thanks" may occur anywhere, so they aren't compared.
	minLetters = 10
)

// kinds maps an ASCII letter to its lower-case form, a digit to itself, and any other byte to one of the kinds below.
var kinds = func() (k [256]byte) {
	for c := range k {
		switch {
		case c >= utf8.RuneSelf:
			k[c] = beyondASCII
		case c >= 'A' && c <= 'Z':
			k[c] = byte(c) + 'a' - 'A'
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			k[c] = byte(c)
		case c == ' ' || c >= '\t' && c <= '\r':
			k[c] = space
		}
	}
	return k
}()

const (
	punctuation = iota // removed from words
	space
	beyondASCII
)

// unspaced lists the scripts whose words are not separated by spaces.
var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
}

const (
	seed  = 0xCBF29CE484222325
	prime = 0x100000001B3
)

// mix spreads a hash over all 64 bits. It is never 0.
func mix(h uint64) uint64 {
	h = (h ^ h>>32) * 0x9E3779B97F4A7C15
	h = (h ^ h>>29) * 0xBF58476D1CE4E5B9
	return h ^ h>>32 | 1
}

// gram is the hash of a run of words, or of a whole text that is shorter than a run, with its position in the text.
type gram struct {
	hash     uint64
	from, to int
}

// scanner finds the runs in a text. It returns them in batches, so that the cache misses of a batch's lookups
// overlap.
type scanner struct {
	text    string
	at      int
	words   int // number of words that have ended
	letters int

	from    int // position at which the current word begins; -1 between words
	hash    uint64
	rolling uint64 // hash of the words in the current run
	hashes  [16]uint64
	starts  [16]int
	batch   [128]gram
}

// next returns the next batch of runs, which is empty at the end of the text.
func (s *scanner) next() []gram {
	found := s.batch[:0]
	for s.at < len(s.text) && len(found) < len(s.batch)-2 {
		kind := s.ascii()
		switch end := s.at; kind {
		case space:
			s.at++
			found = s.endWord(found, end)
		case beyondASCII:
			found = s.nonASCII(found)
		case punctuation:
			s.at++
		}
	}
	if s.at == len(s.text) {
		found = s.endWord(found, s.at)
		if s.words > 0 && s.words < runLength && s.letters >= minLetters {
			found = append(found, gram{mix(s.rolling + uint64(s.words)), 0, len(s.text)})
		}
		s.words = runLength // prevents the next call from returning the whole text again
	}
	return found
}

// ascii reads ASCII letters and digits, and returns the kind of the character after them.
func (s *scanner) ascii() byte {
	text, hash := s.text[s.at:], s.hash
	n, kind := 0, byte(0)
	for ; n < len(text); n++ {
		if kind = kinds[text[n]]; kind <= beyondASCII {
			break
		}
		hash = (hash ^ uint64(kind)) * prime
	}
	if n > 0 {
		if s.from < 0 {
			s.from = s.at
		}
		s.at, s.letters, s.hash = s.at+n, s.letters+n, hash
	}
	return kind
}

// nonASCII processes a non-ASCII character.
func (s *scanner) nonASCII(found []gram) []gram {
	r, size := utf8.DecodeRuneInString(s.text[s.at:])
	at := s.at
	s.at += size
	if unicode.IsSpace(r) {
		return s.endWord(found, at)
	}
	if !unicode.In(r, unicode.L, unicode.N, unicode.M) {
		return found
	}
	alone := unicode.In(r, unspaced...)
	if alone {
		found = s.endWord(found, at)
	}
	if s.from < 0 {
		s.from = at
	}
	s.hash, s.letters = (s.hash^uint64(unicode.ToLower(r)))*prime, s.letters+1
	if alone {
		found = s.endWord(found, s.at)
	}
	return found
}

// endWord ends the current word, if there is one, and appends the run that ends with it.
func (s *scanner) endWord(found []gram, to int) []gram {
	if s.from < 0 {
		return found
	}
	const ring = len(s.hashes)
	hash, n := mix(s.hash), s.words
	s.rolling = bits.RotateLeft64(s.rolling, 1) ^ hash
	if n >= runLength {
		s.rolling ^= bits.RotateLeft64(s.hashes[(n-runLength)%ring], runLength)
	}
	s.hashes[n%ring], s.starts[n%ring] = hash, s.from
	s.words, s.hash, s.from = n+1, seed, -1
	if s.words < runLength {
		return found
	}
	return append(found, gram{mix(s.rolling), s.starts[(s.words-runLength)%ring], to})
}

// scan returns a scanner for a text.
func scan(text string) scanner { return scanner{text: text, from: -1, hash: seed} }
