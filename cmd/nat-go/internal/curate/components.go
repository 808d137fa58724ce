package curate

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/internal/extsort"
)

// A table is a sorted list of rows of numbers. It is on disk if it is long.
type table struct {
	*extsort.Sorter
	row []byte
}

const numberWidth = 4

func newTable(columns int, memory int64, tmp string) *table {
	return &table{Sorter: extsort.New(columns*numberWidth, memory, tmp)}
}

// add adds a row.
func (t *table) add(numbers ...uint32) error {
	t.row = t.row[:0]
	for _, n := range numbers {
		t.row = binary.BigEndian.AppendUint32(t.row, n)
	}
	return t.Add(t.row)
}

// column returns a number of a row.
func column(row []byte, i int) uint32 { return binary.BigEndian.Uint32(row[i*numberWidth:]) }

// wideColumn returns a number that takes two columns.
func wideColumn(row []byte, i int) uint64 { return binary.BigEndian.Uint64(row[i*numberWidth:]) }

func high(n uint64) uint32 { return uint32(n >> 32) }
func low(n uint64) uint32  { return uint32(n & math.MaxUint32) }

// lookup finds rows of a table by their first number, in ascending order.
type lookup struct {
	next func() ([]byte, error, bool)
	stop func()
	row  []byte // nil: the end
	err  error
}

func (t *table) lookup() *lookup {
	l := &lookup{}
	l.next, l.stop = iter.Pull2(t.All())
	l.skip()
	return l
}

// skip passes over a row.
func (l *lookup) skip() {
	var ok bool
	if l.row, l.err, ok = l.next(); !ok || l.err != nil {
		l.row = nil
	}
}

// at returns the first row that begins with a number and was not passed over, or nil. The numbers of calls ascend.
func (l *lookup) at(n uint32) ([]byte, error) {
	for l.row != nil && column(l.row, 0) < n {
		l.skip()
	}
	if l.row == nil || column(l.row, 0) != n {
		return nil, l.err
	}
	return l.row, nil
}

// A node stands for the units that share their first key. Nodes are numbered in the order of these keys; those that
// share anything form a component, whose root is its first node. So neither depends on arrival.
type nodes struct {
	memory int64 // of each table
	tmp    string
	tables []*table

	all   *table          // node, rank in two columns, records in two columns
	held  *table          // nodes of a validation side being kept
	keys  *extsort.Sorter // see edgeRow
	roots *table          // node, root: for each node that is not the root of its component
}

func (n *nodes) table(columns int) *table {
	t := newTable(columns, n.memory, n.tmp)
	n.tables = append(n.tables, t)
	return t
}

func (n *nodes) close() {
	n.keys.Close()
	for _, t := range n.tables {
		t.Close()
	}
}

// nodes finds the components of all rows with kept records. Memory is flat, whatever they are connected by.
func (d *Index) nodes() (_ *nodes, err error) {
	n := &nodes{memory: max(1, d.rules.Memory/8), tmp: d.tmp, keys: extsort.New(edgeWidth, d.rules.Memory/4, d.tmp)}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	n.all, n.held = n.table(5), n.table(1)
	if err := n.collect(d); err != nil {
		return nil, err
	}
	edges, err := n.edges()
	if err != nil {
		return nil, err
	}
	n.roots, err = n.contract(edges)
	return n, err
}

// each calls f for every row with kept records, with the number of its node.
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

// collect lists the nodes, and the keys that may connect them.
func (n *nodes) collect(d *Index) error {
	var before [spanAt]byte // keys of the previous row
	var none [16]byte
	var edge [edgeWidth]byte
	var rank, size uint64
	count, held := int64(0), int64(-1)
	end := func() error {
		if count == 0 {
			return nil
		}
		return n.all.add(uint32(count-1), high(rank), low(rank), high(size), low(size))
	}
	err := d.each(func(node uint32, row []byte) error {
		fresh := int64(node) == count
		if fresh {
			if err := end(); err != nil {
				return err
			}
			count++
			rank, size = xxh3.HashSeed(row[:unitKey], d.rules.Split.Seed), 0
		}
		for range d.kept(row) {
			size++
		}
		if heldRow(row) && held != int64(node) {
			held = int64(node)
			if err := n.held.add(node); err != nil {
				return err
			}
		}
		keys := [spanAt]byte(row)
		for which, at := range []int{16, unitKey} { // the second key, the prompt
			key := [16]byte(keys[at:])
			if key == none || !fresh && key == [16]byte(before[at:]) {
				continue
			}
			if err := n.keys.Add(edgeRow(edge[:0], byte(which), key[:], node)); err != nil {
				return err
			}
		}
		before = keys
		return nil
	})
	if err == nil {
		err = end()
	}
	return err
}

