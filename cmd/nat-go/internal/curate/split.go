package curate

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"

	"github.com/nat-go/nat-go/builders"
)

// A unit is a sequence of records that share all keys of unitRow, without other kept records in between. Units that
// share any key form a component.
const (
	unitKey   = 16 + 16
	spanAt    = unitKey + 16
	unitWidth = spanAt + 8 + 4
	edgeWidth = 1 + 16 + 4 // the key's index, the key, and the node
)

// addUnit extends the current unit with an entry that shares all its keys, or begins a new unit. Neighbours in the log
// usually share all keys, so there is one row per turn rather than per record. A unit may span dropped records; the
// kept method skips them.
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

// unitRow fills in a unit's row: the first key, the second key, the prompt as the third key, and the ordinal of the
// first record. It leaves room for the number of records. An all-zero second or third key connects nothing.
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
	return d.eachOf(n, chosen, func(row []byte, one bool) {
		if !one {
			return
		}
		for o := range d.kept(row) {
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

// hold drops the records that are in a component with a held record but aren't in the validation set themselves.
func (d *Index) hold(n *nodes) error {
	roots := make([]bool, len(n.parent))
	for node, held := range n.held {
		if held {
			roots[n.root(uint32(node))] = true
		}
	}
	validates := false
	err := d.eachOf(n, roots, func(row []byte, held bool) {
		for o := range d.kept(row) {
			switch {
			case d.of[o] == Validation:
				validates = true
			case held:
				d.of[o] = Dropped(Held)
			}
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
	one := make([]bool, len(n.parent))
	one[root] = true
	first := uint64(math.MaxUint64)
	err := d.eachOf(n, one, func(row []byte, one bool) {
		if !one {
			return
		}
		for o := range d.kept(row) {
			first = min(first, o)
			break
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
