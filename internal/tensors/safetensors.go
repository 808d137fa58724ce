package tensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/lists"
)

// Limits on a file. The reference implementation accepts headers of 100 MB, whose names and shapes take many times as
// much memory; a batch has a few dozen tensors.
const (
	maxHeaderBytes = 16 << 20
	maxTensors     = 100_000
	maxDims        = 16
	// maxReadBytes is the maximum number of bytes read from one tensor by Read, or from a file by ReadAll, unless
	// File.Limit is set. The limit is needed because a sparse file can claim any size.
	maxReadBytes = 8 << 30
)

// Tensor is a named array of row-major, little-endian elements.
type Tensor struct {
	Name  string
	DType DType
	Shape []int
	Data  []byte
}

// Len returns the number of elements.
func (t Tensor) Len() int { return len(t.Data) / max(1, t.DType.Size()) }

// number is a constraint for the element types of tensors.
type number interface {
	int64 | float64 | int32 | float32 | uint8
}

// Of makes a tensor from a slice, without a copy if the machine is little endian (all supported ones are). T
// determines DType: I64 for int64, F32 for float32 and so on. Of panics if the shape doesn't match the slice, which
// is a bug in the caller.
func Of[T number](name string, items []T, shape ...int) Tensor {
	var zero T
	n, ok := volume(shape)
	if !ok || n != len(items) {
		panic(fmt.Sprintf("tensor %q: shape %v for %d items", name, shape, len(items)))
	}
	return Tensor{Name: name, DType: dtypes[any(zero)], Shape: shape, Data: Bytes(items)}
}

// Bytes returns the memory of a slice, which is its little-endian encoding; see Of.
func Bytes[T number](items []T) []byte {
	var zero T
	size := int(unsafe.Sizeof(zero))
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(items))), cap(items)*size)[:len(items)*size]
}

// dtypes maps the zero values of Go types to the types of tensors.
var dtypes = map[any]DType{int64(0): Int64, float64(0): Float64, int32(0): Int32, float32(0): Float32, uint8(0): Uint8}

// volume returns the number of elements in a shape, or false if a dimension is negative or the number overflows.
func volume(shape []int) (int, bool) {
	n := 1
	for _, d := range shape {
		if d < 0 || d > 0 && n > math.MaxInt64/8/d {
			return 0, false
		}
		n *= d
	}
	return n, true
}

// Header lists a file's tensors and their positions; Write writes it first.
type Header struct {
	Metadata map[string]string
	Tensors  []Info // sorted by name
}

// Info is an entry in a header. Start and End are offsets into the data, which begins right after the header.
type Info struct {
	Name       string
	DType      DType
	Shape      []int
	Start, End int64
}

// Write writes tensors and metadata (which may be nil) as a safetensors file. The order of tensors doesn't matter: the
// same set produces the same bytes.
func Write(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	ordered := slices.Clone(tensors)
	slices.SortFunc(ordered, func(a, b Tensor) int { // wide elements come first, which keeps all of them aligned
		return cmp.Or(b.DType.Size()-a.DType.Size(), strings.Compare(a.Name, b.Name))
	})
	header, err := layout(ordered, metadata)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	return lists.Each(ordered, func(t Tensor) error { _, err := w.Write(t.Data); return err })
}

// layout returns the header for tensors whose data follows in the given order.
func layout(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	entries := map[string]any{}
	if metadata != nil {
		entries["__metadata__"] = metadata
	}
	var at int64
	for _, t := range tensors {
		n, ok := volume(t.Shape)
		switch {
		case t.DType.Size() == 0:
			return nil, fmt.Errorf("tensor %q: unknown item type %q", t.Name, t.DType)
		case !ok || n*t.DType.Size() != len(t.Data) || len(t.Shape) > maxDims:
			return nil,
				fmt.Errorf("tensor %q: %d bytes of %s don't fill shape %v", t.Name, len(t.Data), t.DType, t.Shape)
		case t.Name == "__metadata__" || !utf8.ValidString(t.Name):
			return nil, fmt.Errorf("tensor %q: invalid name", t.Name)
		case entries[t.Name] != nil:
			return nil, fmt.Errorf("duplicate tensor %q", t.Name)
		}
		end := at + int64(len(t.Data))
		entries[t.Name] = entry{t.DType, append([]int{}, t.Shape...), []int64{at, end}}
		at = end
	}
	var b bytes.Buffer
	b.Write(make([]byte, 8))
	enc := json.NewEncoder(&b) // Encode sorts the keys
	enc.SetEscapeHTML(false)
	if err := enc.Encode(entries); err != nil {
		return nil, err
	}
	b.Truncate(b.Len() - 1) // remove the line break that Encode appended
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	if b.Len()-8 > maxHeaderBytes || len(entries) > maxTensors {
		return nil, fmt.Errorf("header is too large: %d bytes for %d tensors; the limits are %d and %d", b.Len()-8, len(entries), maxHeaderBytes, maxTensors)
	}
	binary.LittleEndian.PutUint64(b.Bytes(), uint64(b.Len()-8))
	return b.Bytes(), nil
}

