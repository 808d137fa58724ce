package tables

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nat-go/nat-go/ttc/json"
)

// maxRecord is the maximum size of a CSV row, in bytes. Without a limit, an unclosed quote would turn the rest of the
// file into one row.
const maxRecord = 32 << 20

// IsCSV reports whether a file is CSV, with any separator, judging by its name and first bytes.
func IsCSV(path string, head []byte) bool {
	head = bytes.TrimPrefix(head, []byte("\xEF\xBB\xBF"))
	start := bytes.TrimLeft(head, " \t\r\n")
	if len(start) == 0 || start[0] == '{' || start[0] == '[' || !utf8.Valid(head[:max(0, len(head)-utf8.UTFMax)]) {
		return false
	}
	name := strings.ToLower(path)
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")
	switch filepath.Ext(name) {
	case ".csv", ".tsv":
		return true
	case "", ".txt": // standard input and pipes have no extension
		return headed(start)
	}
	return false
}

// headed reports whether the first line looks like column names.
func headed(b []byte) bool {
	line, _, whole := bytes.Cut(b, []byte("\n"))
	isSeparator := func(r rune) bool { return strings.ContainsRune(separators, r) }
	names := strings.FieldsFunc(strings.TrimRight(string(line), "\r"), isSeparator)
	return whole && len(names) > 1 && !slices.ContainsFunc(names, func(name string) bool {
		name = strings.Trim(name, `"`)
		return name == "" || strings.ContainsFunc(name, func(r rune) bool {
			return !strings.ContainsRune("_- .", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
		})
	})
}

// csvReader reads CSV as JSON lines.
type csvReader struct {
	in    *guard
	rows  *csv.Reader
	names [][]byte // keys as JSON, each with its colon
	n     int      // number of records read
}

// guard stops reading if a record is too large.
type guard struct {
	in   io.Reader
	left int
}

var errRecord = fmt.Errorf("row is larger than %d MiB: is a quote left open?", maxRecord>>20)

func (g *guard) Read(p []byte) (int, error) {
	if g.left <= 0 {
		return 0, errRecord
	}
	n, err := g.in.Read(p[:min(len(p), g.left)])
	g.left -= n
	return n, err
}

// CSV reads values separated by commas, tabs, semicolons or bars, whose first row names the columns, as JSON lines.
func CSV(in io.Reader) io.Reader {
	r := &csvReader{in: &guard{in: in, left: maxRecord}}
	head := make([]byte, 4096)
	n, err := io.ReadFull(in, head)
	head = bytes.TrimPrefix(head[:n], []byte("\xEF\xBB\xBF"))
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	r.in.in = io.MultiReader(bytes.NewReader(head), in)
	r.rows = csv.NewReader(r.in)
	r.rows.Comma = separator(head)
	r.rows.ReuseRecord = true
	return &lineReader{next: r.next, err: err}
}

// separators lists the characters that may separate a file's columns.
const separators = ",\t;|"

// separator returns the separator that occurs most often in the first line.
func separator(head []byte) rune {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	best, most := ',', 0
	for _, sep := range separators {
		if n := bytes.Count(line, []byte(string(sep))); n > most {
			best, most = sep, n
		}
	}
	return best
}

// next appends the line for the next record.
func (r *csvReader) next(line []byte) ([]byte, error) {
	r.in.left = maxRecord
	record, err := r.rows.Read()
	if wrong, ok := errors.AsType[*csv.ParseError](err); ok {
		return nil, fmt.Errorf("line %d of the CSV: %w", wrong.Line, wrong.Err)
	}
	if err != nil {
		return nil, err
	}
	if r.n++; r.n == 1 {
		for i, name := range record {
			if name = strings.TrimSpace(name); name == "" {
				name = fmt.Sprintf("column_%d", i+1)
			}
			r.names = append(r.names, append(json.AppendString(nil, strings.ToValidUTF8(name, "\uFFFD")), ':'))
		}
		return nil, nil
	}
	line = append(line, '{')
	for i, cell := range record {
		if cell == "" || i >= len(r.names) {
			continue
		}
		line = json.AppendString(append(json.AppendComma(line), r.names[i]...), strings.ToValidUTF8(cell, "\uFFFD"))
	}
	return append(line, '}', '\n'), nil
}
