package source

import (
	"github.com/nat-go/nat-go/ttc/json"
)

// Head is the beginning of an input, by which a source tells whether it can read it.
type Head struct {
	Path    string     // as the user named it
	Bytes   []byte     // the first bytes, uncompressed, at most HeadBytes
	Entries []json.Raw // the first: JSON lines, elements of one array, rows of a table; none where it isn't JSON
	Whole   bool       // there are no other entries

	Given map[string]string // settings that a person named: {"output_key": "response"}; Find keeps to them

	columns []*Column // of Entries; nil: not looked at yet
}

// The size of a head.
const (
	HeadBytes   = 64 << 10
	HeadEntries = 200
)

// Fit says how well an input's beginning is what a source reads.
type Fit uint8

// The fits. What is Certain wins over what Fits; two of the same rank are an ambiguity, which a person has to resolve.
const (
	NoFit   Fit = iota
	Fits        // its keys are those of a common shape
	Certain     // it carries the mark of one format: a version, a type, keys that no other has
)

// Reading is how a source would read an input.
type Reading struct {
	Fit      Fit
	Settings map[string]string // of the source's config, where they are not the defaults: {"output_key": "response"}
	Guessed  []string          // what of this is a guess, for a person: `the answer is read from "response"`
	Lower    bool              // a lower score is the better one
	Problem  string            // why an input of this shape can't be read as it is, and what to do; empty: it can
}

// ByEntry makes a recogniser of what one entry has: the first decides.
func ByEntry(fit Fit, is func(entry json.Raw) bool) func(*Head) Reading {
	return func(h *Head) Reading {
		if len(h.Entries) > 0 && is(h.Entries[0]) {
			return Reading{Fit: fit}
		}
		return Reading{}
	}
}
