package json

import (
	"encoding/binary"
	"math/bits"
)

// The scanner is a state machine over bytes that can stop anywhere and continue when more bytes are available, so a
// value of any length is examined only once, regardless of the size of the blocks it arrives in.

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
	needMore                 // the bytes so far end inside the value
	unexpected               // an illegal byte: scanner.msg says why
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
				s.msg = "expected ',' or ']'"
				if object {
					s.msg = "expected ',' or '}'"
				}
				return i, unexpected
			}
			continue
		case wantColon:
			if c != ':' {
				s.msg = "expected ':' after the key"
				return i, unexpected
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
			s.msg = "expected a key in double quotes"
			if s.state == wantKeyOrEnd {
				s.msg = "expected a key in double quotes or '}'"
			} else if c == '}' {
				s.msg = "expected another key: remove the comma before '}'"
			}
			return i, unexpected
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
				s.msg = "nested too deep"
				return i, unexpected
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
		end, ok, msg := scanScalar(data, i, final)
		if msg != "" {
			s.msg = msg
			if c == ']' && s.depth > 0 && !s.inObject() {
				s.msg = "expected another value: remove the comma before ']'"
			}
			return end, unexpected
		}
		if !ok {
			return i, needMore
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
	i, ok, msg := scanString(data, i)
	switch {
	case msg != "":
		s.msg = msg
		return i, unexpected
	case !ok:
		return i, needMore
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

// scanString continues inside a string from data[i]. It returns the position after the closing quote and true; the
// position to continue from and false if the bytes run out; or the illegal byte's position and a message.
func scanString(data []byte, i int) (int, bool, string) {
	for {
		for i+8 <= len(data) {
			if m := special(binary.LittleEndian.Uint64(data[i:])); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(data) {
			return i, false, ""
		}
		switch c := data[i]; {
		case c == '"':
			return i + 1, true, ""
		case c == '\\':
			n, msg := escapeLen(data[i:])
			if msg != "" {
				return i, false, msg
			}
			if n == 0 {
				return i, false, ""
			}
			i += n
		case c < 0x20:
			return i, false, "control character in a string: write it as an escape such as \\n"
		case c < 0x80:
			i++
		default:
			for { // stay in this loop for as long as the text isn't ASCII
				n, ok := runeLen(data[i:])
				if !ok {
					return i, false, "text that is not UTF-8"
				}
				if n == 0 {
					return i, false, ""
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
	maxNumberBytes   = 1_000_000 // max length of a number, which bounds the search for its end
	maxIntegerDigits = 4300      // CPython's limit on the digits of an integer literal (sys.set_int_max_str_digits)
)

// scanScalar reads a number or a word at data[i]. It returns the position after it and true; false if the input ends
// before the end of the number or word is certain; or the illegal byte's position and a message.
func scanScalar(data []byte, i int, final bool) (int, bool, string) {
	switch data[i] {
	case 't':
		return scanWord(data, i, "true")
	case 'f':
		return scanWord(data, i, "false")
	case 'n':
		return scanWord(data, i, "null")
	case 'N':
		return scanWord(data, i, "NaN")
	case 'I':
		return scanWord(data, i, "Infinity")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return scanNumber(data, i, final)
	}
	return i, false, "expected a value"
}

func scanWord(data []byte, i int, word string) (int, bool, string) {
	for k := 0; k < len(word); k++ {
		if i+k >= len(data) {
			return i, false, ""
		}
		if data[i+k] != word[k] {
			return i, false, "expected a value"
		}
	}
	return i + len(word), true, ""
}

func scanNumber(data []byte, i int, final bool) (int, bool, string) {
	start := i
	if data[i] == '-' {
		i++
		if i < len(data) && data[i] == 'I' {
			return scanWord(data, i, "Infinity")
		}
	}
	if i >= len(data) {
		return wantDigit(data, start, i)
	}
	digits := i
	if data[i] == '0' {
		i++
	} else {
		i = skipDigits(data, i)
		if i == digits {
			return i, false, "expected a digit"
		}
	}
	integer := i - digits
	fraction := false
	if i < len(data) && data[i] == '.' {
		fraction = true
		i++
		from := i
		if i = skipDigits(data, i); i == from {
			return wantDigit(data, start, i)
		}
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		fraction = true
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		from := i
		if i = skipDigits(data, i); i == from {
			return wantDigit(data, start, i)
		}
	}
	if i-start > maxNumberBytes {
		return start, false, "a number of more than a million characters"
	}
	if i >= len(data) && !final {
		return start, false, ""
	}
	if !fraction && integer > maxIntegerDigits {
		return start, false, "an integer of more than 4300 digits (Python refuses it too)"
	}
	return i, true, ""
}

func wantDigit(data []byte, start, i int) (int, bool, string) {
	if i >= len(data) {
		return start, false, ""
	}
	return i, false, "expected a digit"
}

func skipDigits(data []byte, i int) int {
	for i < len(data) && data[i]-'0' < 10 {
		i++
	}
	return i
}
