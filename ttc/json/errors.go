package json

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Limits bound the values that are read. A zero field means its default.
type Limits struct {
	Depth int   // maximum nesting depth of a value; default 1000
	Size  int64 // maximum size of a value, in bytes; default 256 MiB

	Objects int64 // maximum number of objects and lists in a value; default: unlimited
}

func (l Limits) orDefaults() Limits {
	l.Depth = cmp.Or(max(l.Depth, 0), 1000)
	l.Size = cmp.Or(max(l.Size, 0), 256<<20)
	return l
}

// SyntaxError reports where and why the input is not valid JSON.
type SyntaxError struct {
	Offset    int64  // byte offset of the error, or of the end if the input is truncated
	Line      int64  // line of Offset, 1-based
	Msg       string // the expected text, or the problem
	Found     string // human-readable description of the input at Offset
	Truncated bool   // the input ends inside a value
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("byte %d (line %d): %s", e.Offset, e.Line, e.problem())
}

func (e *SyntaxError) problem() string {
	if e.Truncated {
		return e.Msg
	}
	return e.Msg + ", found " + e.Found
}

// LineError rewords an error from Parse for input that is one line of a file. It omits Parse's line number, which is
// always 1 and could be mistaken for a line number in the file.
func LineError(err error) error {
	var e *SyntaxError
	if !errors.As(err, &e) {
		return err
	}
	return fmt.Errorf("byte %d of the line: %s", e.Offset, e.problem())
}

// SizeError reports that a value exceeds the limit. A Reader can then continue with the next value.
type SizeError struct {
	Offset int64 // where the value begins
	Limit  int64 // the limit on bytes or, if Many is set, on objects and lists
	Many   bool  // the value has too many objects and lists
}

func (e *SizeError) Error() string {
	if e.Many {
		return fmt.Sprintf("byte %d: one value exceeds the limit of %d objects and lists", e.Offset, e.Limit)
	}
	return fmt.Sprintf("byte %d: one value is larger than the limit of %d bytes", e.Offset, e.Limit)
}

// newSyntaxError returns the error for data[at]; base and line are the offset and line of data[0].
func newSyntaxError(data []byte, at int, base, line int64, msg string) *SyntaxError {
	at = min(at, len(data))
	return &SyntaxError{
		Offset: base + int64(at),
		Line:   line + int64(bytes.Count(data[:at], []byte{'\n'})),
		Msg:    msg,
		Found:  describe(data[at:]),
	}
}

// errorAt returns the error for a scan that ended at data[at] without a value. base and line are the offset and line of
// data[0]; open is the offset at which the value begins.
func (s *scanner) errorAt(data []byte, at int, base, line, open int64, st status) *SyntaxError {
	if st == unexpected {
		return newSyntaxError(data, at, base, line, s.msg)
	}
	atEnd := base+int64(len(data)) == open
	// the error is on the last line that isn't empty
	e := newSyntaxError(data, len(bytes.TrimRight(data, "\r\n")), base, line, "")
	e.Truncated = true
	what := "a value"
	if s.depth > 0 && s.stack[0]&1 == 1 {
		what = "an object"
	} else if s.depth > 0 {
		what = "an array"
	}
	e.Msg = fmt.Sprintf("the input ends inside %s that begins at byte %d", what, open)
	if atEnd {
		e.Msg = "the input ends where a value was expected"
	}
	return e
}

// describe returns a human-readable name for the character at the start of p.
func describe(p []byte) string {
	if len(p) == 0 {
		return "the end"
	}
	if p[0] < 0x20 || p[0] == 0x7F {
		return fmt.Sprintf("the control character 0x%02x", p[0])
	}
	r, n := utf8.DecodeRune(p)
	if r == utf8.RuneError && n <= 1 {
		return fmt.Sprintf("the byte 0x%02x", p[0])
	}
	return "'" + string(r) + "'"
}
