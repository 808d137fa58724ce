package json

import (
	"encoding/binary"
	"math/bits"
)

// The scanner is a state machine that can stop at any byte and continue when more bytes are available. A value of
// any length is therefore examined only once, regardless of the block size.

type state uint8

const (
	wantValue      state = iota // a value
	wantValueOrEnd              // just after '['
	wantKeyOrEnd                // just after '{'
	wantKey                     // after ',' in an object
	wantColon                   // after a key
	wantCommaOrEnd              // after a value inside a container
	inString                    // inside a string value
	inKey                       // inside an object's key
	finished                    // the value is complete
)

type status uint8

const (
	complete   status = iota // the value ended
	needMore                 // the input so far ends inside the value
	unexpected               // an illegal byte; scanner.msg describes the problem
)

type scanner struct {
	state    state
	depth    int
	maxDepth int
	stack    []uint64 // one bit per level; 1 means an object
	msg      string   // what was expected or is wrong, if the status is unexpected

	index  index
	within int32 // the token of the innermost open container
}

func (s *scanner) reset(maxDepth int) {
	s.state, s.depth, s.maxDepth, s.msg, s.within = wantValue, 0, maxDepth, "", 0
	s.index.reset()
}

func (s *scanner) push(object bool) bool {
	if s.depth >= s.maxDepth {
		return false
	}
	if s.depth>>6 >= len(s.stack) {
		s.stack = append(s.stack, 0)
	}
	bit := uint64(1) << (s.depth & 63)
	if object {
		s.stack[s.depth>>6] |= bit
	} else {
		s.stack[s.depth>>6] &^= bit
	}
	s.depth++
	return true
}

// fail reports an illegal byte at data[i].
func (s *scanner) fail(i int, msg string) (int, status) {
	s.msg = msg
	return i, unexpected
}

func (s *scanner) inObject() bool {
	d := s.depth - 1
	return s.stack[d>>6]>>(d&63)&1 == 1
}

// scan continues from data[i]. final is set if no more bytes follow data, so that a number at the very end is complete.
// It returns where it stopped: after the value (complete), at the first byte to scan again with more input (needMore),
// or at the illegal byte (unexpected).
func (s *scanner) scan(data []byte, i int, final bool) (int, status) {
	switch s.state {
	case inString, inKey: // the previous input ended inside a string or key
		var st status
		if i, st = s.restOfString(data, i); st != complete || s.state == finished {
			return i, st
		}
	case finished:
		return i, complete
	}
	for {
		if i < len(data) && data[i] <= ' ' {
			i = skipSpace(data, i)
		}
		if i >= len(data) {
			return i, needMore
		}
		c := data[i]
		switch s.state {
		case wantCommaOrEnd:
			object := s.inObject()
			switch {
			case c == ',':
				i++
				s.state = wantValue
				if object {
					s.state = wantKey
				}
			case c == '}' && object, c == ']' && !object:
				i++
				if s.pop(i) {
					return i, complete
				}
			default:
				if object {
					return s.fail(i, "expected ',' or '}'")
				}
				return s.fail(i, "expected ',' or ']'")
			}
			continue
		case wantColon:
			if c != ':' {
				return s.fail(i, "expected ':' after the key")
			}
			i++
			s.state = wantValue
			continue
		case wantKeyOrEnd, wantKey:
			if c == '"' {
				s.index.begin(i)
				s.state = inKey
				var st status
				if i, st = s.restOfString(data, i+1); st != complete {
					return i, st
				}
				if i < len(data) && data[i] == ':' { // nearly always true
					i++
					s.state = wantValue
				}
				continue
			}
			if c == '}' && s.state == wantKeyOrEnd {
				i++
				if s.pop(i) {
					return i, complete
				}
				continue
			}
			switch {
			case s.state == wantKeyOrEnd:
				return s.fail(i, "expected a key in double quotes or '}'")
			case c == '}':
				return s.fail(i, "expected another key: remove the comma before '}'")
			}
			return s.fail(i, "expected a key in double quotes")
		}

		// wantValue, wantValueOrEnd
		switch c {
		case '"':
			s.index.begin(i)
			s.state = inString
			var st status
			if i, st = s.restOfString(data, i+1); st != complete || s.state == finished {
				return i, st
			}
			continue
		case '{', '[':
			if !s.push(c == '{') {
				return s.fail(i, "nested too deep")
			}
			s.within = s.index.enter(i, s.within)
			i++
			s.state = wantValueOrEnd
			if c == '{' {
				s.state = wantKeyOrEnd
			}
			continue
		case ']':
			if s.state == wantValueOrEnd {
				i++
				if s.pop(i) {
					return i, complete
				}
				continue
			}
		}
		end, st := s.scalar(data, i, final)
		switch {
		case st == needMore:
			return i, needMore
		case st == unexpected && c == ']' && s.depth > 0 && !s.inObject():
			return s.fail(i, "expected another value: remove the comma before ']'")
		case st == unexpected:
			return end, unexpected
		}
		s.index.begin(i)
		s.index.end(end)
		i = end
		if s.valueDone() {
			return i, complete
		}
	}
}

