package otlp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

var zstdMagic = []byte{0x28, 0xB5, 0x2F, 0xFD}

// resourceTag is the tag that an export request begins with: its first field, with wire type bytes.
const resourceTag = 1<<3 | byte(protowire.BytesType)

// framed reports whether a file consists of requests that are each preceded by their length in four bytes, as written
// by a collector. Each request may be compressed individually.
func framed(head []byte) bool {
	if len(head) < 8 {
		return false
	}
	n := binary.BigEndian.Uint32(head)
	return n > 1 && n <= 1<<30 && (head[4] == resourceTag || bytes.HasPrefix(head[4:], zstdMagic))
}

// protobuf reads a protobuf file: length-prefixed requests, or a single bare request.
func (r *reader) protobuf(ctx context.Context, in *bufio.Reader) error {
	head, _ := in.Peek(8)
	var offset int64
	next := r.field
	if framed(head) {
		next = r.frame
	} else if len(head) == 0 || head[0] != resourceTag {
		return nil // empty, or of another format
	}
	for r.err == nil {
		record, size, err := next(in)
		var tooLong *longRecordError
		switch {
		case errors.Is(err, io.EOF), err == nil && r.tally.Enough(offset):
			return nil
		case errors.As(err, &tooLong):
			r.tally.DropLine(r.path, offset, err.Error())
		case err != nil && !errors.Is(err, errRecord):
			r.tally.DropLine(r.path, offset, fmt.Sprintf("cannot read the rest of the file: %v", err))
			return ctx.Err()
		case err != nil || !r.resources(record, offset):
			r.tally.DropLine(r.path, offset, "the record is not an export request")
		}
		offset += size
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

var errRecord = errors.New("cannot decompress the record")

// longRecordError reports that a record exceeds the maximum line length.
type longRecordError struct{ size, limit int64 }

func (e *longRecordError) Error() string {
	return fmt.Sprintf("the record has %d bytes; the limit is %d", e.size, e.limit)
}

// frame reads a length-prefixed request.
func (r *reader) frame(in *bufio.Reader) (record []byte, size int64, err error) {
	var length [4]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		return nil, 0, err
	}
	n := int64(binary.BigEndian.Uint32(length[:]))
	record, err = r.bytes(in, n)
	if err == nil && bytes.HasPrefix(record, zstdMagic) {
		record, err = r.decompress(record)
	}
	return record, n + 4, err
}

// field reads one field of a file that is a single request, and returns it as a separate request.
func (r *reader) field(in *bufio.Reader) (record []byte, size int64, err error) {
	tag, err := in.ReadByte()
	if err != nil {
		return nil, 0, err
	}
	if tag != resourceTag {
		return nil, 0, fmt.Errorf("expected a resource, got the byte %#x", tag)
	}
	n, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, 0, io.ErrUnexpectedEOF
	}
	record = protowire.AppendVarint([]byte{resourceTag}, n)
	size = int64(len(record)) + int64(min(n, 1<<62))
	body, err := r.bytes(in, int64(min(n, 1<<62)))
	return append(record, body...), size, err
}

// bytes reads the given number of bytes, if available. It doesn't allocate the full stated length in advance.
func (r *reader) bytes(in *bufio.Reader, n int64) ([]byte, error) {
	if n > r.limits.MaxLine {
		if _, err := io.CopyN(io.Discard, in, n); err != nil {
			return nil, io.ErrUnexpectedEOF
		}
		return nil, &longRecordError{n, r.limits.MaxLine}
	}
	var b bytes.Buffer
	if _, err := io.CopyN(&b, in, n); errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	} else if err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// decompress returns the content of a compressed record.
func (r *reader) decompress(record []byte) ([]byte, error) {
	b, err := unpack(record, r.limits.MaxLine+1)
	if err != nil {
		return nil, errRecord
	}
	if int64(len(b)) > r.limits.MaxLine {
		return nil, &longRecordError{int64(len(b)), r.limits.MaxLine}
	}
	return b, nil
}

// unpack returns up to limit bytes of a compressed record's content, including the bytes before an error.
func unpack(record []byte, limit int64) ([]byte, error) {
	d, err := zstd.NewReader(bytes.NewReader(record), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return io.ReadAll(io.LimitReader(d, limit))
}

// fields passes the fields of a message to the given function, until a call returns false. It reports whether the
// message is intact up to that point.
func fields(b []byte, each func(num protowire.Number, typ protowire.Type, value []byte) bool) bool {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		b = b[n:]
		n = protowire.ConsumeFieldValue(num, typ, b)
		if n < 0 {
			return false
		}
		value := b[:n]
		if typ == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(b)
		}
		if !each(num, typ, value) {
			return true
		}
		b = b[n:]
	}
	return true
}

