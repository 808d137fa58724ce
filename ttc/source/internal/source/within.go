package source

import (
	"bufio"
	"fmt"
	"io"

	"github.com/nat-go/nat-go/ttc/json"
)

// Within uses the list under a key of the file's single object as the file's entries. The rest of the object is not
// parsed. If key is empty, Within does nothing.
func (file *File) Within(key string) {
	if key == "" {
		return
	}
	file.Reader = &within{in: bufio.NewReaderSize(file.Reader, 64<<10), key: key}
	file.whole = "its entries are in a list within one object"
}

// within reads the list under a key of an object, from its opening to its closing bracket.
type within struct {
	in    *bufio.Reader
	key   string
	depth int // nesting depth of brackets while the list is being read
	scan  textScan
	err   error
}

// textScan tracks whether a byte of JSON is inside a string.
type textScan struct{ inside, escaped bool }

// outside consumes the next byte, and reports whether it is outside all strings.
func (s *textScan) outside(b byte) bool {
	switch {
	case !s.inside:
		s.inside = b == '"'
		return !s.inside
	case s.escaped:
		s.escaped = false
	case b == '\\':
		s.escaped = true
	case b == '"':
		s.inside = false
	}
	return false
}

func (w *within) Read(p []byte) (int, error) {
	if w.depth == 0 && w.err == nil {
		if w.err = w.find(); w.err == nil {
			w.depth = 1
			p[0] = '['
			return 1, nil
		}
	}
	if w.err != nil {
		return 0, w.err
	}
	if w.in.Buffered() == 0 {
		if _, err := w.in.Peek(1); err != nil {
			w.err = err
			return 0, err
		}
	}
	chunk, _ := w.in.Peek(min(len(p), w.in.Buffered()))
	n := 0
	for n < len(chunk) && w.err == nil {
		if b := chunk[n]; w.scan.outside(b) {
			switch b {
			case '[', '{':
				w.depth++
			case ']', '}':
				if w.depth--; w.depth == 0 {
					w.err = io.EOF
				}
			}
		}
		n++
	}
	copy(p, chunk[:n])
	_, err := w.in.Discard(n)
	return n, err
}

// maxKey limits the length of a key of the object, in bytes.
const maxKey = 4096

// find advances to the opening bracket of the list.
func (w *within) find() error {
	var scan textScan
	var key []byte // key of the current member, as JSON
	depth, value := 0, false
	for {
		b, err := w.in.ReadByte()
		if err == io.EOF {
			return fmt.Errorf("no list under %q", w.key)
		}
		if err != nil {
			return err
		}
		inside := scan.inside
		outside := scan.outside(b)
		if depth == 1 && !value && (inside || scan.inside) && len(key) < maxKey {
			key = append(key, b)
		}
		if !outside {
			continue
		}
		switch b {
		case ':':
			value = value || depth == 1
		case ',':
			if depth == 1 {
				key, value = key[:0], false
			}
		case '[', '{':
			if b == '[' && depth == 1 && value && json.Raw(key).Is(w.key) {
				return nil
			}
			depth++
		case ']', '}':
			depth--
		}
	}
}
