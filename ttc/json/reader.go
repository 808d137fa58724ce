package json

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
	"unsafe"
)

// Layout selects how values are arranged in a stream.
type Layout uint8

// The layouts.
const (
	Auto    Layout = iota // ArrayOf if the first value is an array, else Values
	ArrayOf               // one top-level array, whose elements are the values
	Values                // JSON lines, or values separated by white space
)

const blockBytes = 1 << 20 // size of a block

// Reader reads a stream value by value, with one value in memory at a time. A leading byte order mark is skipped.
type Reader struct {
	in     io.Reader
	lim    Limits
	layout Layout

	block []byte
	buf   []byte // bytes read and not yet discarded, a part of block
	pos   int    // next byte to examine
	base  int64  // offset of buf[0] in the stream
	line  int64  // line of buf[0], from 1
	eof   bool

	begun    bool
	first    bool // no array element has been read yet
	array    int64
	done     bool
	err      error // sticky
	scan     scanner
	top      Kind  // the kind of the top-level value
	values   int64 // number of values read so far
	lastLine int64 // line of the last value
	last     Raw   // the last value
}

// NewReader returns a reader of the values in r.
func NewReader(r io.Reader, layout Layout, lim Limits) *Reader {
	return &Reader{in: r, lim: lim.orDefaults(), layout: layout, line: 1}
}

// GoOn declares that the input continues a stream of values at the given offset, which is between two values. It must
// be called before the first call to Next.
func (r *Reader) GoOn(offset int64) {
	r.begun, r.layout, r.base = true, Values, offset
}

// InArray reports, once Next has been called, whether the values are the elements of one array.
func (r *Reader) InArray() bool { return r.layout == ArrayOf }

// Next returns the next value and its byte offset in the stream. The value is valid until the next call. After the last
// value, Next returns io.EOF; other errors are a *SyntaxError, a *SizeError, or an error from the underlying reader. A
// value beyond the size limit is skipped without being stored, so reading can continue after a *SizeError; every other
// error is final.
func (r *Reader) Next() (Raw, int64, error) {
	if r.err != nil {
		return nil, r.Offset(), r.err
	}
	v, at, err := r.next()
	var tooLarge *SizeError
	if err != nil && !errors.As(err, &tooLarge) {
		r.err = err
	}
	return v, at, err
}

// Index makes the reader record the positions of each value's parts, which makes cursors faster. Call it before Next.
func (r *Reader) Index() { r.scan.index.on = true }

// Cursor returns a cursor before the value that Next returned last, valid for as long as that value.
func (r *Reader) Cursor() Cursor { return Cursor{data: r.last, tokens: r.scan.index.tokens} }

// Offset returns the offset of the next byte to be examined.
func (r *Reader) Offset() int64 { return r.base + int64(r.pos) }

// Line returns the line, from 1, at which the last value begins.
func (r *Reader) Line() int64 { return r.lastLine }

// Top returns, once Next has been called, the kind of the first top-level value; for an array it is Array even if
// Layout is Values.
func (r *Reader) Top() Kind { return r.top }

func (r *Reader) next() (Raw, int64, error) {
	if !r.begun {
		if err := r.begin(); err != nil {
			return nil, r.Offset(), err
		}
	}
	if r.done {
		return nil, r.Offset(), r.end()
	}
	if err := r.space(); err != nil {
		return nil, r.Offset(), err
	}
	if r.layout == Values {
		if r.pos == len(r.buf) {
			r.done = true
			return nil, r.Offset(), io.EOF
		}
		return r.value()
	}
	if r.pos == len(r.buf) {
		return nil, r.Offset(), r.truncatedArray()
	}
	switch c := r.buf[r.pos]; {
	case c == ']':
		r.pos++
		r.done = true
		return nil, r.Offset(), r.end()
	case r.first:
		r.first = false
	case c == ',':
		r.pos++
		if err := r.space(); err != nil {
			return nil, r.Offset(), err
		}
		if r.pos == len(r.buf) {
			return nil, r.Offset(), r.truncatedArray()
		}
		if r.buf[r.pos] == ']' {
			return nil, r.Offset(), r.syntaxError("expected another value: remove the comma before ']'")
		}
	default:
		return nil, r.Offset(), r.syntaxError("expected ',' or ']' after an element of the array")
	}
	return r.value()
}

