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

// codec writes a group's values to a frame or reads them from one. Its methods take pointers and work in both
// directions, so that each part of the encoding is described once. Values are varints, little-endian floats and
// length-prefixed bytes.
//
// When reading, codec keeps the first error. Strings and bytes share the frame's memory, except for names read by kept,
// which are copied.
type codec struct {
	buf   []byte
	lists int64 // memory that the written lists will need when they are read back

	reading bool
	at      int // position of the next byte to read; reslicing buf for every value would be slower
	err     error
	room    *int64 // memory that the remaining lists of the frame may take when reading

	// The last record's turn name and score name. Adjacent records usually have the same names, and repeating the names
	// would take up a fifth of the log.
	turn, score string

	// The group's origins, in order of first use, and their numbers. Used only when writing.
	used   []*builders.Origin
	number map[*builders.Origin]uint64
}

var errShort = errors.New("unexpected end of a frame inside a value")

func (c *codec) fail() {
	if c.err == nil {
		c.err = errShort
	}
	c.at = len(c.buf)
}

// left returns the number of unread bytes.
func (c *codec) left() int { return len(c.buf) - c.at }

func (c *codec) append(v uint64) { c.buf = binary.AppendUvarint(c.buf, v) }

func (c *codec) next() uint64 {
	if c.at < len(c.buf) && c.buf[c.at] < 0x80 { // nearly all values take a single byte
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

// take reads n bytes. If fewer are left, it fails and returns nil.
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

// kept codes a name that outlives the group's memory, because the run's accounts refer to the name. When reading, it
// copies the name unless s already contains the same name from an earlier group, which is usually the case.
func (c *codec) kept(s *string) {
	now := *s
	if c.string(&now); *s != now {
		*s = strings.Clone(now)
	}
}

// same codes a string that usually equals the previous one. An equal string is coded as 0.
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

// raw codes bytes, and distinguishes nil from empty.
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

// list codes the length of a list, and returns the entries for the caller to code. When reading, the entries are zero
// values to read into, and an empty list is nil.
func list[E any](c *codec, all *[]E) []E {
	if n := length[E](c, len(*all)); c.reading {
		*all = nil
		if n > 0 {
			*all = make([]E, n)
		}
	}
	return *all
}

// notNil is like list, but for lists that are never nil.
func notNil[E any](c *codec, all *[]E) []E {
	if list(c, all); c.reading && *all == nil {
		*all = []E{}
	}
	return *all
}

// reused is like list, but reads into the memory of the list in all, so entries may still contain old values.
func reused[E any](c *codec, all *[]E) []E {
	if n := length[E](c, len(*all)); c.reading {
		*all = slices.Grow((*all)[:0], n)[:n]
	}
	return *all
}

// length codes the length of a list of E. When reading, the length must not exceed the number of unread bytes, because
// each entry takes at least one byte. Since an entry may take hundreds of bytes in memory, length also fails if the
// list would take more memory than c.room allows for the remaining lists of the frame.
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

var errLists = errors.New("lists in a frame are too large")

// roomPerByte is the maximum memory that a frame's lists may take, per byte of the frame. In a run's frames, a node or
// a preference with only its scores takes the most memory, about thirty times its encoded size.
const roomPerByte = 64

// listsIn returns how much memory the lists of a frame of n bytes may take.
func listsIn(n int64, most Large) int64 { return min(most.Lists, n*roomPerByte) }
