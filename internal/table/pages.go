package table

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// valueBytes is roughly the overhead of a value in a decoded page.
const valueBytes = 8

// largest returns the decoded size of a column's dictionary plus its largest page. It decompresses each page once to
// check its declared size.
func (f *inflater) largest(in io.ReaderAt, c *format.ColumnMetaData) (int64, error) {
	begin := c.DataPageOffset
	if d := c.DictionaryPageOffset; d > 0 && d < begin {
		begin = d
	}
	if begin < 0 || c.TotalCompressedSize < 0 {
		return 0, errors.New("invalid column: outside the file")
	}
	section := io.NewSectionReader(in, begin, c.TotalCompressedSize)
	buf := bufio.NewReaderSize(section, 512)
	var dictionary, page int64
	for at := int64(0); at < section.Size(); buf.Reset(section) {
		var h format.PageHeader
		err := checkStructure(buf, maxHeader)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			_, err = section.Seek(at, io.SeekStart)
		}
		if err == nil {
			buf.Reset(section)
			err = thrift.NewDecoder(new(thrift.CompactProtocol).NewReader(buf)).Decode(&h)
		}
		if err == nil && (h.CompressedPageSize < 0 || h.UncompressedPageSize < 0) {
			err = errors.New("size is negative")
		}
		if err != nil {
			return 0, fmt.Errorf("cannot read the header of a page: %w", err)
		}
		n := max(int64(h.UncompressedPageSize), int64(h.CompressedPageSize)) + valueBytes*values(&h)
		if h.Type == format.DictionaryPage {
			dictionary = max(dictionary, n)
		} else {
			page = max(page, n)
		}
		if dictionary+page > maxHeld {
			return dictionary + page, nil // the caller rejects a column of this size
		}
		at, err = section.Seek(-int64(buf.Buffered()), io.SeekCurrent)
		if err != nil {
			return 0, err
		}
		if err := f.check(section, c.Codec, &h); err != nil {
			return 0, err
		}
		at += int64(h.CompressedPageSize)
	}
	return dictionary + page, nil
}

// values returns the number of values that a page declares.
func values(h *format.PageHeader) int64 {
	switch {
	case h.DataPageHeader.Valid:
		return max(0, int64(h.DataPageHeader.V.NumValues))
	case h.DataPageHeaderV2.Valid:
		return max(0, int64(h.DataPageHeaderV2.V.NumValues))
	case h.DictionaryPageHeader.Valid:
		return max(0, int64(h.DictionaryPageHeader.V.NumValues))
	}
	return 0
}
