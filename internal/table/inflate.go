package table

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// inflater checks, before the library decompresses a page, that it doesn't decompress to more than its header
// declares. The library sizes its buffer by the compressed data and, for damaged LZ4 data, repeatedly doubles it.
type inflater struct {
	page bytes.Buffer // the compressed page
	out  []byte
	zstd *zstd.Decoder
}

var errOversizedPage = errors.New("invalid page: larger than declared")

// check reads a page and rejects it if it holds more than its header declares.
func (f *inflater) check(in io.Reader, codec format.CompressionCodec, h *format.PageHeader) error {
	f.page.Reset()
	n, err := f.page.ReadFrom(io.LimitReader(in, int64(h.CompressedPageSize)))
	if err == nil && n < int64(h.CompressedPageSize) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	data, size := f.page.Bytes(), int64(h.UncompressedPageSize)
	if h.DataPageHeaderV2.Valid { // the levels of a page aren't compressed
		v2 := &h.DataPageHeaderV2.V
		levels := int64(v2.RepetitionLevelsByteLength) + int64(v2.DefinitionLevelsByteLength)
		if v2.RepetitionLevelsByteLength < 0 || v2.DefinitionLevelsByteLength < 0 || levels > min(n, size) {
			return errors.New("invalid page: the levels have a negative length, or are longer than the page")
		}
		if v2.IsCompressed.Valid && !v2.IsCompressed.V {
			return nil
		}
		data, size = data[levels:], size-levels
	}
	if len(data) == 0 {
		return nil
	}
	return f.inflate(codec, data, size)
}

// inflate checks that data decompresses to at most size bytes.
func (f *inflater) inflate(codec format.CompressionCodec, data []byte, size int64) (err error) {
	var r io.Reader
	switch codec {
	case format.Snappy:
		if n, err := snappy.DecodedLen(data); err != nil || int64(n) > size {
			return errOversizedPage
		}
	case format.Lz4Raw:
		if f.out = f.out[:cap(f.out)]; int64(len(f.out)) < size {
			f.out = make([]byte, size)
		}
		if _, err := lz4.UncompressBlock(data, f.out[:size]); err != nil {
			return errOversizedPage
		}
	case format.Gzip:
		r, err = gzip.NewReader(bytes.NewReader(data))
	case format.Zstd:
		err = f.resetZstd(data)
		r = f.zstd
	case format.Brotli:
		r = brotli.NewReader(bytes.NewReader(data))
	}
	var n int64
	if err == nil && r != nil {
		n, err = io.Copy(io.Discard, io.LimitReader(r, size+1))
	}
	if err != nil {
		return fmt.Errorf("cannot decompress a page: %w", err)
	}
	if n > size {
		return errOversizedPage
	}
	return nil
}

func (f *inflater) resetZstd(data []byte) (err error) {
	if f.zstd == nil {
		f.zstd, err = zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxHeld))
		return err
	}
	return f.zstd.Reset(bytes.NewReader(data))
}

func (f *inflater) close() {
	if f.zstd != nil {
		f.zstd.Close()
	}
}
