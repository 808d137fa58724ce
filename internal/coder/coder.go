package coder

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"unsafe"

	"github.com/nat-go/nat-go/internal/tensors"
)

// Coder writes values to Buf or reads them from it. Its methods, and the package's functions for types with several
// underlying types, take pointers and work in both directions.
//
// When reading, a Coder keeps the first error. Strings and bytes share Buf's memory, except for names read by Kept,
// which are copied.
type Coder struct {
	Buf     []byte
	Lists   int64 // memory that the written lists will need when they are read back
	Reading bool
	Err     error
	Room    *int64 // memory that the remaining lists may take when reading

	at int // position of the next byte to read; reslicing Buf for every value would be slower
}

// Reader returns a Coder that reads b, whose lists may take room bytes of memory. Without lists, room may be nil.
func Reader(b []byte, room *int64) Coder { return Coder{Buf: b, Reading: true, Room: room} }

// ErrShort is the error for a value that continues after the end of the data.
var ErrShort = errors.New("unexpected end of a frame inside a value")

// Fail sets Err to ErrShort, unless another error is set, and ends reading.
func (c *Coder) Fail() {
	if c.Err == nil {
		c.Err = ErrShort
	}
	c.at = len(c.Buf)
}

// Left returns the number of unread bytes.
func (c *Coder) Left() int { return len(c.Buf) - c.at }

// Append writes a varint.
func (c *Coder) Append(v uint64) { c.Buf = binary.AppendUvarint(c.Buf, v) }

// Next reads a varint.
func (c *Coder) Next() uint64 {
	if c.at < len(c.Buf) && c.Buf[c.at] < 0x80 { // nearly all values take a single byte
		c.at++
		return uint64(c.Buf[c.at-1])
	}
	v, n := binary.Uvarint(c.Buf[c.at:])
	if n <= 0 {
		c.Fail()
		return 0
	}
	c.at += n
	return v
}

// Take reads n bytes. If fewer are left, it fails and returns nil.
func (c *Coder) Take(n uint64) []byte {
	if n > uint64(c.Left()) {
		c.Fail()
		return nil
	}
	from := c.at
	c.at += int(n)
	return c.Buf[from:c.at:c.at]
}

// Natural codes a number that is never negative. When reading, a number that T can't hold is an error, except that a
// forged 64-bit number may become negative.
func Natural[T ~int | ~int32 | ~int64 | ~uint16 | ~uint32 | ~uint64](c *Coder, v *T) {
	if !c.Reading {
		c.Append(uint64(*v))
		return
	}
	n := c.Next()
	if *v = T(n); uint64(*v) != n {
		c.failRange()
	}
}

// Integer codes a number that may be negative. When reading, a number that T can't hold is an error.
func Integer[T ~int | ~int32 | ~int64](c *Coder, v *T) {
	if !c.Reading {
		c.Buf = binary.AppendVarint(c.Buf, int64(*v))
		return
	}
	u := c.Next()
	n := int64(u>>1) ^ -int64(u&1)
	if *v = T(n); int64(*v) != n {
		c.failRange()
	}
}

func (c *Coder) failRange() {
	if c.Err == nil {
		c.Err = errRange
	}
	c.Fail()
}

var errRange = errors.New("number out of range")

// Octet codes a single byte.
func Octet[T ~uint8](c *Coder, v *T) {
	switch {
	case !c.Reading:
		c.Buf = append(c.Buf, byte(*v))
	case c.at == len(c.Buf):
		c.Fail()
		*v = 0
	default:
		*v = T(c.Buf[c.at])
		c.at++
	}
}

// Bool codes a boolean as one byte.
func (c *Coder) Bool(v *bool) {
	var b byte
	if *v {
		b = 1
	}
	if Octet(c, &b); c.Reading {
		*v = b != 0
	}
}

// Float codes a float as eight bytes.
func (c *Coder) Float(v *float64) {
	if !c.Reading {
		c.Buf = binary.LittleEndian.AppendUint64(c.Buf, math.Float64bits(*v))
		return
	}
	*v = 0
	if b := c.Take(8); b != nil {
		*v = math.Float64frombits(binary.LittleEndian.Uint64(b))
	}
}

// Optional codes whether *p is non-nil, and reports whether the caller must code the value. When reading, it sets *p to
// a new zero value or to nil.
func Optional[T any](c *Coder, p **T) bool {
	there := *p != nil
	if c.Bool(&there); c.Reading {
		*p = nil
		if there {
			*p = new(T)
		}
	}
	return there
}

