package secret

import (
	"regexp"
	"strings"
	"sync"
)

// finder finds one kind of secret around its hints.
type finder struct {
	// lower-case strings of at least three bytes, one of which is in every matching text, in upper or lower case
	hints  []string
	re     func() *regexp.Regexp
	window func(s string, at, end int) (w [2]int, ok bool) // returns the window to search around a hint at [at, end)
	// returns the place of the secret in a match, or false if the match isn't a secret
	place func(s string, match []int) (Place, bool)
}

// A window is the text searched around a hint. It is small because the time for a pattern is proportional to the
// bytes that it examines.
const (
	windowBefore = 128
	windowAfter  = 512
	maxRunBytes  = 16 << 10 // maximum size of a token or line, in bytes
)

// around returns the window around a hint. The window's edges split only very long words.
func around(s string, at, end int) [2]int {
	from, to := max(0, at-windowBefore), min(len(s), end+windowAfter)
	for minStart := max(0, from-windowBefore); from > minStart && inRun(s[from-1]); {
		from--
	}
	return [2]int{from, max(to, runEnd(s, to-1))}
}

// index finds the hints of all finders in one pass over a text, by their first three bytes.
type index struct {
	finders []finder
	filter  [1 << 10]uint64 // a bit for each hash of three bytes; set if some hint begins with bytes of this hash
	hints   map[uint32][]hint
}

type hint struct {
	text   string
	finder int
}

// indexed is built when the first text is searched, because building it would slow down every start of the program.
var indexed = sync.OnceValue(func() *index {
	x := &index{finders: shapes(), hints: map[uint32][]hint{}}
	for _, t := range tokens() {
		x.finders = append(x.finders, t.finder())
	}
	for i, f := range x.finders {
		for _, text := range f.hints {
			key := uint32(text[0])<<16 | uint32(text[1])<<8 | uint32(text[2])
			x.hints[key] = append(x.hints[key], hint{text, i})
			h := hashed(key)
			x.filter[h>>6] |= 1 << (h & 63)
		}
	}
	return x
})

// folded maps bytes to lower case.
var folded = func() (table [256]byte) {
	for i := range table {
		table[i] = byte(i)
		if i >= 'A' && i <= 'Z' {
			table[i] += 'a' - 'A'
		}
	}
	return table
}()

// hashed returns 16 bits that depend on all 24 bits of a key.
func hashed(key uint32) uint32 { return key * 2654435761 >> 16 }

// searched is a window with the finder to apply to it.
type searched struct {
	from, to int
	finder   int
}

// windows returns the ranges to search. The windows of one finder are in order and disjoint.
func (x *index) windows(s string) (list []searched) {
	if len(s) < 3 {
		return nil
	}
	var last map[int]int // by finder, the index in list of the finder's last window
	key := uint32(folded[s[0]])<<8 | uint32(folded[s[1]])
	for i := 2; i < len(s); i++ {
		key = key<<8&0xffffff | uint32(folded[s[i]])
		h := hashed(key)
		if x.filter[h>>6]&(1<<(h&63)) == 0 {
			continue
		}
		for _, h := range x.hints[key] {
			at, end := i-2, i-2+len(h.text)
			if end > len(s) || !strings.EqualFold(s[at:end], h.text) {
				continue
			}
			j, seen := last[h.finder]
			if seen && end+maxRunBytes/2 <= list[j].to { // the window that contains the hint extends far beyond it
				continue
			}
			w, ok := x.finders[h.finder].window(s, at, end)
			if !ok {
				continue
			}
			if seen && w[0] <= list[j].to {
				list[j].to = max(list[j].to, w[1])
				continue
			}
			if last == nil {
				last = map[int]int{}
			}
			last[h.finder] = len(list)
			list = append(list, searched{w[0], w[1], h.finder})
		}
	}
	return list
}

// Find returns the places that look like secrets, in no particular order. They may overlap.
func Find(s string) (out []Place) {
	for _, span := range privateKeys(s) {
		out = append(out, Place{span[0], span[1], "private_key"})
	}
	x := indexed()
	for _, w := range x.windows(s) {
		f := &x.finders[w.finder]
		for _, m := range f.re().FindAllStringSubmatchIndex(s[w.from:w.to], -1) {
			for i := range m {
				if m[i] >= 0 {
					m[i] += w.from
				}
			}
			if p, ok := f.place(s, m); ok {
				out = append(out, p)
			}
		}
	}
	return out
}