// File is an open safetensors file. Reads are independent of each other.
type File struct {
	Header
	Limit int64 // maximum number of bytes of a tensor for Read, and of all tensors for ReadAll; 0 means maxReadBytes
	r     io.ReaderAt
	data  int64 // offset in the file at which the data begins
	close func() error
}

// Open reads and checks the header of a file of the given size. An accepted file can be read without further checks.
func Open(r io.ReaderAt, size int64) (*File, error) {
	var prefix [8]byte
	if size < 8 {
		return nil, fmt.Errorf("not a safetensors file: %d bytes", size)
	}
	if _, err := r.ReadAt(prefix[:], 0); err != nil {
		return nil, fmt.Errorf("cannot read the header's length: %w", err)
	}
	length := binary.LittleEndian.Uint64(prefix[:])
	if length > maxHeaderBytes || int64(length) > size-8 {
		return nil, fmt.Errorf("not a safetensors file: header of %d bytes in a file of %d", length, size)
	}
	raw := make([]byte, length)
	if _, err := r.ReadAt(raw, 8); err != nil {
		return nil, fmt.Errorf("cannot read the header: %w", err)
	}
	header, err := parseHeader(raw, size-8-int64(length))
	if err != nil {
		return nil, fmt.Errorf("safetensors header: %w", err)
	}
	return &File{Header: *header, r: r, data: 8 + int64(length)}, nil
}

