package terminal

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"io"
	"os"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/nat-go/nat-go/internal/secret"
)

// mark precedes each control sequence of this package. It is random, so external text can't contain it.
var mark = sync.OnceValue(func() string { return "\x1b" + rand.Text() })

// Style applies a style, such as "31;1", to text on a terminal. It takes effect if the text is written through a
// Writer.
func Style(style, text string) string {
	return mark() + "[" + style + "m" + text + mark() + "[0m"
}

// ClearLine moves to the beginning of the line and clears it.
func ClearLine() string { return mark() + "[K" }

// Writer makes text written through it safe, and passes on this package's styles. Known secrets are masked. It holds
// back an incomplete character until the rest follows. It is safe for concurrent use.
type Writer struct {
	mu      sync.Mutex
	raw     io.Writer
	out     io.Writer // raw, or a writer that masks secrets and then writes to raw
	secrets *secret.Writer
	held    []byte
	buf     []byte
	err     error // first write error
}

// NewWriter makes a writer that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{raw: w, out: w} }

// For returns w itself if it is a Writer, or otherwise a new Writer that writes to it.
func For(w io.Writer) *Writer {
	if t, ok := w.(*Writer); ok {
		return t
	}
	return NewWriter(w)
}

// Hide masks the values in all later text.
func (w *Writer) Hide(values *secret.Values) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secrets = values.Writer(w.raw)
	w.out = w.secrets
}

// Raw returns a writer for callers that make their output safe themselves. It masks known secrets, and writes
// everything else unchanged.
func (w *Writer) Raw() io.Writer { return raw{w} }

type raw struct{ w *Writer }

func (r raw) Write(p []byte) (int, error) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	n, err := r.w.out.Write(p)
	return n, r.w.remember(err)
}

// Err returns the first write error, if any.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *Writer) remember(err error) error {
	w.err = cmp.Or(w.err, err)
	return err
}

// Is reports whether w, or the target of a Writer, is a terminal. Only terminals have a size.
func Is(w io.Writer) bool { return size(w) != nil }

// Width returns the number of columns of the terminal behind w, or 0 if it is not a terminal.
func Width(w io.Writer) int {
	if s := size(w); s != nil {
		return int(s.Col)
	}
	return 0
}

func size(w io.Writer) *unix.Winsize {
	if t, ok := w.(*Writer); ok {
		w = t.raw
	}
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	s, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return nil
	}
	return s
}

// Write accepts all of p unless the underlying writer fails.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.held) == 0 && plain(p) == len(p) {
		_, err := w.out.Write(p)
		return len(p), w.remember(err)
	}
	text := p
	if len(w.held) > 0 {
		text = append(w.held, p...)
	}
	whole := len(text) - incomplete(text)
	w.buf = appendStyled(w.buf[:0], text[:whole])
	w.held = append(w.held[:0:0], text[whole:]...)
	_, err := w.out.Write(w.buf)
	return len(p), w.remember(err)
}

// Flush writes the held-back text.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var err error
	if len(w.held) > 0 {
		_, err = w.out.Write(appendSafe(nil, w.held))
		w.held = nil
	}
	if w.secrets != nil && err == nil {
		err = w.secrets.Flush()
	}
	return w.remember(err)
}

// appendStyled appends text with its styles in the terminal's notation.
func appendStyled(dst, text []byte) []byte {
	m := []byte(mark())
	for {
		at := bytes.Index(text, m)
		if at < 0 {
			return appendSafe(dst, text)
		}
		dst = appendSafe(dst, text[:at])
		text = text[at+len(m):]
		end := bytes.IndexAny(text, "mK") + 1
		if text[end-1] == 'K' {
			dst = append(dst, '\r')
		}
		dst = append(append(dst, '\x1b'), text[:end]...)
		text = text[end:]
	}
}

// incomplete returns the length of the incomplete character or style, if any, at the end of text.
func incomplete(text []byte) int {
	m := []byte(mark())
	if at := bytes.LastIndexByte(text, '\x1b'); at >= 0 {
		tail := text[at:]
		if len(tail) < len(m) && bytes.HasPrefix(m, tail) ||
			bytes.HasPrefix(tail, m) && !bytes.ContainsAny(tail[len(m):], "mK") {
			return len(tail)
		}
	}
	if n := len(text); n > 0 && text[n-1] == 0xed {
		return 1
	} else if n > 1 && text[n-2] == 0xed && text[n-1]&0xc0 == 0x80 { // a lone surrogate counts as one character
		return 2
	}
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if c := text[len(text)-n]; utf8.RuneStart(c) {
			if !utf8.FullRune(text[len(text)-n:]) {
				return n
			}
			break
		}
	}
	return 0
}
