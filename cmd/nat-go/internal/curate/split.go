package curate

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/extsort"
)

// A unit is the smallest thing a split moves: the records that share both keys of unitRow. Units that share one of the
// keys or a prompt form a component.
const (
	unitKey   = 16 + 16
	spanAt    = unitKey + 16
	unitWidth = spanAt + 8 + 4
	edgeWidth = 1 + 16 + 4 // which key, key, unit
)

// addUnit adds an entry to the previous row if they share all keys: neighbours in the log mostly do, so there is one
// row per turn rather than per record. Dropped records in between are not kept, and so don't count.
func (d *Index) addUnit(e *Entry) error {
	var row [unitWidth]byte
	unitRow(&row, e, d.rules.Split.By)
	if d.entries > 0 && [spanAt]byte(row[:]) == [spanAt]byte(d.unit[:]) {
		first := binary.BigEndian.Uint64(d.unit[spanAt:])
		if n := e.Ordinal - first + 1; n <= math.MaxUint32 {
			d.entries = uint32(n)
			return nil
		}
	}
	err := d.flushUnit()
	d.unit, d.entries = row, 1
	return err
}

func (d *Index) flushUnit() error {
	if d.entries == 0 {
		return nil
	}
	binary.BigEndian.PutUint32(d.unit[spanAt+8:], d.entries)
	d.entries = 0
	return d.units.Add(d.unit[:])
}

// unitRow is: first key, second key, prompt, ordinal of the first record, number of records. An all-zero second key or
// prompt connects nothing.
func unitRow(row *[unitWidth]byte, e *Entry, by By) {
	var none [16]byte
	first, second := &e.Example, &none
	if by == ByTask && e.Task != none {
		first, second = &e.Task, &e.Example
	}
	if e.Kind == builders.KindRollout && by != ByTask { // advantages are computed within a task
		second = &e.Task
	}
	copy(row[:], first[:])
	copy(row[16:], second[:])
	copy(row[unitKey:], e.Prompt[:])
	binary.BigEndian.PutUint64(row[spanAt:], e.Ordinal)
}

// kept yields the records of a row that are still kept.
func (d *Index) kept(row []byte) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		first := binary.BigEndian.Uint64(row[spanAt:])
		for o := first; o < first+uint64(binary.BigEndian.Uint32(row[spanAt+8:])); o++ {
			if d.of[o].Kept() && !yield(o) {
				return
			}
		}
	}
}

// split chooses a side for every record that is still kept.
func (d *Index) split() error {
	if d.rules.Split.Validation > 0 && d.rules.Split.By == ByPosition {
		d.splitByPosition()
		return nil
	}
	if d.units == nil {
		return nil
	}
	u := &units{seed: d.rules.Split.Seed, edges: extsort.New(edgeWidth, d.rules.Memory/4, d.tmp)}
	defer u.edges.Close()
	if err := u.collect(d); err != nil {
		return err
	}
	if err := u.connect(); err != nil {
		return err
	}
	if d.rules.Hold {
		return d.hold(u)
	}
	components, total := u.components()
	if total == 0 {
		return nil
	}
	largest := slices.MaxFunc(components, func(a, b component) int { return cmp.Compare(a.size, b.size) })
	if 2*largest.size > total && (d.rules.Split.Required || len(components) == 1) {
		name, err := d.nameOf(u, largest.root)
		if err != nil {
			return err
		}
		e := &SplitError{First: name, Largest: largest.size, Total: total, By: d.rules.Split.By}
		if d.rules.Split.Required {
			return e
		}
		if d.warning = "there is no validation set: the only record is trained on"; total > 1 {
			d.warning = fmt.Sprintf("there is no validation set, all %d records train: they are connected by %s or by shared prompts"+
				" (the first is %s), and a split never divides those", total, e.by(), name)
		}
		return nil
	}
	chosen, size := choose(components, total, d.rules.Split.Validation)
	if got, want := float64(size)/float64(total), d.rules.Split.Validation; math.Abs(got-want) > 0.1 {
		d.warning = fmt.Sprintf("the validation set is %.0f %% of the records where %.0f %% were asked for: a split never divides records"+
			" that share %s or a prompt, and there are only %d groups of those", 100*got, 100*want, d.splitUnit(), len(components))
	}
	validates := make([]bool, len(u.parent)) // by root
	for _, c := range chosen {
		validates[c.root] = true
	}
	return u.each(d, func(id uint32, row []byte) error {
		if validates[u.find(id)] {
			for o := range d.kept(row) {
				d.of[o] = Validation
			}
		}
		return nil
	})
}

// hold drops records that share anything with the validation side being kept without belonging to it.
func (d *Index) hold(u *units) error {
	holds := make([]bool, len(u.parent)) // by root
	for _, id := range u.held {
		holds[u.find(id)] = true
	}
	validates := false
	err := u.each(d, func(id uint32, row []byte) error {
		for o := range d.kept(row) {
			switch {
			case d.of[o] == Validation:
				validates = true
			case holds[u.find(id)]:
				d.of[o] = Dropped(Held)
			}
		}
		return nil
	})
	if !validates {
		d.warning = "none of the records is of the validation side that is kept: all train but those that share something with it"
	}
	return err
}

func (d *Index) splitUnit() string { return (&SplitError{By: d.rules.Split.By}).by() }

