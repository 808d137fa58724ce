package source

import (
	"fmt"

	"github.com/zeebo/xxh3"
)

// Names makes ids unique within a file and finds entries that repeat. It remembers hashes only: 36 bytes an entry. Call Reset
// before its first use.
type Names struct {
	byID map[xxh3.Uint128]name
	more map[xxh3.Uint128]struct{} // entries whose id was seen before
}

type name struct {
	first xxh3.Uint128 // hash of the first entry with this id
	count uint32
}

// Reset forgets all, for the next file.
func (n *Names) Reset() {
	n.byID = map[xxh3.Uint128]name{}
	n.more = map[xxh3.Uint128]struct{}{}
}

// Add takes an id and the hash of its entry. It returns the id to use, unique in the file, or identical for an entry that
// stood here before.
func (n *Names) Add(id string, entry xxh3.Uint128) (unique string, identical bool) {
	key := xxh3.HashString128(id)
	seen, ok := n.byID[key]
	if !ok {
		n.byID[key] = name{first: entry, count: 1}
		return id, false
	}
	if seen.first == entry {
		return "", true
	}
	if _, again := n.more[entry]; again {
		return "", true
	}
	n.more[entry] = struct{}{}
	for {
		seen.count++
		n.byID[key] = seen
		unique = fmt.Sprintf("%s#%d", id, seen.count)
		other := xxh3.HashString128(unique)
		if _, taken := n.byID[other]; !taken {
			n.byID[other] = name{first: entry, count: 1}
			return unique, false
		}
	}
}