func edgeRow(row []byte, which byte, key []byte, node uint32) []byte {
	return binary.BigEndian.AppendUint32(append(append(row, which), key...), node)
}

// edges returns the edges between the nodes that share a key, in both directions.
func (n *nodes) edges() (*table, error) {
	defer n.keys.Close()
	edges := n.table(2)
	var key [17]byte
	var first, last uint32
	begun := false
	for row, err := range n.keys.All() {
		if err != nil {
			return nil, err
		}
		node := binary.BigEndian.Uint32(row[17:])
		if !begun || !bytes.Equal(key[:], row[:17]) {
			key, first, last, begun = [17]byte(row), node, node, true
			continue
		}
		if node == last {
			continue
		}
		last = node
		if err := edges.add(first, node); err != nil {
			return nil, err
		}
		if err := edges.add(node, first); err != nil {
			return nil, err
		}
	}
	return edges, nil
}

// contract returns the root of each node that isn't one. Each round links all nodes to their first neighbours, as far
// as those come before them, and replaces the nodes by the roots of the trees that this makes.
func (n *nodes) contract(edges *table) (roots *table, err error) {
	all := n.table(2)
	for edges.Len() > 0 {
		links, err := n.link(edges)
		if err != nil {
			return nil, err
		}
		if links, err = n.flatten(links); err != nil {
			return nil, err
		}
		for row, err := range links.All() {
			if err == nil {
				err = all.Add(row)
			}
			if err != nil {
				return nil, err
			}
		}
		if edges, err = n.replace(edges, links); err != nil {
			return nil, err
		}
		links.Close()
	}
	edges.Close()
	return n.flatten(all)
}

// link links each node to its first neighbour if that comes before it.
func (n *nodes) link(edges *table) (*table, error) {
	links := n.table(2)
	last, begun := uint32(0), false
	for row, err := range edges.All() {
		if err != nil {
			return nil, err
		}
		node, neighbour := column(row, 0), column(row, 1)
		if begun && node == last {
			continue
		}
		last, begun = node, true
		if neighbour < node {
			if err := links.Add(row); err != nil {
				return nil, err
			}
		}
	}
	return links, nil
}

// flatten returns links that lead to where following the given ones ends. It closes those.
func (n *nodes) flatten(links *table) (*table, error) {
	for {
		byTarget := n.table(2)
		for row, err := range links.All() {
			if err == nil {
				err = byTarget.add(column(row, 1), column(row, 0))
			}
			if err != nil {
				return nil, err
			}
		}
		shorter, changed := n.table(2), false
		further := links.lookup()
		err := byTarget.each(func(row []byte) error {
			target := column(row, 0)
			next, err := further.at(target)
			if err != nil {
				return err
			}
			if next != nil {
				target, changed = column(next, 1), true
			}
			return shorter.add(column(row, 1), target)
		})
		further.stop()
		byTarget.Close()
		links.Close()
		if links = shorter; err != nil || !changed {
			return links, err
		}
	}
}

// each calls f for each row, leaving out repeated ones.
func (t *table) each(f func(row []byte) error) error {
	var last []byte
	for row, err := range t.All() {
		if err != nil {
			return err
		}
		if last != nil && bytes.Equal(last, row) {
			continue
		}
		last = append(last[:0], row...)
		if err := f(row); err != nil {
			return err
		}
	}
	return nil
}

// replace returns the edges between what the nodes of edges are linked to. It closes those.
func (n *nodes) replace(edges, links *table) (*table, error) {
	half, err := n.replaceFirst(edges, links)
	if err != nil {
		return nil, err
	}
	return n.replaceFirst(half, links)
}

// replaceFirst returns the edges with their first node replaced by what it is linked to, and turned round. It leaves
// out those from a node to itself, and closes the given ones.
func (n *nodes) replaceFirst(edges, links *table) (*table, error) {
	turned := n.table(2)
	to := links.lookup()
	defer to.stop()
	defer edges.Close()
	return turned, edges.each(func(row []byte) error {
		from := column(row, 0)
		link, err := to.at(from)
		if err != nil {
			return err
		}
		if link != nil {
			from = column(link, 1)
		}
		if from == column(row, 1) {
			return nil
		}
		return turned.add(column(row, 1), from)
	})
}

