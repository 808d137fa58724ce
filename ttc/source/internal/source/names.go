package source

import (
	"cmp"
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/ttc"
)

// Names makes ids unique within a file and finds duplicate entries. It remembers only hashes, about 40 bytes per
// entry. Ids with the same hash are treated as equal, so the later one is needlessly renamed. Entries are duplicates
// only if their 128-bit hashes are equal. Call Reset before its first use.
type Names struct {
	byID     map[uint64]uint64         // hash of the first entry with an id, by the hash of the id
	repeated map[uint64]int            // number of additional entries with an id, by the hash of the id
	more     map[xxh3.Uint128]struct{} // entries whose id was seen before
	part     *Part                     // names for the entries of a part; nil if this is not a part
	tell     func(row int64, id string)

	noted *noted // set by a scan; the scan assigns the names
}

// Reset prepares Names for the next file.
func (n *Names) Reset() {
	n.byID = map[uint64]uint64{}
	n.repeated = map[uint64]int{}
	n.more = map[xxh3.Uint128]struct{}{}
}

// Add adds an entry by its id and its hash. It returns the id to use, which is unique within the file. If the same
// entry occurred before, it sets identical instead.
func (n *Names) Add(row int64, id string, entry xxh3.Uint128) (unique string, identical bool) {
	return n.addNamed(notedName{row: row, id: id, entry: entry})
}

func (n *Names) addNamed(e notedName) (unique string, identical bool) {
	if n.noted != nil {
		n.noted.names = append(n.noted.names, e)
		return e.id, false
	}
	id := e.id
	if e.kind != byID {
		id = RowName(e.number)
	}
	if n.part != nil {
		unique, ok := n.part.Named[e.row]
		if !ok {
			return id, false
		}
		return unique, unique == ""
	}
	unique, identical = n.add(id, e.entry)
	if n.tell != nil && unique != id {
		n.tell(e.row, unique)
	}
	return unique, identical
}

func (n *Names) add(id string, entry xxh3.Uint128) (unique string, identical bool) {
	key, hash := xxh3.HashString(id), entry.Hi^entry.Lo
	first, known := n.byID[key]
	switch {
	case !known:
		n.byID[key] = hash
		return id, false
	case first == hash:
		return "", true
	}
	if _, again := n.more[entry]; again {
		return "", true
	}
	n.more[entry] = struct{}{}
	for {
		n.repeated[key]++
		unique = fmt.Sprintf("%s#%d", id, n.repeated[key]+1)
		key := xxh3.HashString(unique)
		if _, taken := n.byID[key]; !taken {
			n.byID[key] = hash
			return unique, false
		}
	}
}

// Name sets an example's id to one that is unique within the file, based on the example's id, its task and trial, or
// its row. It reports whether the entry occurred before, and counts missing and repeated ids in st.
func (n *Names) Name(ex *ttc.Example, entry xxh3.Uint128, st *Stats) (identical bool) {
	return n.name(ex, notedName{number: ex.Row, kind: byRow, entry: entry}, st)
}

// NameLine is like Name, for an example that is named after its first line instead of its row.
func (n *Names) NameLine(ex *ttc.Example, line int64, entry xxh3.Uint128, st *Stats) (identical bool) {
	return n.name(ex, notedName{number: line, kind: byLine, entry: entry}, st)
}

func (n *Names) name(ex *ttc.Example, e notedName, st *Stats) (identical bool) {
	e.row, e.id = ex.Row, ex.ID
	if e.id == "" && ex.Task != "" && ex.Trial != "" {
		e.id = ex.Task + "/" + ex.Trial
	}
	id := e.id
	if id == "" {
		id = RowName(e.number)
	} else {
		e.kind = byID
	}
	unique, identical := n.addNamed(e)
	if identical {
		ex.ID = id
		return true
	}
	if e.kind != byID {
		st.MissingIDs++
	}
	st.Renamed(id, unique)
	ex.ID = unique
	return false
}

// Renamed counts an id that was taken, if unique differs from it.
func (s *Stats) Renamed(id, unique string) {
	if unique != id {
		s.RepeatedIDs++
		s.FirstRepeat = cmp.Or(s.FirstRepeat, id)
	}
}
