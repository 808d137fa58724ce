package overlap

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/lines"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source"
)

// Limits, in bytes, on the parts of a benchmark that are read at a time.
const (
	maxValue     = 64 << 20 // size of a JSON value
	maxLine      = 1 << 20
	maxParagraph = 1 << 20
)

// Read adds the text in a file. It adds every string in JSON or in a table, and every line and paragraph in other
// files. A file with the extension .txt is always read as lines.
func (x *Index) Read(ctx context.Context, path string) error {
	if strings.HasSuffix(strings.ToLower(path), ".txt") { // the first line may look like CSV or JSON
		in, err := durable.Open(path)
		if err != nil {
			return err
		}
		defer in.Close()
		return x.lines(in, path)
	}
	if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		return fmt.Errorf("%s: expected a file that can be read again, got a pipe", path)
	}
	in, err := source.Open(ctx, path)
	if err != nil {
		return err
	}
	defer in.Close()
	text := bufio.NewReader(in)
	head, err := text.Peek(1 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", path, err)
	}
	if start := strings.TrimLeft(strings.TrimPrefix(string(head), "\uFEFF"), " \t\r\n"); start != "" &&
		strings.ContainsRune("{[", rune(start[0])) {
		return x.values(text, path)
	}
	return x.lines(text, path)
}

func (x *Index) values(in io.Reader, path string) error {
	r := json.NewReader(in, json.Auto, json.Limits{Size: maxValue})
	for {
		v, _, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		Texts(v, func(text string) { x.Add(text, Place{path, r.Line()}) })
	}
}

// Texts calls f for each string in a JSON value.
func Texts(v json.Raw, f func(text string)) {
	switch v.Kind() {
	case json.String:
		text, _ := v.Text()
		f(text)
	case json.Array:
		for e := range v.Elements() {
			Texts(e, f)
		}
	case json.Object:
		for _, e := range v.Members() {
			Texts(e, f)
		}
	}
}

// lines adds each line of a file, and each paragraph after its last line. A run within a single line is located at that
// line, and a run that spans several lines is located at the paragraph's first line.
func (x *Index) lines(in io.Reader, path string) error {
	var paragraph []byte
	at, first := Place{File: path}, int64(1)
	for line, err := range lines.Read(in, maxLine) {
		at.Line++
		if err != nil {
			return fmt.Errorf("%s:%d: %w", path, at.Line, err)
		}
		if !utf8.Valid(line) {
			return fmt.Errorf("%s:%d: expected text in UTF-8", path, at.Line)
		}
		if blank := strings.TrimSpace(string(line)) == ""; blank || len(paragraph)+len(line) > maxParagraph {
			x.Add(string(paragraph), Place{path, first})
			paragraph, first = paragraph[:0], at.Line
			if blank {
				first++
				continue
			}
		}
		x.Add(string(line), at)
		paragraph = append(append(paragraph, line...), '\n')
	}
	x.Add(string(paragraph), Place{path, first})
	return nil
}