// component is a set of nodes that must not be divided.
type component struct {
	rank uint64
	root uint32
	size int64 // records
}

// components are listed in the order they are drawn.
type components struct {
	list    *table // rank in two columns, root, size in two columns
	total   int64  // records
	largest component
}

func (c *components) len() int64 { return c.list.Len() }

// each calls f for each component.
func (c *components) each(f func(component) error) error {
	for row, err := range c.list.All() {
		if err == nil {
			err = f(component{rank: wideColumn(row, 0), root: column(row, 2), size: int64(wideColumn(row, 3))})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// components lists the components, and counts all records.
func (n *nodes) components() (*components, error) {
	members, err := n.members()
	if err != nil {
		return nil, err
	}
	defer members.Close()
	c := &components{list: n.table(5)}
	rooted, sizes := n.roots.lookup(), members.lookup()
	defer rooted.stop()
	defer sizes.stop()
	return c, n.all.each(func(row []byte) error {
		x := component{rank: wideColumn(row, 1), root: column(row, 0), size: int64(wideColumn(row, 3))}
		root, err := rooted.at(x.root)
		if err != nil || root != nil {
			return err
		}
		for {
			member, err := sizes.at(x.root)
			if err != nil {
				return err
			}
			if member == nil {
				break
			}
			x.size += int64(wideColumn(member, 2))
			sizes.skip()
		}
		c.total += x.size
		if x.size > c.largest.size {
			c.largest = x
		}
		return c.list.add(high(x.rank), low(x.rank), x.root, high(uint64(x.size)), low(uint64(x.size)))
	})
}

// members lists the nodes that aren't roots: root, node, records in two columns.
func (n *nodes) members() (*table, error) {
	members := n.table(4)
	rooted := n.roots.lookup()
	defer rooted.stop()
	return members, n.all.each(func(row []byte) error {
		root, err := rooted.at(column(row, 0))
		if err != nil || root == nil {
			return err
		}
		return members.add(column(root, 1), column(row, 0), column(row, 3), column(row, 4))
	})
}

// choose picks, in order, every component that brings the validation set closer to its share; at least one, and never
// all. There must be two or more. It returns their roots.
func (n *nodes) choose(c *components, share float64) (chosen *table, size int64, err error) {
	want := share * float64(c.total)
	least := component{size: math.MaxInt64}
	chosen = n.table(1)
	err = c.each(func(x component) error {
		if x.size < least.size {
			least = x
		}
		if float64(size)+float64(x.size)/2 >= want || size+x.size >= c.total {
			return nil
		}
		size += x.size
		return chosen.add(x.root)
	})
	if err == nil && size == 0 {
		size, err = least.size, chosen.add(least.root)
	}
	return chosen, size, err
}

// inComponents lists the nodes of the components with the given roots, which may be repeated.
func (n *nodes) inComponents(roots *table) (*table, error) {
	byRoot := n.table(2) // root, node
	defer byRoot.Close()
	for row, err := range n.roots.All() {
		if err == nil {
			err = byRoot.add(column(row, 1), column(row, 0))
		}
		if err != nil {
			return nil, err
		}
	}
	all, members := n.table(1), byRoot.lookup()
	defer members.stop()
	return all, roots.each(func(row []byte) error {
		root := column(row, 0)
		if err := all.add(root); err != nil {
			return err
		}
		for {
			member, err := members.at(root)
			if err != nil || member == nil {
				return err
			}
			if err := all.add(column(member, 1)); err != nil {
				return err
			}
			members.skip()
		}
	})
}

// rootsOf lists the roots of the components of nodes.
func (n *nodes) rootsOf(some *table) (*table, error) {
	roots, rooted := n.table(1), n.roots.lookup()
	defer rooted.stop()
	return roots, some.each(func(row []byte) error {
		root, err := rooted.at(column(row, 0))
		switch {
		case err != nil:
			return err
		case root != nil:
			return roots.add(column(root, 1))
		}
		return roots.Add(row)
	})
}

// eachOf calls f for every row with kept records, and says whether its node is one of some.
func (d *Index) eachOf(some *table, f func(row []byte, one bool)) error {
	found := some.lookup()
	defer found.stop()
	return d.each(func(node uint32, row []byte) error {
		one, err := found.at(node)
		if err == nil {
			f(row, one != nil)
		}
		return err
	})
}