// below passes the messages in one of a message's fields to the given function.
func below(b []byte, field protowire.Number, each func([]byte) bool) bool {
	whole := true
	ok := fields(b, func(num protowire.Number, typ protowire.Type, value []byte) bool {
		if num == field && typ == protowire.BytesType {
			whole = each(value) && whole
		}
		return true
	})
	return ok && whole
}

// resources stores a request's items. Spans and log records have the same field numbers; kindOf distinguishes them.
func (r *reader) resources(record []byte, offset int64) bool {
	return below(record, 1, func(resource []byte) bool {
		return below(resource, 2, func(scope []byte) bool {
			r.scope = instrumentation(scope)
			return below(scope, 2, func(item []byte) bool {
				kind, ok := kindOf(item)
				if !ok {
					r.tally.CountUnread("records that are neither spans nor log records", 1)
					return true
				}
				r.known = true
				return r.item(item, kind, offset)
			})
		})
	})
}

// item stores an item. It reports whether the item is intact.
func (r *reader) item(item []byte, kind byte, offset int64) bool {
	of := logShape
	if kind == spanItem {
		of = spanShape
	}
	t := &transcoder{most: r.limits.MaxSession, objects: r.limits.MaxObjects}
	b, ok := t.item(item, of)
	switch {
	case ok:
		r.keep(kind, b, offset)
	case !t.full:
		return false
	case isModelItem(item):
		if trace := traceOf(item, kind); trace != "" && r.err == nil {
			r.err = r.store.Add(trace, []byte{largeItem}, offset)
		}
	case kind == spanItem:
		t = &transcoder{most: r.limits.MaxSession, objects: r.limits.MaxObjects}
		if b, ok = t.item(item, placeShape); ok {
			r.keep(kind, b, offset)
		}
	}
	return true
}

// traceOf returns the id of an item's trace.
func traceOf(item []byte, kind byte) (trace string) {
	field := protowire.Number(1)
	if kind == logItem {
		field = 9
	}
	fields(item, func(num protowire.Number, typ protowire.Type, value []byte) bool {
		if num == field && typ == protowire.BytesType && len(value) == traceBytes {
			trace = hex.EncodeToString(value)
		}
		return trace == ""
	})
	return trace
}

// instrumentation returns the instrumentation that wrote a scope's items.
func instrumentation(scope []byte) source.Version {
	var name, version []byte
	below(scope, 1, func(about []byte) bool {
		below(about, 1, func(v []byte) bool { name = v; return true })
		below(about, 2, func(v []byte) bool { version = v; return true })
		return true
	})
	return scopeOf(string(name), string(version))
}

// kindOf returns the kind of an item. A span begins with the id of its trace, and a log record begins with a time.
func kindOf(item []byte) (kind byte, ok bool) {
	fields(item, func(num protowire.Number, typ protowire.Type, value []byte) bool {
		switch {
		case num == 1 && typ == protowire.BytesType && len(value) == traceBytes:
			kind, ok = spanItem, true
		case num == 1 && typ == protowire.Fixed64Type, num == 11 && typ == protowire.Fixed64Type:
			kind, ok = logItem, true
		default:
			return num != 1 // field 1 of a metric is its name
		}
		return false
	})
	return kind, ok
}

// looksLikeProtobuf reports whether a file begins with an export request in protobuf.
func looksLikeProtobuf(head []byte) bool {
	if framed(head) {
		n := min(int(binary.BigEndian.Uint32(head)), len(head)-4)
		head = head[4 : 4+n]
		if bytes.HasPrefix(head, zstdMagic) {
			head, _ = unpack(head, 1<<20)
		}
	}
	for _, field := range []protowire.Number{1, 2, 2} {
		if head = firstBelow(head, field); head == nil {
			return false
		}
	}
	_, ok := kindOf(head)
	return ok
}

// firstBelow returns the first message in a field, or the available part of it.
func firstBelow(b []byte, field protowire.Number) []byte {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 || typ != protowire.BytesType {
			return nil
		}
		size, m := protowire.ConsumeVarint(b[n:])
		if m < 0 {
			return nil
		}
		b = b[n+m:]
		if num == field {
			return b[:min(uint64(len(b)), size)]
		}
		if size > uint64(len(b)) {
			return nil
		}
		b = b[size:]
	}
	return nil
}
