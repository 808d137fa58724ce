package show

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Piece is a piece of one of two compared texts. Differs is set if the other text lacks the piece.
type Piece struct {
	Text    string `json:"text"`
	Differs bool   `json:"differs,omitempty"`
}

// maxEdits bounds the work of a comparison. If the comparison needs more edits, everything between the common prefix
// and suffix counts as different.
const maxEdits = 1000

// Limits for marking differences. If two long strings share less than littleShared of the longer string, nearly
// everything would be marked, so nothing is marked.
const (
	littleShared = 0.15
	longText     = 200 // size in bytes; two strings are long if the longer one exceeds it
)

// Compare splits two strings into shared and differing pieces. If the strings are long and have little in common,
// Compare returns each as a single unmarked piece, with alike set to false.
func Compare(a, b string) (left, right []Piece, alike bool) {
	x, y := words(a), words(b)
	inX, inY := make([]bool, len(x)), make([]bool, len(y)) // whether each word differs
	Diff(x, y, inX, inY)
	shared := 0
	for i, s := range x {
		if !inX[i] && strings.TrimSpace(s) != "" {
			shared += len(s)
		}
	}
	if longer := max(len(a), len(b)); longer > longText && float64(shared) < littleShared*float64(longer) {
		return []Piece{{a, false}}, []Piece{{b, false}}, false
	}
	return join(x, inX), join(y, inY), true
}

// words splits a string into runs of letters and digits, runs of spaces, and other single characters.
func words(s string) []string {
	var out []string
	start, last := 0, 0
	for i, r := range s {
		class := 0
		switch {
		case r == '\n':
		case unicode.IsSpace(r):
			class = 1
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || unicode.IsMark(r):
			class = 2
			if unicode.Is(unicode.Han, r) || unicode.Is(unicode.Hiragana, r) || unicode.Is(unicode.Katakana, r) {
				class = 0 // in scripts without spaces, each character counts as a word
			}
		}
		if i > start && (class == 0 || class != last) {
			out = append(out, s[start:i])
			start = i
		}
		last = class
	}
	if start < len(s) {
		out = append(out, s[start:])
	}
	return out
}

// Diff sets inX[i] if x[i], and inY[i] if y[i], is not part of a longest common subsequence of x and y. If more than
// maxEdits edits are needed, it sets the entries of all items between the common prefix and suffix.
func Diff[T comparable](x, y []T, inX, inY []bool) {
	lo := 0
	for lo < len(x) && lo < len(y) && x[lo] == y[lo] {
		lo++
	}
	hx, hy := len(x), len(y)
	for hx > lo && hy > lo && x[hx-1] == y[hy-1] {
		hx, hy = hx-1, hy-1
	}
	x, y, inX, inY = x[lo:hx], y[lo:hy], inX[lo:hx], inY[lo:hy]
	trace, found := edits(x, y)
	if !found {
		for _, in := range [][]bool{inX, inY} {
			for i := range in {
				in[i] = true
			}
		}
		return
	}
	i, j := len(x), len(y)
	for d := len(trace) - 1; d > 0; d-- {
		pi, down := step(trace[d-1], i-j, d)
		i, j = pi, pi-(i-j)
		if down {
			j--
			inY[j] = true
		} else {
			i--
			inX[i] = true
		}
	}
}

// step returns the position in x at which edit d moves to diagonal k, and whether that edit adds an item of y. v[k+d]
// is the position in x that diagonal k reaches after d-1 edits.
func step(v []int, k, d int) (i int, down bool) {
	if k == -d || k != d && v[k-1+d] < v[k+1+d] {
		return v[k+1+d], true
	}
	return v[k-1+d] + 1, false
}

// edits is the forward pass of Myers' algorithm. trace[d] contains, for each diagonal k, the position in x that d
// edits reach. The index is k+d+1, so that the outermost diagonals also have two neighbours.
func edits[T comparable](x, y []T) (trace [][]int, found bool) {
	prev := []int{0, 0, 0}
	for d := 0; d <= min(len(x)+len(y), maxEdits); d++ {
		v := make([]int, 2*d+3)
		for k := -d; k <= d; k += 2 {
			i, _ := step(prev, k, d)
			for i < len(x) && i-k < len(y) && i-k >= 0 && x[i] == y[i-k] {
				i++
			}
			v[k+d+1] = i
			if i >= len(x) && i-k >= len(y) {
				return append(trace, v), true
			}
		}
		trace = append(trace, v)
		prev = v
	}
	return nil, false
}

// join joins words into pieces. A space between two differing words is marked with them.
func join(w []string, differs []bool) []Piece {
	var out []Piece
	for i, s := range w {
		d := differs[i]
		if r, _ := utf8.DecodeRuneInString(s); !d && r != '\n' && unicode.IsSpace(r) && i > 0 && i+1 < len(w) &&
			differs[i-1] && differs[i+1] {
			d = true
		}
		if n := len(out); n > 0 && out[n-1].Differs == d {
			out[n-1].Text += s
			continue
		}
		out = append(out, Piece{s, d})
	}
	return out
}
