package tokenizer

import (
	"hash/maphash"
	"strings"
	"sync"
)

// DefaultCacheBytes bounds the memory of a tokenizer's cache of segments and their pieces.
const DefaultCacheBytes = 64 << 20

// segment is text between special tokens. continued is set if other text precedes it in the row and may affect its
// tokens.
type segment struct {
	text      string
	continued bool
}

// cache keeps encoded segments in two generations of half the limit each. When the young generation is full, it becomes
// the old one. Segments that are used again move back to the young one. For rows, the hit rate is as good as an LRU
// list's, without any bookkeeping per hit.
type cache struct {
	mu         sync.Mutex
	young, old map[segment]Encoding
	bytes      int // size of young
	limit      int // maximum size of young and old together
	hits       uint64
	misses     uint64

	seed maphash.Seed
	seen [1 << 14]uint32 // see again
}

func newCache(limit int) *cache {
	return &cache{limit: limit, young: map[segment]Encoding{}, seed: maphash.MakeSeed()}
}

// get returns a stored encoding, which is shared and must not be changed.
func (c *cache) get(key segment) (Encoding, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if enc, ok := c.young[key]; ok {
		c.hits++
		return enc, true
	}
	if enc, ok := c.old[key]; ok {
		c.hits++
		c.store(key, enc)
		return enc, true
	}
	c.misses++
	return Encoding{}, false
}

func (c *cache) put(key segment, enc Encoding) {
	key.text = strings.Clone(key.text) // don't retain the row that the text was cut from
	c.mu.Lock()
	defer c.mu.Unlock()
	c.store(key, enc)
}

// again reports whether again was called with the same text before. The answer is approximate: texts are forgotten and,
// very rarely, confused. Most segments occur once, and caching cheap ones costs more than it saves.
func (c *cache) again(text string) bool {
	hash := maphash.String(c.seed, text)
	c.mu.Lock()
	defer c.mu.Unlock()
	last := &c.seen[hash%uint64(len(c.seen))]
	known := *last == uint32(hash>>32)
	*last = uint32(hash >> 32)
	return known
}

func (c *cache) store(key segment, enc Encoding) {
	const perEntry, perToken = 128, 4 + 16
	size := perEntry + len(key.text) + perToken*len(enc.IDs)
	if size > c.limit/2 {
		return
	}
	if c.bytes+size > c.limit/2 {
		c.old, c.young, c.bytes = c.young, map[segment]Encoding{}, 0
	}
	if _, known := c.young[key]; !known {
		c.bytes += size
	}
	c.young[key] = enc
}

// SetCacheBytes empties the cache of segments and their pieces and bounds its memory; 0 turns it off.
func (t *Tokenizer) SetCacheBytes(limit int) {
	t.pieces = newPieces(t.shape, newPieceCache(limit/2))
	if t.pieces != nil {
		limit -= limit / 2
	}
	t.cache = newCache(limit)
}
