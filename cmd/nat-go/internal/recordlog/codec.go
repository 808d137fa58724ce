package recordlog

import (
	"encoding/binary"
	"errors"
	"math"
	"unsafe"
)

// encoder appends the log's primitive values: varints, little-endian floats, length-prefixed bytes.
type encoder struct {
	buf   []byte
	lists int64 // memory that the lists take when they are read back

	// From the frame's last record: records of one turn are adjacent, and their repeated names would be a fifth of the
	// log.
	turn, score string
}

func (e *encoder) uint(v uint64) { e.buf = binary.AppendUvarint(e.buf, v) }
func (e *encoder) int(v int64)   { e.buf = binary.AppendVarint(e.buf, v) }

// list appends the length of a list of E.
func list[E any](e *encoder, n int) {
	var entry E
	e.lists += int64(n) * int64(unsafe.Sizeof(entry))
	e.uint(uint64(n))
}

func (e *encoder) byte(v byte) { e.buf = append(e.buf, v) }
func (e *encoder) float(v float64) {
	e.buf = binary.LittleEndian.AppendUint64(e.buf, math.Float64bits(v))
}

func (e *encoder) bool(v bool) {
	if v {
		e.byte(1)
	} else {
		e.byte(0)
	}
}

func (e *encoder) string(s string) {
	e.uint(uint64(len(s)))
	e.buf = append(e.buf, s...)
}

// stringOrSame appends a string that is usually the same as the previous one.
func (e *encoder) stringOrSame(s string, last *string) {
	if s == *last {
		e.uint(0)
		return
	}
	*last = s
	e.uint(uint64(len(s)) + 1)
	e.buf = append(e.buf, s...)
}

// raw appends bytes that may be absent: nil is distinct from empty.
func (e *encoder) raw(b []byte) {
	if b == nil {
		e.uint(0)
		return
	}
	e.uint(uint64(len(b)) + 1)
	e.buf = append(e.buf, b...)
}

// floatPtr appends a float that may be absent.
func (e *encoder) floatPtr(p *float64) {
	e.bool(p != nil)
	if p != nil {
		e.float(*p)
	}
}

var errShort = errors.New("the frame ends inside a value")

// decoder reads them back. The first error sticks; later values are zero. Strings and bytes share the frame's memory.
type decoder struct {
	buf  []byte
	at   int // what is read next; a number, because shortening buf takes three stores for every value
	err  error
	room *int64 // left for lists

	turn, score string // of the last record
}

func (d *decoder) fail() {
	if d.err == nil {
		d.err = errShort
	}
	d.at = len(d.buf)
}

// left returns how many bytes have not been read.
func (d *decoder) left() int { return len(d.buf) - d.at }

func (d *decoder) uint() uint64 {
	if d.at < len(d.buf) && d.buf[d.at] < 0x80 { // nearly all are
		d.at++
		return uint64(d.buf[d.at-1])
	}
	v, n := binary.Uvarint(d.buf[d.at:])
	if n <= 0 {
		d.fail()
		return 0
	}
	d.at += n
	return v
}

func (d *decoder) int() int64 {
	v := d.uint()
	return int64(v>>1) ^ -int64(v&1)
}

func (d *decoder) byte() byte {
	if d.at == len(d.buf) {
		d.fail()
		return 0
	}
	d.at++
	return d.buf[d.at-1]
}

func (d *decoder) bool() bool { return d.byte() != 0 }

func (d *decoder) float() float64 {
	if d.left() < 8 {
		d.fail()
		return 0
	}
	d.at += 8
	return math.Float64frombits(binary.LittleEndian.Uint64(d.buf[d.at-8:]))
}

func (d *decoder) floatPtr() *float64 {
	if !d.bool() {
		return nil
	}
	v := d.float()
	return &v
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(d.left()) {
		d.fail()
		return nil
	}
	from := d.at
	d.at += int(n)
	return d.buf[from:d.at:d.at]
}

func (d *decoder) string() string {
	b := d.bytes(d.uint())
	return unsafe.String(unsafe.SliceData(b), len(b))
}

func (d *decoder) stringOrSame(last *string) string {
	if n := d.uint(); n > 0 {
		b := d.bytes(n - 1)
		*last = unsafe.String(unsafe.SliceData(b), len(b))
	}
	return *last
}

func (d *decoder) raw() []byte {
	n := d.uint()
	if n == 0 {
		return nil
	}
	return d.bytes(n - 1)
}

// count reads the length of a list of E, whose entries take at least one byte each, so a damaged length can't request
// memory that the frame could never fill. In memory an entry takes up to hundreds of bytes: a forged frame is refused
// when its lists together would take far more than any run writes.
func count[E any](d *decoder) int {
	n := d.uint()
	if n > uint64(d.left()) {
		d.fail()
		return 0
	}
	var entry E
	if *d.room -= int64(n) * int64(unsafe.Sizeof(entry)); *d.room < 0 {
		d.err = errLists
		d.fail()
		return 0
	}
	return int(n)
}

var errLists = errors.New("the lists of a frame would take more memory than any group's")

// A written entry takes at most some thirty times its bytes in memory: a node, or a record of a pair with nothing but
// its scores.
const roomPerByte = 64

// listsIn returns how much memory the lists of a frame of n bytes may take.
func listsIn(n int64, most Large) int64 { return min(most.Lists, n*roomPerByte) }

// newDecoder decodes a frame.
func newDecoder(payload []byte, most Large) *decoder {
	room := listsIn(int64(len(payload)), most)
	return &decoder{buf: payload, room: &room}
}
