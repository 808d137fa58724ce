package curate

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"math"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/extsort"
)

// A unit is a sequence of records that share all keys of unitRow, without other kept records in between. Units that
// share any key form a component.
const (
	unitKey   = 16 + 16
	spanAt    = unitKey + 16
	unitWidth = spanAt + 8 + 4
	edgeWidth = 1 + 16 + 4 // the key's index, the key, and the node
)

// addUnit extends the current unit with an entry that shares all its keys, or begins a new unit. Adjacent records in
// the log usually share all keys, so there is about one row per turn instead of one per record. A unit may span
// dropped records; the kept method skips them.
func (d *Index) addUnit(e *Entry) error {
	var row [unitWidth]byte
	unitRow(&row, e, d.rules.Split.By)
	if d.entries > 0 && [spanAt]byte(row[:]) == [spanAt]byte(d.unit[:]) {
		// The number fits into 32 bits, because a log has at most 1<<28 records.
		d.entries = uint32(e.Ordinal - binary.BigEndian.Uint64(d.unit[spanAt:]) + 1)
		return nil
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

// unitRow fills in a unit's row: the first key, the second key, the prompt as the third key, and the ordinal of the
// first record. It leaves room for the number of records. A second or third key that is zero does not connect units.
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
	n, err := d.nodes()
	if err != nil {
		return err
	}
	if d.rules.Hold {
		return d.hold(n)
	}
	c, err := n.components(d)
	if err != nil {
		return err
	}
	defer c.list.Close()
	if c.total == 0 {
		return nil
	}
	if 2*c.largest.size > c.total && (d.rules.Split.Required || c.list.Len() == 1) {
		return d.noSplit(n, c)
	}
	chosen, size, err := n.choose(c, d.rules.Split.Validation)
	if err != nil {
		return err
	}
	if got, want := float64(size)/float64(c.total), d.rules.Split.Validation; math.Abs(got-want) > 0.1 {
		d.warning = fmt.Sprintf("the validation set is %.0f %% of the records instead of %.0f %%: a split never separates records"+
			" that share %s or a prompt, and these form only %d groups", 100*got, 100*want, d.rules.Split.By.unit(), c.list.Len())
	}
	return d.eachKept(n, func(root uint32, o uint64) {
		if chosen[root] {
			d.of[o] = Validation
		}
	})
}

// noSplit returns a *SplitError if a validation set is required. Otherwise it sets a warning that the data set doesn't
// have one.
func (d *Index) noSplit(n *nodes, c *components) error {
	name, err := d.nameOf(n, c.largest.root)
	if err != nil {
		return err
	}
	e := &SplitError{First: name, Largest: c.largest.size, Total: c.total, By: d.rules.Split.By}
	if d.rules.Split.Required {
		return e
	}
	if d.warning = "there is no validation set: the only record is used for training"; c.total > 1 {
		d.warning = fmt.Sprintf("no validation set: all %d records are used for training, because they are connected by %s or a shared prompt"+
			" (the first is %s), and a split never separates connected records", c.total, e.By.unit(), name)
	}
	return nil
}

// hold drops the records in components of held records, except for records in the validation set.
func (d *Index) hold(n *nodes) error {
	roots := make([]bool, len(n.parent))
	for node, held := range n.held {
		if held {
			roots[n.root(uint32(node))] = true
		}
	}
	validates := false
	err := d.eachKept(n, func(root uint32, o uint64) {
		switch {
		case d.of[o] == Validation:
			validates = true
		case roots[root]:
			d.of[o] = Dropped(Held)
		}
	})
	if !validates {
		d.warning = "no record is on the kept validation side: all are used for training, except those dropped " +
			"because they share a task, example or prompt with it"
	}
	return err
}

func (d *Index) splitByPosition() {
	n := (&Decisions{of: d.of}).Kept()
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
func (d *Index) nameOf(n *nodes, root uint32) (string, error) {
	first := uint64(math.MaxUint64)
	err := d.eachKept(n, func(of uint32, o uint64) {
		if of == root {
			first = min(first, o)
		}
	})
	if d.rules.Name == nil {
		return fmt.Sprintf("record %d", first), err
	}
	return d.rules.Name(first), err
}

// heldRow reports whether a row was added by Hold. Such a row doesn't span any records.
func heldRow(row []byte) bool { return binary.BigEndian.Uint64(row[spanAt:]) == heldOrdinal }

func (d *Index) anyKept(row []byte) bool {
	for range d.kept(row) {
		return true
	}
	return false
}

// nodes groups the units into components. A node represents all units with the same first key. Nodes are numbered in
// key order. Nodes that share a second or third key are in the same component, whose root is its lowest-numbered node.
// Numbers and roots therefore don't depend on the order of the records. A node takes nine bytes of memory.
type nodes struct {
	parent []uint32 // for each node, itself or an earlier node in its component
	size   []uint32 // number of kept records in each node or, for a root, in its component
	held   []bool   // for each node, whether it has a unit added by Hold
}

// nodes collects the nodes of all rows that d.each visits, and joins them into components.
func (d *Index) nodes() (*nodes, error) {
	n := &nodes{}
	keys := extsort.New(edgeWidth, d.rules.Memory/4, d.tmp)
	defer keys.Close()
	if err := n.collect(d, keys); err != nil {
		return nil, err
	}
	var key [17]byte
	var first uint32
	begun := false
	for row, err := range keys.All() {
		if err != nil {
			return nil, err
		}
		node := binary.BigEndian.Uint32(row[17:])
		if begun && bytes.Equal(key[:], row[:17]) {
			n.join(first, node)
			continue
		}
		key, first, begun = [17]byte(row), node, true
	}
	return n, nil
}

// each calls f, in key order, for every row that has kept records or was added by Hold, with the row's node number.
func (d *Index) each(f func(node uint32, row []byte) error) error {
	var key [16]byte
	next := uint32(0)
	for row, err := range d.units.All() {
		if err != nil {
			return err
		}
		if !heldRow(row) && !d.anyKept(row) {
			continue
		}
		if next == 0 || key != [16]byte(row) {
			key = [16]byte(row)
			next++
		}
		if err := f(next-1, row); err != nil {
			return err
		}
	}
	return nil
}

// collect fills in the nodes, but doesn't join them. It fills edges with the keys that may connect nodes.
func (n *nodes) collect(d *Index, edges *extsort.Sorter) error {
	var before [spanAt]byte // keys of the previous row
	var none [16]byte
	var edge [edgeWidth]byte
	return d.each(func(node uint32, row []byte) error {
		fresh := int(node) == len(n.parent)
		if fresh {
			n.parent, n.size, n.held = append(n.parent, node), append(n.size, 0), append(n.held, false)
		}
		for range d.kept(row) {
			n.size[node]++
		}
		if heldRow(row) {
			n.held[node] = true
		}
		keys := [spanAt]byte(row)
		for which, at := range []int{16, unitKey} { // offsets of the second key and of the third key, the prompt
			key := [16]byte(keys[at:])
			if key == none || !fresh && key == [16]byte(before[at:]) {
				continue
			}
			row := append(append(edge[:0], byte(which)), key[:]...)
			if err := edges.Add(binary.BigEndian.AppendUint32(row, node)); err != nil {
				return err
			}
		}
		before = keys
		return nil
	})
}

// root returns the first node of a node's component.
func (n *nodes) root(node uint32) uint32 {
	for n.parent[node] != node {
		n.parent[node] = n.parent[n.parent[node]]
		node = n.parent[node]
	}
	return node
}

// join unites the components of two nodes.
func (n *nodes) join(a, b uint32) {
	if a, b = n.root(a), n.root(b); a != b {
		first, second := min(a, b), max(a, b)
		n.parent[second] = first
		n.size[first] += n.size[second]
	}
}

// component is a set of nodes that must not be separated.
type component struct {
	root uint32
	size int64 // number of kept records
}

// components lists the components in the order in which choose considers them.
type components struct {
	list    *extsort.Sorter // rows of seeded hash, root and size
	total   int64           // number of kept records
	largest component
}

// components lists the components, sorted by seeded hash. The caller closes the list.
func (n *nodes) components(d *Index) (*components, error) {
	c := &components{list: extsort.New(8+4+8, d.rules.Memory/8, d.tmp)}
	next := uint32(0)
	err := d.each(func(node uint32, row []byte) error {
		if node != next {
			return nil
		}
		next++
		if n.root(node) != node {
			return nil
		}
		x := component{node, int64(n.size[node])}
		c.total += x.size
		if x.size > c.largest.size {
			c.largest = x
		}
		b := binary.BigEndian.AppendUint64(nil, xxh3.HashSeed(row[:unitKey], d.rules.Split.Seed))
		b = binary.BigEndian.AppendUint32(b, x.root)
		return c.list.Add(binary.BigEndian.AppendUint64(b, uint64(x.size)))
	})
	if err != nil {
		c.list.Close()
		return nil, err
	}
	return c, nil
}

// choose picks, in order, every component that brings the validation set closer to its share. It picks at least one
// component and never all of them, so c must list at least two. chosen reports, for each node, whether it is the root
// of a chosen component. size is the number of records in the chosen components.
func (n *nodes) choose(c *components, share float64) (chosen []bool, size int64, err error) {
	want := share * float64(c.total)
	smallest := component{size: math.MaxInt64}
	chosen = make([]bool, len(n.parent))
	for row, err := range c.list.All() {
		if err != nil {
			return nil, 0, err
		}
		x := component{binary.BigEndian.Uint32(row[8:]), int64(binary.BigEndian.Uint64(row[12:]))}
		if x.size < smallest.size {
			smallest = x
		}
		if float64(size)+float64(x.size)/2 >= want || size+x.size >= c.total {
			continue
		}
		size += x.size
		chosen[x.root] = true
	}
	if size == 0 {
		size, chosen[smallest.root] = smallest.size, true
	}
	return chosen, size, nil
}

// eachKept calls f for every record that is still kept, with the root of its component.
func (d *Index) eachKept(n *nodes, f func(root uint32, ordinal uint64)) error {
	return d.each(func(node uint32, row []byte) error {
		root := n.root(node)
		for o := range d.kept(row) {
			f(root, o)
		}
		return nil
	})
}