// OpenFile opens the safetensors file at path, which must be a regular file; see Open. Close it once its tensors are
// read.
func OpenFile(path string) (*File, error) {
	f, err := durable.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	var file *File
	if err == nil {
		file, err = Open(f, info.Size())
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	file.close = f.Close
	return file, nil
}

// Close closes the file if OpenFile opened it.
func (f *File) Close() error {
	if f.close == nil {
		return nil
	}
	return f.close()
}

// parseHeader parses the header of a file with the given number of bytes of data.
func parseHeader(raw []byte, data int64) (*Header, error) {
	if len(raw) == 0 || raw[0] != '{' || !utf8.Valid(raw) {
		return nil, fmt.Errorf("not a JSON object")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	h := &Header{}
	seen := map[string]bool{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, ok := key.(string)
		if !ok || seen[name] {
			return nil, fmt.Errorf("duplicate key %v", key)
		}
		seen[name] = true
		if len(seen) > maxTensors {
			return nil, fmt.Errorf("more than %d tensors", maxTensors)
		}
		if name == "__metadata__" {
			if err := dec.Decode(&h.Metadata); err != nil {
				return nil, fmt.Errorf("__metadata__: %w", err)
			}
			continue
		}
		info, err := parseInfo(dec, name)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		h.Tensors = append(h.Tensors, info)
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if rest := bytes.TrimRight(raw[dec.InputOffset():], " "); len(rest) > 0 {
		return nil, fmt.Errorf("unexpected %d bytes after the object", len(rest))
	}
	return h, h.checkCover(data)
}

// entry describes a tensor in a header.
type entry struct {
	DType   DType   `json:"dtype"`
	Shape   []int   `json:"shape"`
	Offsets []int64 `json:"data_offsets"`
}

func parseInfo(dec *json.Decoder, name string) (Info, error) {
	var entry entry
	if err := dec.Decode(&entry); err != nil {
		return Info{}, err
	}
	size := entry.DType.Size()
	if size == 0 {
		return Info{}, fmt.Errorf("unknown item type %q", entry.DType)
	}
	if entry.Shape == nil || len(entry.Shape) > maxDims || len(entry.Offsets) != 2 {
		return Info{}, fmt.Errorf("expected a shape of at most %d dimensions and two data_offsets", maxDims)
	}
	n, ok := volume(entry.Shape)
	start, end := entry.Offsets[0], entry.Offsets[1]
	if !ok || start < 0 || end < start || end-start != int64(n)*int64(size) {
		return Info{}, fmt.Errorf("data_offsets %v do not match %s of shape %v",
			entry.Offsets, entry.DType, entry.Shape)
	}
	return Info{name, entry.DType, entry.Shape, start, end}, nil
}

// checkCover checks that the tensors fill the data exactly, in some order.
func (h *Header) checkCover(data int64) error {
	slices.SortFunc(h.Tensors, func(a, b Info) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	})
	var at int64
	for _, t := range h.Tensors {
		if t.Start != at {
			return fmt.Errorf("tensor %q begins at %d, but the previous one ends at %d", t.Name, t.Start, at)
		}
		at = t.End
	}
	if at != data {
		return fmt.Errorf("unexpected size: tensors have %d bytes, the file has %d", at, data)
	}
	slices.SortFunc(h.Tensors, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// Lookup finds a tensor by name.
func (h *Header) Lookup(name string) (Info, bool) {
	i, ok := slices.BinarySearchFunc(h.Tensors, name, func(t Info, name string) int {
		return strings.Compare(t.Name, name)
	})
	if !ok {
		return Info{}, false
	}
	return h.Tensors[i], true
}

// Read reads one tensor.
func (f *File) Read(name string) (Tensor, error) {
	info, ok := f.Lookup(name)
	if !ok {
		return Tensor{}, fmt.Errorf("no tensor %q in the file", name)
	}
	if err := f.limit(info.End-info.Start, fmt.Sprintf("tensor %q has", name)); err != nil {
		return Tensor{}, err
	}
	data := alignedBytes(int(info.End - info.Start))
	if _, err := f.r.ReadAt(data, f.data+info.Start); err != nil && !(err == io.EOF && len(data) == 0) {
		return Tensor{}, fmt.Errorf("reading tensor %q: %w", name, err)
	}
	return Tensor{info.Name, info.DType, info.Shape, data}, nil
}

// limit returns an error if a read of the given size would exceed the limit.
func (f *File) limit(bytes int64, what string) error {
	limit := cmp.Or(f.Limit, maxReadBytes)
	if bytes > limit {
		return fmt.Errorf("%s %d bytes; at most %d are read", what, bytes, limit)
	}
	return nil
}

// ReadAll reads all tensors and returns them sorted by name.
func (f *File) ReadAll() ([]Tensor, error) {
	var bytes int64
	for _, info := range f.Tensors {
		bytes += info.End - info.Start
	}
	if err := f.limit(bytes, "the tensors have"); err != nil {
		return nil, err
	}
	tensors := make([]Tensor, 0, len(f.Tensors))
	for _, info := range f.Tensors {
		t, err := f.Read(info.Name)
		if err != nil {
			return nil, err
		}
		tensors = append(tensors, t)
	}
	return tensors, nil
}

// alignedBytes returns n bytes at an address that is aligned for every element type.
func alignedBytes(n int) []byte {
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)[:n:n]
}

// Items returns a tensor's elements. The tensor's type must match T: I64 for int64 and so on.
func Items[T number](t Tensor) ([]T, error) {
	var zero T
	if want := dtypes[any(zero)]; t.DType != want {
		return nil, fmt.Errorf("tensor %q: expected %[3]s, got %[2]s", t.Name, t.DType, want)
	}
	if len(t.Data) == 0 {
		return nil, nil
	}
	if uintptr(unsafe.Pointer(unsafe.SliceData(t.Data)))%unsafe.Alignof(zero) != 0 {
		aligned := alignedBytes(len(t.Data))
		copy(aligned, t.Data)
		t.Data = aligned
	}
	size := int(unsafe.Sizeof(zero))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(t.Data))), cap(t.Data)/size)[:t.Len()], nil
}

// Floats returns the elements of a tensor of any numeric type as float64.
func Floats(t Tensor) ([]float64, error) {
	out := make([]float64, t.Len())
	for i := range out {
		switch b := t.Data[i*t.DType.Size():]; t.DType {
		case Float64:
			out[i] = math.Float64frombits(binary.LittleEndian.Uint64(b))
		case Float32:
			out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
		case Float16:
			out[i] = float64(Float16Value(binary.LittleEndian.Uint16(b)))
		case BFloat16:
			out[i] = float64(BFloat16Value(binary.LittleEndian.Uint16(b)))
		case Int64:
			out[i] = float64(int64(binary.LittleEndian.Uint64(b)))
		case Int32:
			out[i] = float64(int32(binary.LittleEndian.Uint32(b)))
		case Uint8, Bool:
			out[i] = float64(b[0])
		default:
			return nil, fmt.Errorf("tensor %q: unknown item type %q", t.Name, t.DType)
		}
	}
	return out, nil
}

// Bits returns the bit patterns of an F16 or BF16 tensor.
func Bits(t Tensor) ([]uint16, error) {
	if t.DType.Size() != 2 {
		return nil, fmt.Errorf("tensor %q holds %s, not F16 or BF16", t.Name, t.DType)
	}
	bits := make([]uint16, t.Len())
	for i := range bits {
		bits[i] = binary.LittleEndian.Uint16(t.Data[2*i:])
	}
	return bits, nil
}
