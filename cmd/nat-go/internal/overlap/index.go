package overlap

import (
	"math/bits"
	"slices"
	"strings"
)

// maxGrams is the maximum number of runs of words that an index holds, in a table of at most 128 MiB.
const maxGrams = 4 << 20

// Index holds the benchmarks' runs of words. Call Add for all benchmarks, then Count for all examples, then Find.
type Index struct {
	OneIn uint64 // the index holds one in OneIn of the benchmarks' runs; a power of two

	slots  []slot // hash table with open addressing, indexed by the upper bits of a run's hash
	filter []uint64
	grams  int
	limit  int
	places []Place

	tallies  [][numRoles]tally // tallies of the runs that occur in examples
	examples uint32
	task     uint32 // hash of the current example's task
}

type slot struct {
	gram  uint64 // hash of the run; 0 if the slot is free
	place uint32
	tally uint32 // 1 + index of the run's tally; 0 if the run doesn't have a tally
}

// Place is a text's location in a benchmark.
type Place struct {
	File string
	Line int64 // number of the line or, in a table, of the row
}

// Role identifies the kind of speaker of a message.
type Role uint8

const (
	system Role = iota
	user
	assistant
	tool
	numRoles
)

// RoleOf returns the Role for the role name in a message.
func RoleOf(name string) Role {
	switch name {
	case "system", "developer":
		return system
	case "user":
		return user
	case "assistant":
		return assistant
	}
	return tool
}

// tally counts the examples in which a run occurs in messages with a given role.
type tally struct {
	examples, last uint32
	tasks          [3]uint32 // hashes of the first three tasks; unused elements are 0
}

// Overlap describes consecutive words of a text that occur in a benchmark.
type Overlap struct {
	Place Place
	Words string // the words as they appear in the text
}

// NewIndex returns an empty index.
func NewIndex() *Index { return newIndex(maxGrams) }

func newIndex(limit int) *Index { return &Index{OneIn: 1, limit: limit, slots: make([]slot, 1024)} }

// Grams returns the number of runs of words in the index.
func (x *Index) Grams() int { return x.grams }

// Add adds a benchmark text.
func (x *Index) Add(text string, at Place) {
	words := scan(text)
	for found := words.next(); len(found) > 0; found = words.next() {
		for _, g := range found {
			x.add(g.hash, at)
		}
	}
}

func (x *Index) add(gram uint64, at Place) {
	s := x.find(gram)
	if s.gram == gram || !x.holds(gram) {
		return
	}
	if n := len(x.places); n == 0 || x.places[n-1] != at {
		x.places = append(x.places, at)
	}
	*s = slot{gram: gram, place: uint32(len(x.places) - 1)}
	if x.grams++; x.grams > x.limit {
		x.OneIn *= 2
		x.rehash(len(x.slots))
	} else if 2*x.grams > len(x.slots) {
		x.rehash(2 * len(x.slots))
	}
}

// holds reports whether the index keeps a run. The lowest bit of a hash is always set.
func (x *Index) holds(gram uint64) bool { return gram>>1&(x.OneIn-1) == 0 }

// find returns the slot of a run, or the free slot for it.
func (x *Index) find(gram uint64) *slot {
	last := len(x.slots) - 1
	for i := int(gram >> (64 - bits.Len(uint(last)))); ; i = (i + 1) & last {
		if s := &x.slots[i]; s.gram == gram || s.gram == 0 {
			return s
		}
	}
}

func (x *Index) rehash(size int) {
	old := x.slots
	x.slots, x.grams = make([]slot, size), 0
	for _, s := range old {
		if s.gram != 0 && x.holds(s.gram) {
			*x.find(s.gram) = s
			x.grams++
		}
	}
}

// held calls found for each of a text's runs that the index contains. A filter with at least 8 bits per run avoids
// most of the cache misses that lookups in slots would cause.
func (x *Index) held(text string, found func(s *slot, from, to int)) {
	if x.filter == nil {
		x.filter = make([]uint64, len(x.slots)/16)
		for _, s := range x.slots {
			if s.gram != 0 {
				word, bits := x.bits(s.gram)
				x.filter[word] |= bits
			}
		}
	}
	words := scan(text)
	var maybe [len(words.batch)]uint8
	for all := words.next(); len(all) > 0; all = words.next() {
		n := 0
		for i := range all {
			word, bits := x.bits(all[i].hash)
			maybe[n] = uint8(i)
			if x.filter[word]&bits == bits {
				n++
			}
		}
		for _, i := range maybe[:n] {
			g := &all[i]
			if s := x.find(g.hash); s.gram == g.hash {
				found(s, g.from, g.to)
			}
		}
	}
}

// bits returns a run's bits in the filter. There are three bits, all in one word. With a single bit, about a tenth of
// the runs that aren't in the index would pass the filter.
func (x *Index) bits(gram uint64) (word, bits uint64) {
	return gram >> 14 & uint64(len(x.filter)-1), 1<<(gram>>8&63) | 1<<(gram>>46&63) | 1<<(gram>>58)
}

// Example starts counting a new example, which belongs to the given task.
func (x *Index) Example(task uint64) {
	x.examples++
	x.task = uint32(task) | 1
}

// Count counts the runs in a text from the current example.
func (x *Index) Count(of Role, text string) {
	x.held(text, func(s *slot, _, _ int) {
		if s.tally == 0 {
			x.tallies = append(x.tallies, [numRoles]tally{})
			s.tally = uint32(len(x.tallies))
		}
		t := &x.tallies[s.tally-1][of]
		if t.last != x.examples {
			t.last = x.examples
			t.examples++
		}
		if i := slices.IndexFunc(t.tasks[:], func(n uint32) bool { return n == 0 || n == x.task }); i >= 0 {
			t.tasks[i] = x.task
		}
	})
}

// minCommon is the minimum number of examples that a common run occurs in, unless it occurs in more than half of all
// examples. In a small data set, 5 % is only a few examples, all of which may be contaminated.
const minCommon = 10

// common reports whether a run occurs in so many examples, in messages of one role, that it is assumed to be part of
// the environment.
func (x *Index) common(of *[numRoles]tally) bool {
	few := max(x.examples/20, min(minCommon-1, x.examples/2))
	for _, t := range of {
		if t.examples > few && t.tasks[2] != 0 {
			return true
		}
	}
	return false
}

// Common returns the number of runs that are ignored because they are common.
func (x *Index) Common() (n int) {
	for i := range x.tallies {
		if x.common(&x.tallies[i]) {
			n++
		}
	}
	return n
}

// Find returns a text's longest overlap with a single benchmark text.
func (x *Index) Find(text string) (longest Overlap, found bool) {
	var now, best struct {
		from, to int
		place    uint32
	}
	x.held(text, func(s *slot, from, to int) {
		if s.tally != 0 && x.common(&x.tallies[s.tally-1]) {
			return
		}
		if from >= now.to || s.place != now.place {
			now.from, now.place = from, s.place
		}
		if now.to = to; now.to-now.from > best.to-best.from {
			best = now
		}
	})
	if best.to == 0 {
		return longest, false
	}
	return Overlap{x.places[best.place], quote(text[best.from:best.to])}, true
}

// quote returns text on one line, shortened if it is long.
func quote(text string) string {
	const size = 240
	words := strings.Join(strings.Fields(strings.ToValidUTF8(text[:min(len(text), 4*size)], "")), " ")
	if len(words) > size {
		words = strings.ToValidUTF8(words[:size], "") + "..."
	}
	return words
}
