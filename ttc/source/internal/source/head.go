package source

import (
	"github.com/nat-go/nat-go/ttc/json"
)

// Head is the beginning of an input. A source examines it to decide whether it can read the input.
type Head struct {
	Path    string     // as named by the user
	Bytes   []byte     // the first bytes, uncompressed, at most HeadBytes
	Entries []json.Raw // first entries: JSON lines, array elements or table rows; none if the input isn't JSON
	Whole   bool       // Entries holds all entries of the input

	Given map[string]string // settings given by the user: {"output_key": "response"}; Find honours them

	columns []*Column // columns of Entries; nil if not computed yet
}

// The size of a head.
const (
	HeadBytes   = 64 << 10
	HeadEntries = 200
)

// Fit grades how well an input's beginning matches a source's inputs.
type Fit uint8

// The fits. Certain takes precedence over Fits; if two sources have the same fit, the user has to choose one.
const (
	NoFit   Fit = iota
	Fits        // the input's keys match a common shape
	Certain     // the input has a mark of a single format: a version, a type, unique keys
)

// Reading describes how a source would read an input.
type Reading struct {
	Fit      Fit
	Settings map[string]string // non-default settings for the source's config: {"output_key": "response"}
	Guessed  []string          // descriptions of guesses, for users: `the answer is read from "response"`
	Lower    bool              // a lower score is better
	Problem  string            // why an input of this shape can't be read directly, with the remedy; empty if it can
}