// String codes a string.
func (c *Coder) String(s *string) {
	if c.Reading {
		*s = ViewString(c.Take(c.Next()))
		return
	}
	c.Append(uint64(len(*s)))
	c.Buf = append(c.Buf, *s...)
}

// Kept is like String, for names that outlive Buf. When reading, it copies the name unless s already contains the same
// name from an earlier value, which is usually the case.
func (c *Coder) Kept(s *string) {
	now := *s
	if c.String(&now); *s != now {
		*s = strings.Clone(now)
	}
}

// Same codes a string that usually equals the previous one. An equal string is coded as 0.
func (c *Coder) Same(s, last *string) {
	switch {
	case c.Reading:
		if n := c.Next(); n > 0 {
			*last = ViewString(c.Take(n - 1))
		}
		*s = *last
	case *s == *last:
		c.Append(0)
	default:
		*last = *s
		c.Append(uint64(len(*s)) + 1)
		c.Buf = append(c.Buf, *s...)
	}
}

// Raw codes bytes, and distinguishes nil from empty.
func Raw[B ~[]byte](c *Coder, b *B) {
	switch {
	case c.Reading:
		*b = nil
		if n := c.Next(); n > 0 {
			*b = c.Take(n - 1)
		}
	case *b == nil:
		c.Append(0)
	default:
		c.Append(uint64(len(*b)) + 1)
		c.Buf = append(c.Buf, *b...)
	}
}

// List codes the length of a list, and returns the entries for the caller to code. When reading, the entries are zero
// values to read into, and an empty list is nil.
func List[E any](c *Coder, all *[]E) []E {
	if n := Length[E](c, len(*all)); c.Reading {
		*all = nil
		if n > 0 {
			*all = make([]E, n)
		}
	}
	return *all
}

// NotNil is like List, but for lists that are never nil.
func NotNil[E any](c *Coder, all *[]E) []E {
	if List(c, all); c.Reading && *all == nil {
		*all = []E{}
	}
	return *all
}

// Reused is like List, but reads into the memory of the list in all, so entries may still contain old values.
func Reused[E any](c *Coder, all *[]E) []E {
	if n := Length[E](c, len(*all)); c.Reading {
		*all = slices.Grow((*all)[:0], n)[:n]
	}
	return *all
}

// Length codes the length of a list of E. When reading, the length must not exceed the number of unread bytes, because
// each entry takes at least one byte. Since an entry may take hundreds of bytes in memory, Length also fails if the
// list would take more memory than c.Room allows for the remaining lists of the frame.
func Length[E any](c *Coder, n int) int {
	var entry E
	if !c.Reading {
		c.Lists += int64(n) * int64(unsafe.Sizeof(entry))
		c.Append(uint64(n))
		return n
	}
	read := c.Next()
	if read > uint64(c.Left()) {
		c.Fail()
		return 0
	}
	if *c.Room -= int64(read) * int64(unsafe.Sizeof(entry)); *c.Room < 0 {
		c.Err = ErrLists
		c.Fail()
		return 0
	}
	return int(read)
}

// ErrLists is the error for lists that would take more memory than the data's size allows.
var ErrLists = errors.New("lists in a frame are too large")

// Fixed codes a list of numbers whose encodings have the same size. When reading, an empty list is nil.
func Fixed[E int32 | float32](c *Coder, all *[]E) {
	const size = 4
	n := Length[E](c, len(*all))
	if !c.Reading {
		c.Buf = append(c.Buf, tensors.Bytes(*all)...)
		return
	}
	*all = nil
	if b := c.Take(size * uint64(n)); n > 0 && b != nil {
		*all = make([]E, n)
		copy(tensors.Bytes(*all), b)
	}
}

// Fixed32 codes a number as four bytes.
func (c *Coder) Fixed32(v *int) {
	if !c.Reading {
		c.Buf = binary.LittleEndian.AppendUint32(c.Buf, uint32(*v))
		return
	}
	*v = 0
	if b := c.Take(4); b != nil {
		*v = int(int32(binary.LittleEndian.Uint32(b)))
	}
}

// JSON codes a value as JSON.
func (c *Coder) JSON(v any) {
	var text []byte
	if !c.Reading {
		var err error
		if text, err = json.Marshal(v); err != nil && c.Err == nil {
			c.Err = err
		}
	}
	if Raw(c, &text); c.Reading && c.Err == nil {
		c.Err = json.Unmarshal(text, v)
	}
}

// ViewString returns b as a string, without a copy.
func ViewString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