func (d *Index) splitByPosition() {
	n := 0
	for _, x := range d.of {
		if x.Kept() {
			n++
		}
	}
	train := max(1, int((1-d.rules.Split.Validation)*float64(n)))
	i := 0
	for o, x := range d.of {
		if !x.Kept() {
			continue
		}
		switch {
		case n == 1:
			d.of[o] = Both
		case i >= train:
			d.of[o] = Validation
		}
		i++
	}
}

// nameOf names the first record of a component.
func (d *Index) nameOf(u *units, root uint32) (string, error) {
	first := uint64(math.MaxUint64)
	err := u.each(d, func(id uint32, row []byte) error {
		if u.find(id) == root {
			for o := range d.kept(row) {
				first = min(first, o)
				break
			}
		}
		return nil
	})
	if d.rules.Name == nil {
		return fmt.Sprintf("record %d", first), err
	}
	return d.rules.Name(first), err
}

// heldRow reports whether a row is from a validation side being kept: it spans no record.
func heldRow(row []byte) bool { return binary.BigEndian.Uint64(row[spanAt:]) == heldOrdinal }

func (d *Index) anyKept(row []byte) bool {
	for range d.kept(row) {
		return true
	}
	return false
}

// units are numbered in the order of their keys. A component's root is its smallest unit, so neither depends on
// arrival.
type units struct {
	seed   uint64
	edges  *extsort.Sorter
	parent []uint32
	size   []uint32 // records of a unit
	rank   []uint64 // seeded hash of a unit's keys
	held   []uint32 // units of a validation side being kept
}

// each calls f for every row with kept records, with the number of its unit.
func (u *units) each(d *Index, f func(id uint32, row []byte) error) error {
	var key [unitKey]byte
	next := uint64(0)
	for row, err := range d.units.All() {
		if err != nil {
			return err
		}
		if !heldRow(row) && !d.anyKept(row) {
			continue
		}
		if next == 0 || !bytes.Equal(key[:], row[:unitKey]) {
			key = [unitKey]byte(row)
			if next++; next > math.MaxUint32 {
				return errTooMany
			}
		}
		if err := f(uint32(next-1), row); err != nil {
			return err
		}
	}
	return nil
}

// collect numbers and counts the units, and lists what connects them.
func (u *units) collect(d *Index) error {
	var first, second, prompt [16]byte // of the previous row
	var none [16]byte
	var edge [edgeWidth]byte
	return u.each(d, func(id uint32, row []byte) error {
		fresh := int(id) == len(u.parent)
		if fresh {
			u.parent = append(u.parent, id)
			u.size = append(u.size, 0)
			u.rank = append(u.rank, xxh3.HashSeed(row[:unitKey], u.seed))
			if id > 0 && first == [16]byte(row[:16]) {
				u.union(id-1, id)
			}
			first, second = [16]byte(row[:16]), [16]byte(row[16:32])
			if second != none {
				if err := u.edges.Add(edgeRow(edge[:0], 's', second[:], id)); err != nil {
					return err
				}
			}
		}
		for range d.kept(row) {
			u.size[id]++
		}
		if n := len(u.held); heldRow(row) && (n == 0 || u.held[n-1] != id) {
			u.held = append(u.held, id)
		}
		if p := [16]byte(row[unitKey:]); p != none && (fresh || p != prompt) {
			prompt = p
			return u.edges.Add(edgeRow(edge[:0], 'p', p[:], id))
		}
		return nil
	})
}

func edgeRow(row []byte, which byte, key []byte, id uint32) []byte {
	return binary.BigEndian.AppendUint32(append(append(row, which), key...), id)
}

// connect joins the units that share a key.
func (u *units) connect() error {
	var key [17]byte
	var last uint32
	for row, err := range u.edges.All() {
		if err != nil {
			return err
		}
		id := binary.BigEndian.Uint32(row[17:])
		if bytes.Equal(key[:], row[:17]) {
			u.union(last, id)
		}
		key, last = [17]byte(row), id
	}
	return nil
}

func (u *units) find(id uint32) uint32 {
	for u.parent[id] != id {
		u.parent[id] = u.parent[u.parent[id]]
		id = u.parent[id]
	}
	return id
}

func (u *units) union(a, b uint32) {
	if a, b = u.find(a), u.find(b); a != b {
		u.parent[max(a, b)] = min(a, b)
	}
}

// component is a set of units that must not be divided.
type component struct {
	rank uint64
	root uint32
	size int64 // records
}

// components lists the components in the order they are drawn, and counts all records.
func (u *units) components() (list []component, total int64) {
	for id, n := range u.size {
		total += int64(n)
		if root := u.find(uint32(id)); root != uint32(id) {
			u.size[root] += n
		}
	}
	for id, root := range u.parent {
		if root == uint32(id) {
			list = append(list, component{rank: u.rank[id], root: root, size: int64(u.size[id])})
		}
	}
	slices.SortFunc(list, func(a, b component) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.root, b.root))
	})
	return list, total
}

// choose picks, in order, every component that brings the validation set closer to its share; at least one, and never
// all. There must be two or more.
func choose(components []component, total int64, share float64) (chosen []component, size int64) {
	want := share * float64(total)
	for _, c := range components {
		if float64(size)+float64(c.size)/2 < want && size+c.size < total {
			chosen = append(chosen, c)
			size += c.size
		}
	}
	if size == 0 {
		least := slices.MinFunc(components, func(a, b component) int { return cmp.Compare(a.size, b.size) })
		return []component{least}, least.size
	}
	return chosen, size
}
