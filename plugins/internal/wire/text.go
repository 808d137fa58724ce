package wire

import (
	"fmt"
	"hash/maphash"
	"math"
	"unsafe"
)

// maxGroupText is the largest offset that a group's text table can address.
const maxGroupText = math.MaxUint32

// FrameBytes is the target size of a frame. A frame may exceed it by one element; FrameLimitBytes is the maximum that
// a plugin may send in one message. On both sides, many frames exist at the same time (in the writer, in gRPC, read
// ahead, decoded), so their size accounts for most of a run's memory. Larger frames would take more memory without
// being faster.
const (
	FrameBytes      = 256 << 10
	FrameLimitBytes = 8 << 20
)

// splitText is the minimum length at which a text may be split at the end of a frame.
const splitText = 64 << 10

// textWriter collects one group's strings. It holds the index of each string, and the bytes and end offsets of the
// strings in the current frame.
type textWriter struct {
	seen  map[uint64]sent   // strings sent, by their sketch
	ids   map[string]uint32 // indices of strings whose sketch belongs to another string in seen
	n     uint32            // number of strings added so far
	size  uint64            // number of bytes in these strings
	frame *int              // size of the frame being filled
	split func() error      // ends the frame in the middle of the group
	err   error             // error from split; never cleared

	text           []byte // the frame's text; its parts share this buffer
	ends           []uint32
	from, fromEnds int // start of the current part in text and in ends
}

// sketch returns a hash of a string's length and beginning, which distinguishes most strings. Most strings are sent
// only once, and hashing a large string in full would mean reading it twice.
func sketch(s string) uint64 {
	const enough = 32
	return maphash.String(seed, s[:min(len(s), enough)]) ^ uint64(len(s))
}

var seed = maphash.MakeSeed()

// sent is a text and its index.
type sent struct {
	text string
	id   uint32
}

func newTextWriter(frame *int, split func() error) textWriter {
	return textWriter{seen: map[uint64]sent{}, ids: map[string]uint32{}, frame: frame, split: split}
}

// reset begins a new group.
func (t *textWriter) reset() {
	clear(t.seen)
	clear(t.ids)
	t.n, t.size = 0, 0
}

// add returns the index of s, sending it if it is new. It compares a string in full only if an earlier one has the
// same sketch.
func (t *textWriter) add(s string) uint32 {
	if s == "" {
		return 0
	}
	k := sketch(s)
	first, ok := t.seen[k]
	switch {
	case !ok:
		id := t.put(s)
		t.seen[k] = sent{s, id}
		return id
	case first.text == s:
		return first.id
	}
	id, ok := t.ids[s]
	if !ok {
		id = t.put(s)
		t.ids[s] = id
	}
	return id
}

// addOnce is like add, for raw values that are unlikely to recur: it sends them without looking for an earlier copy.
func (t *textWriter) addOnce(b []byte) uint32 {
	if len(b) == 0 {
		return 0
	}
	return t.put(str(b))
}

func (t *textWriter) put(s string) uint32 {
	t.size += uint64(len(s))
	for len(s) > splitText && t.err == nil {
		room := FrameBytes - *t.frame
		if room >= len(s) {
			break
		}
		if room > 0 {
			t.text = append(t.text, s[:room]...)
			*t.frame += room
			s = s[room:]
		}
		t.err = t.split()
	}
	if t.err != nil {
		return 0 // the rest won't be sent, so don't collect it
	}
	t.text = append(t.text, s...)
	t.ends = append(t.ends, uint32(t.size))
	*t.frame += len(s) + 4
	t.n++
	return t.n
}

// take returns the text of the part that ends here.
func (t *textWriter) take() (text []byte, ends []uint32) {
	text, ends = t.text[t.from:len(t.text):len(t.text)], t.ends[t.fromEnds:len(t.ends):len(t.ends)]
	t.from, t.fromEnds = len(t.text), len(t.ends)
	return text, ends
}

// free releases the buffer for the next frame.
func (t *textWriter) free() {
	t.text, t.ends, t.from, t.fromEnds = t.text[:0], t.ends[:0], 0, 0
}

// textReader is the text table of the group being read.
type textReader struct {
	texts   []string
	partial []byte // beginning of a text that continues in the next part
	start   uint64 // offset at which the next text starts
	size    uint64 // number of bytes received
}

func (t *textReader) reset() {
	clear(t.texts)
	t.texts, t.partial, t.start, t.size = t.texts[:0], nil, 0, 0
}

// part adds the strings in one part. The strings may share blob's memory.
func (t *textReader) part(blob []byte, ends []uint32) error {
	base := t.size
	t.size += uint64(len(blob))
	if t.size > maxGroupText {
		return fmt.Errorf("group has more than %d bytes of text", uint64(maxGroupText))
	}
	for _, e := range ends {
		end := uint64(e)
		if end < t.start || end > t.size {
			return fmt.Errorf("invalid text %d: it ends at %d, outside %d to "+
				"%d", len(t.texts)+1, end, t.start, t.size)
		}
		if t.partial != nil {
			if end < base {
				return fmt.Errorf("invalid text %d: it ends at %d, in an earlier part", len(t.texts)+1, end)
			}
			t.partial = append(t.partial, blob[:end-base]...)
			t.texts = append(t.texts, str(t.partial))
			t.partial = nil
		} else {
			if t.start < base {
				return fmt.Errorf("invalid text %d: it starts at %d, in an earlier part", len(t.texts)+1, t.start)
			}
			t.texts = append(t.texts, str(blob[t.start-base:end-base]))
		}
		t.start = end
	}
	if rest := t.size - t.start; rest > 0 {
		t.partial = append(t.partial, blob[uint64(len(blob))-min(rest, uint64(len(blob))):]...)
	}
	return nil
}

// str returns b as a string, without a copy: b is not modified afterwards.
func str(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return unsafe.String(&b[0], len(b))
}

// raw returns s as bytes, without a copy: a json.Raw is never modified.
func raw(s string) []byte {
	if s == "" {
		return nil
	}
	return unsafe.Slice(unsafe.StringData(s), len(s))
}
