package curate

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/internal/extsort"
)

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
	next := uint64(0)
	for row, err := range d.units.All() {
		if err != nil {
			return err
		}
		if !heldRow(row) && !d.anyKept(row) {
			continue
		}
		if next == 0 || key != [16]byte(row) {
			key = [16]byte(row)
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
	size int64 // kept records
}

// components lists the components in the order in which choose considers them.
type components struct {
	list    *extsort.Sorter // rows of seeded hash, root and size
	total   int64           // kept records
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

// eachOf is like each, but calls f with a row and whether the root of the row's component is among roots.
func (d *Index) eachOf(n *nodes, roots []bool, f func(row []byte, one bool)) error {
	return d.each(func(node uint32, row []byte) error {
		f(row, roots[n.root(node)])
		return nil
	})
}
