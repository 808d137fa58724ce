package json

import "math"

// index lists the positions of a value's tokens, in order: keys, strings, numbers, words, and both ends of
// containers. A scanner builds the index while it scans, so that a Cursor doesn't have to search for the ends of keys
// and values.
type index struct {
	on     bool
	full   bool // no tokens are recorded, because there are too many or on is false
	tokens []token
}

// token is a range of a value's bytes. next is the index of the following token or, for a container, of the token after
// the whole container.
type token struct{ from, to, next int32 }

// maxTokens limits an index to 3 MiB of memory.
const maxTokens = 1 << 18

func (x *index) reset() { x.full, x.tokens = !x.on, x.tokens[:0] }

// begin adds a token that begins at byte i.
func (x *index) begin(i int) {
	if x.full {
		return
	}
	if len(x.tokens) == maxTokens || i > math.MaxInt32/2 {
		x.full, x.tokens = true, x.tokens[:0]
		return
	}
	x.tokens = append(x.tokens, token{from: int32(i)})
}

// end records where the last token ends.
func (x *index) end(i int) {
	if !x.full {
		t := &x.tokens[len(x.tokens)-1]
		t.to, t.next = int32(i), int32(len(x.tokens))
	}
}

// enter adds the container that begins at byte i and returns its number. While the container is open, its to field
// holds the number of the enclosing container.
func (x *index) enter(i int, outer int32) int32 {
	x.begin(i)
	if x.full {
		return 0
	}
	n := int32(len(x.tokens) - 1)
	x.tokens[n].to = outer
	return n
}

// leave closes container n, which ends before byte i, and returns the number of the enclosing one.
func (x *index) leave(i int, n int32) (outer int32) {
	x.begin(i - 1)
	x.end(i)
	if x.full {
		return 0
	}
	outer = x.tokens[n].to
	x.tokens[n].to, x.tokens[n].next = int32(i), int32(len(x.tokens))
	return outer
}
