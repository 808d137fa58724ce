package recordlog

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"unsafe"

	"github.com/nat-go/nat-go/builders"
)

// codec appends values to a frame, or reads them back into the places that they came from, so that each form is
// described once: varints, little-endian floats, length-prefixed bytes.
//
// When it reads, the first error sticks, and later values are zero. Strings and bytes share the frame's memory.
type codec struct {
	buf   []byte
	lists int64 // memory that the written lists will take when read back

	reading bool
	at      int // the next position to read; a number, because shortening buf takes three stores for every value
	err     error
	room    *int64 // memory left for lists that are read

	// From the frame's last record: records of one turn are adjacent, and their repeated names would be a fifth of the
	// log.
	turn, score string

	// The origins of the group that is written, in order of first use, and their numbers.
	used   []*builders.Origin
	number map[*builders.Origin]uint64
}

// reading returns a codec that reads a frame.
func reading(payload []byte, most Large) *codec {
	room := listsIn(int64(len(payload)), most)
	return &codec{buf: payload, reading: true, room: &room}
}

var errShort = errors.New("unexpected end of a frame inside a value")

func (c *codec) fail() {
	if c.err == nil {
		c.err = errShort
	}
	c.at = len(c.buf)
}

// left returns how many bytes have not been read.
func (c *codec) left() int { return len(c.buf) - c.at }

func (c *codec) append(v uint64) { c.buf = binary.AppendUvarint(c.buf, v) }

func (c *codec) next() uint64 {
	if c.at < len(c.buf) && c.buf[c.at] < 0x80 { // nearly all are
		c.at++
		return uint64(c.buf[c.at-1])
	}
	v, n := binary.Uvarint(c.buf[c.at:])
	if n <= 0 {
		c.fail()
		return 0
	}
	c.at += n
	return v
}

// take reads n bytes.
func (c *codec) take(n uint64) []byte {
	if n > uint64(c.left()) {
		c.fail()
		return nil
	}
	from := c.at
	c.at += int(n)
	return c.buf[from:c.at:c.at]
}

// natural codes a number that is never negative.
func natural[T ~int | ~int32 | ~uint32 | ~uint64](c *codec, v *T) {
	if c.reading {
		*v = T(c.next())
	} else {
		c.append(uint64(*v))
	}
}

func integer[T ~int | ~int32 | ~int64](c *codec, v *T) {
	if c.reading {
		n := c.next()
		*v = T(int64(n>>1) ^ -int64(n&1))
	} else {
		c.buf = binary.AppendVarint(c.buf, int64(*v))
	}
}

func octet[T ~uint8](c *codec, v *T) {
	switch {
	case !c.reading:
		c.buf = append(c.buf, byte(*v))
	case c.at == len(c.buf):
		c.fail()
		*v = 0
	default:
		*v = T(c.buf[c.at])
		c.at++
	}
}

func (c *codec) bool(v *bool) {
	var b byte
	if *v {
		b = 1
	}
	if octet(c, &b); c.reading {
		*v = b != 0
	}
}

func (c *codec) float(v *float64) {
	if !c.reading {
		c.buf = binary.LittleEndian.AppendUint64(c.buf, math.Float64bits(*v))
		return
	}
	*v = 0
	if b := c.take(8); b != nil {
		*v = math.Float64frombits(binary.LittleEndian.Uint64(b))
	}
}

// floatPtr codes a float that may be absent.
func (c *codec) floatPtr(p **float64) {
	there := *p != nil
	if c.bool(&there); !there {
		return
	}
	if c.reading {
		*p = new(float64)
	}
	c.float(*p)
}

func (c *codec) string(s *string) {
	if c.reading {
		*s = viewString(c.take(c.next()))
		return
	}
	c.append(uint64(len(*s)))
	c.buf = append(c.buf, *s...)
}

// kept codes a name that outlives its group, because the books refer to it. Usually it is the same as in the previous
// group.
func (c *codec) kept(s *string) {
	now := *s
	if c.string(&now); *s != now {
		*s = strings.Clone(now)
	}
}

// same codes a string that usually equals the last one.
func (c *codec) same(s, last *string) {
	switch {
	case c.reading:
		if n := c.next(); n > 0 {
			*last = viewString(c.take(n - 1))
		}
		*s = *last
	case *s == *last:
		c.append(0)
	default:
		*last = *s
		c.append(uint64(len(*s)) + 1)
		c.buf = append(c.buf, *s...)
	}
}

// raw codes bytes that may be absent: nil is distinct from empty.
func raw[B ~[]byte](c *codec, b *B) {
	switch {
	case c.reading:
		*b = nil
		if n := c.next(); n > 0 {
			*b = c.take(n - 1)
		}
	case *b == nil:
		c.append(0)
	default:
		c.append(uint64(len(*b)) + 1)
		c.buf = append(c.buf, *b...)
	}
}

// list returns the entries of a list to write, or room for the entries to read, or nil without any.
func list[E any](c *codec, all *[]E) []E {
	if n := length[E](c, len(*all)); c.reading {
		*all = nil
		if n > 0 {
			*all = make([]E, n)
		}
	}
	return *all
}

// notNil codes a list that is never nil.
func notNil[E any](c *codec, all *[]E) []E {
	if list(c, all); c.reading && *all == nil {
		*all = []E{}
	}
	return *all
}

// reused codes a list that is read into the memory of the previous one.
func reused[E any](c *codec, all *[]E) []E {
	if n := length[E](c, len(*all)); c.reading {
		*all = slices.Grow((*all)[:0], n)[:n]
	}
	return *all
}

// length codes the length of a list of E, whose entries take at least one byte each, so a damaged length can't request
// memory that the frame could never fill. In memory an entry takes up to hundreds of bytes: a forged frame is refused
// when its lists together would take far more than any run writes.
func length[E any](c *codec, n int) int {
	var entry E
	if !c.reading {
		c.lists += int64(n) * int64(unsafe.Sizeof(entry))
		c.append(uint64(n))
		return n
	}
	read := c.next()
	if read > uint64(c.left()) {
		c.fail()
		return 0
	}
	if *c.room -= int64(read) * int64(unsafe.Sizeof(entry)); *c.room < 0 {
		c.err = errLists
		c.fail()
		return 0
	}
	return int(read)
}

var errLists = errors.New("lists of a frame are too large")

// A written entry takes at most some thirty times its bytes in memory: a node, or a record of a pair with only its
// scores.
const roomPerByte = 64

// listsIn returns how much memory the lists of a frame of n bytes may take.
func listsIn(n int64, most Large) int64 { return min(most.Lists, n*roomPerByte) }