// restOfString continues inside a string or key from data[i]; the status complete means that it ended.
func (s *scanner) restOfString(data []byte, i int) (int, status) {
	i, st := s.text(data, i)
	if st != complete {
		return i, st
	}
	s.index.end(i)
	if s.state == inKey {
		s.state = wantColon
	} else {
		s.valueDone()
	}
	return i, complete
}

// pop leaves a container that ends before i, and reports whether it was the outermost.
func (s *scanner) pop(i int) bool {
	s.within = s.index.leave(i, s.within)
	s.depth--
	return s.valueDone()
}

// valueDone moves to the state after a value and reports whether it was the outermost.
func (s *scanner) valueDone() bool {
	if s.depth == 0 {
		s.state = finished
		return true
	}
	s.state = wantCommaOrEnd
	return false
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

func skipSpace(data []byte, i int) int {
	for i < len(data) {
		switch data[i] {
		case ' ':
			// A quarter of an indented file consists of spaces, so skip eight at a time.
			for i+8 <= len(data) && binary.LittleEndian.Uint64(data[i:]) == ones*' ' {
				i += 8
			}
			for i < len(data) && data[i] == ' ' {
				i++
			}
		case '\n', '\r', '\t':
			i++
		default:
			return i
		}
	}
	return i
}

// special marks (in the top bit of each byte) the bytes of w that end a run of plain string characters: '"', '\\',
// control characters and everything beyond ASCII. Bits above the first marked byte may be wrong, because the
// subtractions borrow from higher bytes, so callers use only the first mark.
func special(w uint64) uint64 {
	quote := w ^ ones*'"'
	slash := w ^ ones*'\\'
	return ((quote - ones) | (slash - ones) | (w - ones*0x20) | w) & highs
}

// text continues inside a string from data[i]. Like scan, it returns the position where it stopped.
func (s *scanner) text(data []byte, i int) (int, status) {
	for {
		for i+8 <= len(data) {
			if m := special(binary.LittleEndian.Uint64(data[i:])); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(data) {
			return i, needMore
		}
		switch c := data[i]; {
		case c == '"':
			return i + 1, complete
		case c == '\\':
			n, msg := escapeLen(data[i:])
			if msg != "" {
				return s.fail(i, msg)
			}
			if n == 0 {
				return i, needMore
			}
			i += n
		case c < 0x20:
			return s.fail(i, "control character in a string: write it as an escape such as \\n")
		case c < 0x80:
			i++
		default:
			for { // stay in this loop while the text is not ASCII
				n, ok := runeLen(data[i:])
				if !ok {
					return s.fail(i, "text that is not UTF-8")
				}
				if n == 0 {
					return i, needMore
				}
				i += n
				if i >= len(data) || data[i] < 0x80 {
					break
				}
			}
		}
	}
}

// escapeLen returns the length of the escape at p[0] == '\\', or 0 if p ends inside it.
func escapeLen(p []byte) (int, string) {
	if len(p) < 2 {
		return 0, ""
	}
	switch p[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, ""
	case 'u':
		for k := 2; k < 6; k++ {
			if k >= len(p) {
				return 0, ""
			}
			if hexValue[p[k]] > 15 {
				return 0, "\\u needs four hexadecimal digits"
			}
		}
		return 6, ""
	}
	return 0, "no such escape: expected one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX"
}

// runeLen returns the length of the UTF-8 sequence at p[0] >= 0x80 (Unicode 16, table 3-7); 0 if p ends inside it.
func runeLen(p []byte) (int, bool) {
	c := p[0]
	lo, hi := byte(0x80), byte(0xBF)
	var n int
	switch {
	case c < 0xC2:
		return 0, false
	case c < 0xE0:
		n = 2
	case c < 0xF0:
		n = 3
		if c == 0xE0 {
			lo = 0xA0
		} else if c == 0xED {
			hi = 0x9F
		}
	case c < 0xF5:
		n = 4
		if c == 0xF0 {
			lo = 0x90
		} else if c == 0xF4 {
			hi = 0x8F
		}
	default:
		return 0, false
	}
	for k := 1; k < n; k++ {
		if k >= len(p) {
			return 0, true
		}
		if p[k] < lo || p[k] > hi {
			return 0, false
		}
		lo, hi = 0x80, 0xBF
	}
	return n, true
}

const (
	maxNumberBytes   = 1_000_000 // maximum length of a number, which bounds the search for its end
	maxIntegerDigits = 4300      // CPython's limit on the digits of an integer literal (sys.set_int_max_str_digits)
)

// words lists the literal names, by their first letters.
var words = [256]string{'t': "true", 'f': "false", 'n': "null", 'N': "NaN", 'I': "Infinity"}

// scalar reads a number or a word at data[i]. Like scan, it returns the position where it stopped. It needs more
// input unless it has seen the end of the number or word.
func (s *scanner) scalar(data []byte, i int, final bool) (int, status) {
	c := data[i]
	switch {
	case c == '-' || c-'0' < 10:
		return s.number(data, i, final)
	case words[c] != "":
		return s.word(data, i, words[c])
	}
	return s.fail(i, "expected a value")
}

func (s *scanner) word(data []byte, i int, word string) (int, status) {
	n := min(len(word), len(data)-i)
	switch {
	case string(data[i:i+n]) != word[:n]:
		return s.fail(i, "expected a value")
	case n < len(word):
		return i, needMore
	}
	return i + n, complete
}

func (s *scanner) number(data []byte, i int, final bool) (int, status) {
	start := i
	if data[i] == '-' {
		i++
		if i < len(data) && data[i] == 'I' {
			return s.word(data, i, words['I'])
		}
	}
	first := i
	if i < len(data) && data[i] == '0' {
		i++
	} else if i = skipDigits(data, i); i == first {
		return s.wantDigit(data, i)
	}
	integer, isInt := i-first, true
	if i < len(data) && data[i] == '.' {
		i++
		from := i
		if i = skipDigits(data, i); i == from {
			return s.wantDigit(data, i)
		}
		isInt = false
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		from := i
		if i = skipDigits(data, i); i == from {
			return s.wantDigit(data, i)
		}
		isInt = false
	}
	switch {
	case i-start > maxNumberBytes:
		return s.fail(start, "a number of more than a million characters")
	case i >= len(data) && !final:
		return start, needMore
	case isInt && integer > maxIntegerDigits:
		return s.fail(start, "an integer of more than 4300 digits (Python rejects it too)")
	}
	return i, complete
}

func (s *scanner) wantDigit(data []byte, i int) (int, status) {
	if i < len(data) {
		return s.fail(i, "expected a digit")
	}
	return i, needMore
}

func skipDigits(data []byte, i int) int {
	for i < len(data) && data[i]-'0' < 10 {
		i++
	}
	return i
}