// begin reads up to the first value, past the byte order mark, white space and the array's bracket.
func (r *Reader) begin() error {
	r.begun, r.first = true, true
	for len(r.buf) < 3 && !r.eof {
		if err := r.fill(); err != nil {
			return err
		}
	}
	switch {
	case bytes.HasPrefix(r.buf, []byte("\xEF\xBB\xBF")):
		r.pos = 3
	case bytes.HasPrefix(r.buf, []byte("\xFF\xFE")), bytes.HasPrefix(r.buf, []byte("\xFE\xFF")):
		return r.syntaxError("the text is UTF-16: convert it to UTF-8")
	}
	if err := r.space(); err != nil {
		return err
	}
	if r.pos < len(r.buf) {
		r.top = kindOf(r.buf[r.pos])
	}
	switch isArray := r.top == Array; {
	case r.layout == Values, r.layout == Auto && !isArray:
		r.layout = Values
		return nil
	case !isArray:
		return r.syntaxError("expected '[', the start of an array")
	}
	r.layout, r.array = ArrayOf, r.Offset()
	r.pos++
	return nil
}

// end checks that nothing follows the end of the array.
func (r *Reader) end() error {
	if err := r.space(); err != nil {
		return err
	}
	if r.pos < len(r.buf) {
		return r.syntaxError("expected the end of the input after the array")
	}
	return io.EOF
}

// value reads the value at r.pos, where a byte is known to be available.
func (r *Reader) value() (Raw, int64, error) {
	r.discard()
	start := r.Offset()
	r.lastLine = r.line
	r.scan.reset(r.lim.Depth)
	i, from := 0, 0 // the value starts at from, which is negative once the value is too large to be stored
	tooLarge := false
	for {
		var st status
		i, st = r.scan.scan(r.buf, i, r.eof)
		if int64(i-from) > r.lim.Size {
			tooLarge = true
		}
		switch {
		case st == complete:
			r.pos = i
			if tooLarge {
				return nil, start, &SizeError{Offset: start, Limit: r.lim.Size}
			}
			if tooMany(r.buf[from:i], r.lim.Objects) {
				return nil, start, &SizeError{Offset: start, Limit: r.lim.Objects, Many: true}
			}
			r.values++
			r.last = Raw(r.buf[from:i:i])
			return r.last, start, nil
		case st == unexpected || r.eof:
			r.wholeRune(i)
			if end := r.brokenLine(i); end > 0 && !tooLarge {
				return nil, start, r.endOfLine(end, start)
			}
			return nil, start, r.scan.errorAt(r.buf, i, r.base, r.line, start, st)
		}
		if tooLarge {
			r.pos = i
			r.discard()
			r.shrink()
			i, from = r.pos, r.pos-int(r.Offset()-start)
		}
		if err := r.fill(); err != nil {
			return nil, start, err
		}
	}
}

// brokenLine returns the end of a value's first line if the value should take only that line, but is malformed at
// r.buf[i], on a later line; otherwise it returns 0. A value should take one line if all previous values did or, for
// the first value, if its first two lines begin with '{'.
func (r *Reader) brokenLine(i int) int {
	end := bytes.IndexByte(r.buf[:min(i, len(r.buf))], '\n')
	if r.layout != Values || end <= 0 {
		return 0
	}
	below := bytes.TrimLeft(r.buf[end:], " \t\r\n")
	if len(below) > 0 && (r.values > 0 && r.lastLine == r.values+1 ||
		r.values == 0 && r.buf[0] == '{' && r.buf[end+1] == '{') {
		return end
	}
	return 0
}

// endOfLine returns the error for a value that begins at offset open and is incomplete at the end of its line, at
// r.buf[end].
func (r *Reader) endOfLine(end int, open int64) error {
	e := newSyntaxError(r.buf, end, r.base, r.line, fmt.Sprintf("expected the rest of the value that begins at byte %d",
		open))
	e.Found = "the end of the line"
	return e
}

