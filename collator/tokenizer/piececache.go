package tokenizer

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"sync"

	"github.com/nat-go/nat-go/ttc/chat"
)

// pieceCache keeps the encodings of pieces in two generations, like cache. Because text has thousands of pieces, it
// has its own hash table, whose entries are next to each other in memory and contain no pointers.
type pieceCache struct {
	mu         sync.Mutex
	seed       maphash.Seed
	young, old table
	limit      int // maximum bytes of both generations
}

// table is a hash table with linear probing. An entry consists of the length of the text, the number of tokens, the
// text, and the tokens.
type table struct {
	data  []byte
	slots []uint64 // the upper half holds a part of the hash, the lower half the entry's position plus one
	count int
}

// minSlots is the number of slots in a table with one entry.
const minSlots = 1 << 4

// tokenWidth is a token's size in an entry: four bytes for its id, one each for the start and end of its text.
const tokenWidth = 4 + 1 + 1

func newPieceCache(limit int) *pieceCache {
	return &pieceCache{limit: min(limit, math.MaxInt32), seed: maphash.MakeSeed()}
}

// find returns the tokens of text with at most maxPieceBytes. The caller holds the lock.
func (c *pieceCache) find(text string) (tokens []byte, ok bool) {
	hash := maphash.String(c.seed, text)
	entry := c.young.find(text, hash)
	if entry == nil {
		if entry = c.old.find(text, hash); entry == nil {
			return nil, false
		}
		c.store(entry, hash)
	}
	return entry[2+len(text):], true
}

// put adds the encoding of text with at most maxPieceBytes, which begins at position base of the offsets' text.
func (c *pieceCache) put(text string, ids []int32, offsets []chat.Span, base int) {
	if len(ids) > 0xff {
		return
	}
	entry := make([]byte, 2, 2+len(text)+tokenWidth*len(ids))
	entry[0], entry[1] = byte(len(text)), byte(len(ids))
	entry = append(entry, text...)
	for i, id := range ids {
		entry = binary.LittleEndian.AppendUint32(entry, uint32(id))
		entry = append(entry, byte(offsets[i].Start-base), byte(offsets[i].End-base))
	}
	hash := maphash.String(c.seed, text)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.young.find(text, hash) == nil {
		c.store(entry, hash)
	}
}

func (c *pieceCache) store(entry []byte, hash uint64) {
	if len(entry)+8*minSlots > c.limit/2 {
		return
	}
	if t := &c.young; len(t.data)+len(entry)+8*t.slotsWithOneMore() > c.limit/2 {
		c.young, c.old = table{}, c.young
	}
	c.young.add(c.seed, entry, hash)
}

func (t *table) find(text string, hash uint64) []byte {
	for i := int(hash); len(t.slots) > 0; i++ {
		slot := t.slots[i&(len(t.slots)-1)]
		if slot == 0 {
			break
		}
		if slot>>32 == hash>>32 {
			entry := t.data[uint32(slot)-1:]
			if end := 2 + int(entry[0]); string(entry[2:end]) == text {
				end += tokenWidth * int(entry[1])
				return entry[:end:end]
			}
		}
	}
	return nil
}

// add adds an entry that the table doesn't contain. At least half of the slots remain free.
func (t *table) add(seed maphash.Seed, entry []byte, hash uint64) {
	n := t.slotsWithOneMore()
	if t.count++; n > len(t.slots) {
		t.slots = make([]uint64, n)
		for at := 0; at < len(t.data); {
			end := at + 2 + int(t.data[at])
			t.place(at, maphash.Bytes(seed, t.data[at+2:end]))
			at = end + tokenWidth*int(t.data[at+1])
		}
	}
	t.place(len(t.data), hash)
	t.data = append(t.data, entry...)
}

// slotsWithOneMore returns the number of slots that the table has after another entry is added.
func (t *table) slotsWithOneMore() int {
	if 2*(t.count+1) <= len(t.slots) {
		return len(t.slots)
	}
	return max(minSlots, 2*len(t.slots))
}

// place points a free slot to the entry at a position.
func (t *table) place(at int, hash uint64) {
	i := int(hash)
	for t.slots[i&(len(t.slots)-1)] != 0 {
		i++
	}
	t.slots[i&(len(t.slots)-1)] = hash>>32<<32 | uint64(at+1)
}
