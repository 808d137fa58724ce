package source

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/text/encoding/unicode"
)

func TestWithin(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"first":          {`{"data": [1, 2]}`, "[1, 2]"},
		"after others":   {`{"a": {"data": [0]}, "b": "data: [\"", "c": [["data"], {"data": [3]}], "data":[{"x": "]"}]  , "d": [4]}`, `[{"x": "]"}]`},
		"not a list":     {`{"data": "[1]", "x": {}}`, `error no list under "data"`},
		"a text before":  {`{"x": "data", "data": []}`, "[]"},
		"an escaped key": {`{"d\u0061ta": [1]}`, "[1]"},
		"cut off":        {`{"data": [1, [2`, "[1, [2"},
		"a list":         {`[1]`, `error no list under "data"`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, in := range []io.Reader{strings.NewReader(c.text), iotest.OneByteReader(strings.NewReader(c.text))} {
				file := &File{Reader: in}
				file.Within("data")
				b, err := io.ReadAll(file)
				got := string(b)
				if err != nil {
					got = "error " + err.Error()
				}
				if got != c.want {
					t.Errorf("got %q, want %q", got, c.want)
				}
			}
		})
	}
}

// TestUTF16: files from Windows programs are read as UTF-8, with or without a byte order mark.
func TestUTF16(t *testing.T) {
	const text = `{"prompt": "größer?", "response": "𝄞"}` + "\r\n"
	for name, c := range map[string]struct {
		order unicode.Endianness
		mark  unicode.BOMPolicy
	}{
		"little endian":          {unicode.LittleEndian, unicode.UseBOM},
		"big endian":             {unicode.BigEndian, unicode.UseBOM},
		"little, without a mark": {unicode.LittleEndian, unicode.IgnoreBOM},
		"big, without a mark":    {unicode.BigEndian, unicode.IgnoreBOM},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := unicode.UTF16(c.order, c.mark).NewEncoder().String(text)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "in.jsonl")
			if err := os.WriteFile(path, []byte(b), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := Open(context.Background(), path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if got, err := io.ReadAll(f); err != nil || strings.TrimPrefix(string(got), "\uFEFF") != text ||
				f.whole == "" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}
