package lines

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
)

// TooLong is the error for a line beyond the limit. Reading may continue with the next line; the remainder of the long
// line is skipped.
type TooLong struct {
	Limit int   // maximum length of a line in bytes
	Bytes int64 // length of the line with its newline; known once reading has continued
}

func (e *TooLong) Error() string {
	if e.Limit >= 1<<20 && e.Limit%(1<<20) == 0 {
		return fmt.Sprintf("the line is longer than %d MiB", e.Limit>>20)
	}
	return fmt.Sprintf("the line is longer than %d bytes", e.Limit)
}

// bufferBytes is the number of bytes read at once if r is not already buffered.
const bufferBytes = 64 << 10

// Read yields the lines of r without their newlines, including a last line without one. A line is valid until the
// next. The error is either a *TooLong, after which reading may continue, or an error from r, which is final.
func Read(r io.Reader, limit int) iter.Seq2[[]byte, error] {
	return read(r, limit, false)
}

// ReadWhole is like Read, for input in which every line ends in a newline: text after the last newline results in
// io.ErrUnexpectedEOF.
func ReadWhole(r io.Reader, limit int) iter.Seq2[[]byte, error] {
	return read(r, limit, true)
}

func read(r io.Reader, limit int, whole bool) iter.Seq2[[]byte, error] {
	in, ok := r.(*bufio.Reader)
	if !ok {
		in = bufio.NewReaderSize(r, bufferBytes)
	}
	return func(yield func([]byte, error) bool) {
		var long []byte // the part read so far of a line that doesn't fit in the buffer
		for {
			part, err := in.ReadSlice('\n') //nolint:forbidigo // allowed here
			line := part
			if len(long) > 0 {
				long = append(long, part...)
				line = long
			}
			if err == nil {
				line = line[:len(line)-1]
			}
			switch {
			case len(line) > limit:
				tooLong := &TooLong{Limit: limit, Bytes: int64(len(line))}
				if err == nil {
					tooLong.Bytes++
				}
				if !yield(nil, tooLong) {
					return
				}
				for errors.Is(err, bufio.ErrBufferFull) {
					part, err = in.ReadSlice('\n') //nolint:forbidigo // allowed here
					tooLong.Bytes += int64(len(part))
				}
			case errors.Is(err, bufio.ErrBufferFull):
				if len(long) == 0 {
					long = append(long, part...)
				}
				continue
			case err == nil || len(line) > 0 && errors.Is(err, io.EOF) && !whole:
				if !yield(line, nil) {
					return
				}
			case len(line) > 0 && errors.Is(err, io.EOF):
				yield(nil, io.ErrUnexpectedEOF)
				return
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(nil, err)
				}
				return
			}
			long = long[:0]
		}
	}
}
