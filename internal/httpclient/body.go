package httpclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"

	"github.com/nat-go/nat-go/internal/durable"
)

// Body is a request body that can be sent more than once.
type Body interface {
	Type() string // content type
	Size() int64
	Open() (io.ReadCloser, error)
}

// Bytes is a body held in memory.
type Bytes struct {
	ContentType string
	Data        []byte
}

// JSON returns a body that holds one JSON value, in which <, > and & are not escaped.
func JSON(v any) (Bytes, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return Bytes{}, fmt.Errorf("encode a request: %w", err)
	}
	return Bytes{ContentType: "application/json", Data: bytes.TrimSuffix(b.Bytes(), []byte("\n"))}, nil
}

// Form returns a URL-encoded form body.
func Form(v url.Values) Bytes {
	return Bytes{ContentType: "application/x-www-form-urlencoded", Data: []byte(v.Encode())}
}

// Type returns the content type.
func (b Bytes) Type() string { return b.ContentType }

// Size returns the number of bytes.
func (b Bytes) Size() int64 { return int64(len(b.Data)) }

// Open returns a reader for the bytes.
func (b Bytes) Open() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Data)), nil }

// File is a body with a part of a file as its content.
type File struct {
	Path     string
	Offset   int64
	Length   int64
	Progress func(done int64) // called as bytes are read; may be nil
}

// Type returns "", because the content may be of any type.
func (f File) Type() string { return "" }

// Size returns the number of bytes.
func (f File) Size() int64 { return f.Length }

// Open returns a reader for the part.
func (f File) Open() (io.ReadCloser, error) {
	file, err := durable.Open(f.Path)
	if err != nil {
		return nil, err
	}
	return &part{Reader: io.NewSectionReader(file, f.Offset, f.Length), file: file, progress: f.Progress}, nil
}

type part struct {
	io.Reader
	file     *os.File
	done     int64
	progress func(int64)
}

func (p *part) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	p.done += int64(n)
	if p.progress != nil && n > 0 {
		p.progress(p.done)
	}
	return n, err
}

func (p *part) Close() error { return p.file.Close() }