// space skips white space, reading more input as needed.
func (r *Reader) space() error {
	for {
		if r.pos = skipSpace(r.buf, r.pos); r.pos < len(r.buf) || r.eof {
			return nil
		}
		r.discard()
		if err := r.fill(); err != nil {
			return err
		}
	}
}

// discard drops the bytes before r.pos.
func (r *Reader) discard() {
	r.line += int64(bytes.Count(r.buf[:r.pos], []byte{'\n'}))
	r.base += int64(r.pos)
	r.buf = r.buf[r.pos:]
	r.pos = 0
}

// fill reads more bytes after those in r.buf, which it moves to the front of the block or of a larger block.
func (r *Reader) fill() error {
	limit := r.lim.Size + blockBytes // room for the largest allowed value and the start of the next one
	if r.block == nil || len(r.buf) > len(r.block)*3/4 && int64(len(r.block)) < limit {
		size := max(blockBytes, int(min(2*int64(len(r.block)), limit)))
		if in, short := r.in.(interface{ Len() int }); short && r.block == nil {
			size = min(size, max(64, 2*in.Len())) // large enough for all of a small in-memory input
		}
		r.block = make([]byte, size)
		r.buf = r.block[:copy(r.block, r.buf)]
	} else if len(r.buf) == len(r.block) { // only a number fills the block, because strings are consumed as they arrive
		return r.syntaxError(fmt.Sprintf("a number of more than %d bytes", r.lim.Size))
	} else if &r.block[0] != unsafe.SliceData(r.buf) {
		r.buf = r.block[:copy(r.block, r.buf)]
	}
	for range 100 {
		n, err := r.in.Read(r.block[len(r.buf):])
		r.buf = r.block[:len(r.buf)+n]
		if err == io.EOF {
			r.eof = true
			return nil
		}
		if err != nil {
			return fmt.Errorf("byte %d: %w", r.base+int64(len(r.buf)), err)
		}
		if n > 0 {
			return nil
		}
	}
	return fmt.Errorf("byte %d: %w", r.base+int64(len(r.buf)), io.ErrNoProgress)
}

// shrink replaces a block that is larger than needed to skip a value.
func (r *Reader) shrink() {
	if len(r.block) > blockBytes && len(r.buf) <= blockBytes/2 {
		r.block = make([]byte, blockBytes)
		r.buf = r.block[:copy(r.block, r.buf)]
	}
}

// wholeRune reads more bytes if the buffer ends inside the character at r.buf[i], so that an error can name it.
func (r *Reader) wholeRune(i int) {
	for i < len(r.buf) && !utf8.FullRune(r.buf[i:]) && !r.eof && r.fill() == nil {
	}
}

func (r *Reader) syntaxError(msg string) error {
	r.wholeRune(r.pos)
	return newSyntaxError(r.buf, r.pos, r.base, r.line, msg)
}

func (r *Reader) truncatedArray() error {
	e := newSyntaxError(r.buf, len(r.buf), r.base, r.line, "")
	e.Truncated = true
	e.Msg = fmt.Sprintf("the input ends inside the array that begins at byte %d", r.array)
	return e
}

// tooMany reports whether a value contains more than limit objects and lists; 0 means no limit. It first tries
// cheaper bounds: the value's length, and the number of its brackets, including brackets in strings.
func tooMany(v []byte, limit int64) bool {
	return limit > 0 && int64(len(v)) > 2*limit && begins(v) > limit && objects(v, limit) > limit
}

// objects counts the objects and lists in a checked value, stopping once there are more than limit.
func objects(v []byte, limit int64) (n int64) {
	for n <= limit {
		text := bytes.IndexByte(v, '"')
		if text < 0 {
			return n + begins(v)
		}
		n += begins(v[:text])
		v = v[endOfString(v, text):]
	}
	return n
}

func begins(v []byte) int64 {
	return int64(bytes.Count(v, []byte{'{'}) + bytes.Count(v, []byte{'['}))
}
