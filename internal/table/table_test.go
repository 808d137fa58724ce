package table

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
)

// written returns a file of rows with these columns, compressed.
func written(t *testing.T, schema parquet.Group, rows ...map[string]any) []byte {
	t.Helper()
	var out bytes.Buffer
	compressed, short := parquet.Compression(&parquet.Zstd), parquet.SkipPageBounds("a")
	w := parquet.NewGenericWriter[any](&out, parquet.NewSchema("rows", schema), compressed, short)
	for _, row := range rows {
		if _, err := w.Write([]any{row}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func readAll(file []byte) (rows []any, err error) {
	r, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
		rows = append(rows, row)
	}
}

func TestRows(t *testing.T) {
	schema := parquet.Group{
		"text": parquet.Optional(parquet.String()), "list": parquet.List(parquet.Int(64)),
		"pairs": parquet.List(parquet.Group{"a": parquet.String(), "b": parquet.Optional(parquet.Int(32))}),
	}
	var rows []map[string]any
	var want []any
	for i := range 500 { // more than one buffer of values
		row := map[string]any{"text": nil, "list": []any{}, "pairs": []any{}}
		if i%3 > 0 {
			row["text"] = fmt.Sprint("t", i)
		}
		for j := range i % 130 {
			row["list"] = append(row["list"].([]any), int64(j))
			row["pairs"] = append(row["pairs"].([]any), map[string]any{"a": fmt.Sprint(j), "b": int32(j + 1)})
		}
		rows, want = append(rows, row), append(want, row)
	}
	got, err := readAll(written(t, schema, rows...))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

// TestSkip checks that the rows skipped are the ones that come first, wherever their groups end.
func TestSkip(t *testing.T) {
	var out bytes.Buffer
	schema := parquet.NewSchema("rows", parquet.Group{"n": parquet.Int(64), "list": parquet.List(parquet.Int(64))})
	w := parquet.NewGenericWriter[any](&out, schema)
	for i := range 25 {
		row := map[string]any{"n": int64(i + 1), "list": slice(i % 4)}
		if _, err := w.Write([]any{row}); err != nil {
			t.Fatal(err)
		}
		if i%10 == 9 {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for skip := range int64(30) {
		r, err := Open(bytes.NewReader(out.Bytes()), int64(out.Len()))
		if err != nil {
			t.Fatal(err)
		}
		r.Skip(skip)
		n := skip
		for ; ; n++ {
			row, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || row.(map[string]any)["n"] != n+1 || len(row.(map[string]any)["list"].([]any)) != int(n%4) {
				t.Fatalf("after %d, row %d: %v, %v", skip, n, row, err)
			}
		}
		if n != max(skip, 25) {
			t.Errorf("after %d the last row is %d", skip, n)
		}
	}
}

// TestLimits checks that anything that asks for too much is refused.
func TestLimits(t *testing.T) {
	text := parquet.Group{"a": parquet.String()}
	repeated := parquet.Group{"a": parquet.Encoded(parquet.String(), &parquet.RLEDictionary)} // one text, many rows
	row := func(a string) map[string]any { return map[string]any{"a": a} }
	many := parquet.Group{}
	wide := map[string]any{}
	for i := range maxColumns + 1 {
		many[fmt.Sprint("c", i)], wide[fmt.Sprint("c", i)] = parquet.Int(64), int64(1)
	}
	large := strings.Repeat("x", maxRow+1)
	for name, c := range map[string]struct {
		file []byte
		says string
	}{
		"row":     {written(t, text, row(large)), "more than 32 MiB"},
		"page":    {written(t, text, row(strings.Repeat("x", maxHeld))), "has more than"},
		"repeats": {written(t, repeated, row(large), row(large), row(large), row(large)), "more than 32 MiB"},
		"values": {
			written(t, parquet.Group{"a": parquet.List(parquet.Int(64))},
				map[string]any{"a": make([]any, 0)}, map[string]any{"a": slice(maxValues + 1)}),
			"row 2: the row has more than",
		},
		"columns": {written(t, many, wide), "1025 columns"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := readAll(c.file); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: got %v, want %q", name, err, c.says)
			}
		})
	}
}

func slice(n int) (all []any) {
	for range n {
		all = append(all, int64(7))
	}
	return all
}

// TestGrowth checks that a file is given up whose rows are larger than it could hold by far: a text that all rows
// repeat.
func TestGrowth(t *testing.T) {
	file := written(t, parquet.Group{"a": parquet.String()}, map[string]any{"a": "xxxx"}, map[string]any{"a": "xxxx"})
	r, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	if want := maxGrown + maxGrowth*int64(len(file)); r.left != want {
		t.Errorf("rows may have %d bytes, want %d", r.left, want)
	}
	r.left = 7
	if _, err := r.Next(); err != nil {
		t.Error(err)
	}
	var limit *LimitError
	if _, err := r.Next(); !errors.As(err, &limit) || !strings.Contains(err.Error(), "times as large as the file") {
		t.Error(err)
	}
}

// TestDamaged checks that whatever is wrong with a file leads to an error or other rows, never a panic.
func TestDamaged(t *testing.T) {
	whole := written(t, parquet.Group{"a": parquet.String()}, map[string]any{"a": "x"}, map[string]any{"a": "y"})
	for at := range whole {
		for _, bit := range []byte{1, 0x55, 0x80} {
			damaged := bytes.Clone(whole)
			damaged[at] ^= bit
			if _, err := readAll(damaged); err != nil && strings.Contains(err.Error(), "runtime error") {
				t.Errorf("byte %d with %#x: %v", at, bit, err)
			}
		}
		_, _ = readAll(whole[:at])
	}
	if _, err := func() (_ any, err error) {
		defer recovered(&err)
		return []int{}[len(whole)], nil
	}(); err == nil || strings.Contains(err.Error(), "runtime error") || !strings.Contains(err.Error(), "offset") {
		t.Errorf("a panic of the runtime: %v", err)
	}
}
