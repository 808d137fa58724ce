package source

import (
	"bufio"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// utf16Of returns the byte order of a file whose first bytes are UTF-16, as written by Windows programs. UTF-16 is
// recognised by its byte order mark or, without one, by the zeros in every second byte of ASCII text.
func utf16Of(head []byte) (order unicode.Endianness, ok bool) {
	if len(head) < 4 {
		return order, false
	}
	ascii := func(b byte) bool { return b >= ' ' && b < 0x7F }
	switch {
	case head[0] == 0xFF && head[1] == 0xFE, ascii(head[0]) && head[1] == 0 && ascii(head[2]) && head[3] == 0:
		return unicode.LittleEndian, true
	case head[0] == 0xFE && head[1] == 0xFF, head[0] == 0 && ascii(head[1]) && head[2] == 0 && ascii(head[3]):
		return unicode.BigEndian, true
	}
	return order, false
}

// fromUTF16 continues reading, converting to UTF-8. It returns the reader and the new first bytes.
func (file *File) fromUTF16(in *bufio.Reader, order unicode.Endianness) (*bufio.Reader, []byte) {
	file.whole = "it is UTF-16"
	decoded := transform.NewReader(in, unicode.UTF16(order, unicode.UseBOM).NewDecoder())
	begun := bufio.NewReaderSize(decoded, 512)
	head, _ := begun.Peek(256) // the file's reader reports any error
	return begun, head
}
