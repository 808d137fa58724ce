package source

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// tornBytes is the number of bytes at the start of a file that are examined for a torn first line; a torn last line may
// be longer.
const (
	tornBytes = 64 << 10
	tornEnd   = 16 << 20
)

// torn locates the lines of a file that were torn apart by copying.
type torn struct {
	first int64 // length of a torn first line, which is read as spaces; 0 if the first line is complete
	last  int64 // offset of a torn last line, which is not read; 0 if the last line is complete
}

// mend returns a reader that replaces the first line of a file with spaces if the line is torn, that is, if it isn't
// JSON and the next line is an object. The other lines keep their offsets.
func (file *File) mend(in *bufio.Reader) io.Reader {
	in = bufio.NewReaderSize(in, tornBytes)
	begun, _ := in.Peek(tornBytes)
	first, rest, more := bytes.Cut(begun, []byte{'\n'})
	text := bytes.TrimSpace(bytes.TrimPrefix(first, []byte("\xEF\xBB\xBF")))
	if !more || len(text) == 0 || bytes.IndexByte([]byte("[{,:"), text[len(text)-1]) >= 0 || json.Valid(text) {
		return in
	}
	second, _, whole := bytes.Cut(rest, []byte{'\n'})
	if second = bytes.TrimSpace(second); !bytes.HasPrefix(second, []byte(`{"`)) ||
		(whole || len(begun) < tornBytes) && !json.Valid(second) || several(text) {
		return in
	}
	file.torn.first = int64(len(first))
	_, _ = in.Discard(len(first))
	return io.MultiReader(bytes.NewReader(bytes.Repeat([]byte{' '}, len(first))), in)
}

// several reports whether a line consists of several complete values.
func several(line []byte) bool {
	r := json.NewReader(bytes.NewReader(line), json.Values, json.Limits{})
	for {
		if _, _, err := r.Next(); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// cutTorn locates the last line of a file if it is torn, that is, if it is the beginning of an object and other
// lines precede it.
func (file *File) cutTorn(f io.ReaderAt) {
	size := file.ID.Size
	begun := make([]byte, 16)
	n, _ := f.ReadAt(begun, 0)
	if bytes.HasPrefix(bytes.TrimLeft(begun[:n], "\xEF\xBB\xBF \t\r\n"), []byte("[")) {
		return // the file is one list, so its end isn't a torn line
	}
	var line []byte
	for n := int64(4 << 10); n <= tornEnd; n *= 4 {
		begin := max(size-n, 0)
		tail := make([]byte, size-begin)
		if _, err := f.ReadAt(tail, begin); err != nil && !errors.Is(err, io.EOF) {
			return
		}
		if i := bytes.LastIndexByte(tail, '\n'); i >= 0 {
			line = tail[i+1:]
			break
		}
		if begin == 0 {
			return
		}
	}
	var syntax *json.SyntaxError
	_, err := json.Parse(line, json.Limits{})
	if bytes.HasPrefix(line, []byte("{")) && errors.As(err, &syntax) && syntax.Truncated {
		file.torn.last = size - int64(len(line))
	}
}

// drops lists the torn lines of a file.
func (t torn) drops(path string) (out []ledger.Drop) {
	if t.first > 0 {
		out = append(out, ledger.Drop{Detail: "the first line is not JSON"})
	}
	if t.last > 0 {
		out = append(out, ledger.Drop{Detail: "the last line ends inside an object", Offset: t.last})
	}
	for i := range out {
		out[i].Unit, out[i].Reason, out[i].Index, out[i].File = "line", UnreadLine, -1, path
	}
	return out
}
