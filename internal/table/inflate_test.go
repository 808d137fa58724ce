package table

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// TestPagesThatLie checks that a page that holds more than its header says is refused before the library allocates
// memory for it.
func TestPagesThatLie(t *testing.T) {
	const size, said = 1_000_000, 20_000
	for name, codec := range map[string]compress.Codec{
		"snappy": &parquet.Snappy,
		"gzip":   &parquet.Gzip,
		"zstd":   &parquet.Zstd,
		"brotli": &parquet.Brotli,
		"lz4":    &parquet.Lz4Raw,
	} {
		t.Run(name, func(t *testing.T) {
			for version := 1; version <= 2; version++ {
				var out bytes.Buffer
				schema := parquet.NewSchema("rows", parquet.Group{"a": parquet.String()})
				w := parquet.NewGenericWriter[any](&out, schema, parquet.Compression(codec),
					parquet.SkipPageBounds("a"), parquet.DataPageVersion(version))
				row := map[string]any{"a": strings.Repeat("x", size)}
				if _, err := w.Write([]any{row}); err != nil {
					t.Fatal(err)
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				if rows, err := readAll(out.Bytes()); err != nil || len(rows) != 1 {
					t.Fatalf("version %d: %d rows, %v", version, len(rows), err)
				}
				is, lie := varint(int64(pageSize(t, out.Bytes()))), varint(said)
				if len(is) != len(lie) {
					t.Fatalf("version %d: %v and %v", version, is, lie)
				}
				forged := bytes.Replace(out.Bytes(), is, lie, 1)
				if _, err := readAll(forged); err == nil || !strings.Contains(err.Error(), errOversizedPage.Error()) {
					t.Errorf("version %d: %v", version, err)
				}
			}
		})
	}
}

// pageSize returns the size that a file's first page claims.
func pageSize(t *testing.T, file []byte) int32 {
	t.Helper()
	r, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	at := r.file.Metadata().RowGroups[0].Columns[0].MetaData.DataPageOffset
	var h format.PageHeader
	in := new(thrift.CompactProtocol).NewReader(bytes.NewReader(file[at:]))
	if err := thrift.NewDecoder(in).Decode(&h); err != nil {
		t.Fatal(err)
	}
	return h.UncompressedPageSize
}

// varint returns a number as encoded in a page's header.
func varint(n int64) []byte { return binary.AppendVarint(nil, n) }
