package sdpo

import (
	"strings"
	"unicode"

	"github.com/zeebo/xxh3"
)

// leaks reports whether a hint repeats at least run consecutive words of the target, or a shorter target as a whole.
// A teacher that sees such a hint would copy it instead of judging. Words are letters, digits and underscores;
// punctuation between them is ignored, so quoted or re-indented copies are found too. The collator compares exact
// tokens as well.
func leaks(hint, target string, run int) bool {
	in, of := words(hint), words(target)
	run = min(run, len(of))
	if run < 2 || len(in) < run {
		return false
	}
	seen := map[uint64]bool{}
	for i := 0; i+run <= len(in); i++ {
		seen[hashWords(in[i:i+run])] = true
	}
	for i := 0; i+run <= len(of); i++ {
		if seen[hashWords(of[i:i+run])] {
			return true
		}
	}
	return false
}

func words(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' })
}

func hashWords(ws []string) uint64 {
	h := uint64(0)
	for _, w := range ws {
		h = (h ^ xxh3.HashString(w)) * 0x9E3779B97F4A7C15
	}
	return h
}
