package curate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc/extsort"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Decide applies the rules to the entries of a run, which it reads once: see Index.
func Decide(entries iter.Seq2[Entry, error], rules Rules, tmp string) (*Decisions, error) {
	d, err := NewIndex(rules, tmp)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	for e, err := range entries {
		if err == nil {
			err = d.Add(e)
		}
		if err != nil {
			return nil, err
		}
	}
	return d.Decide()
}

// NewIndex returns an empty index for the rules. What outgrows the memory goes to temporary files in tmp.
func NewIndex(rules Rules, tmp string) (*Index, error) {
	if rules.Memory <= 0 {
		rules.Memory = DefaultMemory
	}
	d := &Index{rules: rules, tmp: tmp}
	if err := d.open(); err != nil {
		return nil, err
	}
	d.Expect(rules.Expect)
	return d, nil
}

// Decide applies the rules, once. A split that the user asked for and the data can't give is a *SplitError.
func (d *Index) Decide() (*Decisions, error) {
	d.sort()
	for _, rule := range []func() error{d.dropContradictions, d.dropCopies, d.sample, d.split} {
		if err := rule(); err != nil {
			return nil, err
		}
	}
	return &Decisions{of: d.of, Warning: d.warning}, nil
}

// sort sorts the projections, the largest beside the others.
func (d *Index) sort() {
	var other sync.WaitGroup
	if d.units != nil {
		other.Go(d.units.Sort)
	}
	for _, s := range []*extsort.Sorter{d.pairs, d.copies} {
		if s != nil {
			s.Sort()
		}
	}
	other.Wait()
}

// Index takes in what is to be decided on, an entry a record. It holds the decisions so far and a projection of the entries
// for each rule; a rule that is off has none.
type Index struct {
	rules   Rules
	tmp     string
	of      []Decision
	warning string
	row     [unitWidth]byte // scratch of Add

	pairs  *extsort.Sorter // pair of texts 16, direction 1, ordinal 8
	copies *extsort.Sorter // content 16, kind 1, ordinal 8
	draws  *extsort.Sorter // seeded hash 16, ordinal 8
	units  *extsort.Sorter // see unitRow
}

const (
	pairWidth = 16 + 1 + 8
	copyWidth = 16 + 1 + 8
	drawWidth = 16 + 8
)

// Add takes the next entry into the projections that the rules need.
func (d *Index) Add(e Entry) (err error) {
	switch {
	case e.Ordinal != uint64(len(d.of)):
		return fmt.Errorf("curate: record %d where record %d was due", e.Ordinal, len(d.of))
	case e.Kind < builders.KindPreference || e.Kind > builders.KindDistillation:
		return fmt.Errorf("curate: record %d is of the unknown kind %d", e.Ordinal, e.Kind)
	}
	d.of = append(d.of, e.Drop)
	if !e.Drop.Kept() {
		return nil
	}
	row := d.row[:0]
	if d.pairs != nil && e.Kind == builders.KindPreference {
		err = d.pairs.Add(pairRow(row, &e))
	}
	if d.copies != nil && err == nil {
		r := append(append(row, e.Content[:]...), byte(e.Kind))
		err = d.copies.Add(binary.BigEndian.AppendUint64(r, e.Ordinal))
	}
	if d.units != nil && err == nil {
		err = d.units.Add(unitRow(row, &e, d.rules.Split.By))
	}
	return err
}

func (d *Index) open() error {
	if v := d.rules.Split.Validation; !(v >= 0 && v < 1) {
		return fmt.Errorf("the validation share is %v; it must be at least 0 and less than 1", v)
	}
	if d.rules.Contradictions {
		d.pairs = d.sorter(pairWidth, 4)
	}
	if d.rules.Dedupe || d.rules.MaxPairs > 0 {
		d.copies = d.sorter(copyWidth, 4)
	}
	if d.rules.MaxPairs > 0 {
		d.draws = extsort.New(drawWidth, d.rules.Memory/4, d.tmp)
	}
	switch by := d.rules.Split.By; {
	case d.rules.Split.Validation == 0 || by == ByPosition:
	case by == ByTask || by == ByExample || by == ByNone:
		d.units = d.sorter(unitWidth, 2)
	default:
		return fmt.Errorf("a split by %q: it can be by %q, %q or %q", by, ByTask, ByExample, ByNone)
	}
	return nil
}

// sorter returns a sorter for all entries with its part of the memory.
func (d *Index) sorter(width int, part int64) *extsort.Sorter {
	return extsort.New(width, d.rules.Memory/part, d.tmp)
}

// Len is the number of entries.
func (d *Index) Len() uint64 { return uint64(len(d.of)) }

// Expect makes room for n entries in all, as far as the budget goes. It is a hint.
func (d *Index) Expect(n uint64) {
	have := uint64(len(d.of))
	if n <= have {
		return
	}
	d.of = slices.Grow(d.of, int(min(n-have, 1<<24)))
	for _, s := range []*extsort.Sorter{d.pairs, d.copies, d.units} {
		if s != nil {
			s.Expect(n - have)
		}
	}
}

// Close releases memory and disk.
func (d *Index) Close() {
	for _, s := range []*extsort.Sorter{d.pairs, d.copies, d.draws, d.units} {
		if s != nil {
			s.Close()
		}
	}
}

// pairRow is the same for A>B and B>A but for the direction.
func pairRow(row []byte, e *Entry) []byte {
	var key [16 + 8 + 2*16]byte
	low, high, direction := &e.Chosen, &e.Rejected, byte(0)
	if bytes.Compare(low[:], high[:]) > 0 {
		low, high, direction = high, low, 1
	}
	k := append(append(append(append(key[:0], e.Prompt[:]...), e.Score[:]...), low[:]...), high[:]...)
	sum := xxh3.Hash128(k).Bytes()
	return binary.BigEndian.AppendUint64(append(append(row, sum[:]...), direction), e.Ordinal)
}

// dropContradictions drops every record of a pair of texts that is there in both directions.
func (d *Index) dropContradictions() error {
	if d.pairs == nil {
		return nil
	}
	var key [16]byte
	var forward []uint64 // records of this pair in direction 0, which sort first
	for row, err := range d.pairs.All() {
		if err != nil {
			return err
		}
		if !bytes.Equal(row[:16], key[:]) {
			key, forward = [16]byte(row[:16]), forward[:0]
		}
		ordinal := binary.BigEndian.Uint64(row[17:])
		if row[16] == 0 {
			forward = append(forward, ordinal)
			continue
		}
		if len(forward) > 0 {
			d.of[ordinal] = Dropped(ledger.Contradiction)
			for _, o := range forward {
				d.of[o] = Dropped(ledger.Contradiction)
			}
			// One mark a record is enough; keep that the group is contradictory.
			forward = forward[:1]
		}
	}
	d.pairs.Close()
	return nil
}

// dropCopies keeps the first record of a content, and draws a number for every preference that is left.
func (d *Index) dropCopies() error {
	if d.copies == nil {
		return nil
	}
	var content [16]byte
	found := false // a record of this content is kept
	var draw [drawWidth]byte
	if d.draws != nil {
		d.draws.Expect(uint64(d.copies.Len()))
	}
	for row, err := range d.copies.All() {
		if err != nil {
			return err
		}
		if !bytes.Equal(row[:16], content[:]) {
			content, found = [16]byte(row[:16]), false
		}
		ordinal := binary.BigEndian.Uint64(row[17:])
		switch {
		case !d.of[ordinal].Kept():
			continue
		case found && d.rules.Dedupe:
			d.of[ordinal] = Dropped(ledger.Duplicate)
			continue
		}
		found = true
		if d.draws == nil || builders.Kind(row[16]) != builders.KindPreference {
			continue
		}
		number := xxh3.Hash128Seed(content[:], d.rules.Seed).Bytes()
		if err := d.draws.Add(binary.BigEndian.AppendUint64(append(draw[:0], number[:]...), ordinal)); err != nil {
			return err
		}
	}
	d.copies.Close()
	return nil
}

// sample keeps the preferences with the smallest numbers, MaxPairs of them.
func (d *Index) sample() error {
	if d.draws == nil || d.draws.Len() <= d.rules.MaxPairs {
		return nil
	}
	var i int64
	for row, err := range d.draws.All() {
		if err != nil {
			return err
		}
		if i++; i > d.rules.MaxPairs {
			d.of[binary.BigEndian.Uint64(row[16:])] = Dropped(ledger.NotSampled)
		}
	}
	d.draws.Close()
	return nil
}

// SplitError says that the data can't be split as asked.
type SplitError struct {
	First   string // names the first record of the largest component
	Largest int64  // records of the largest component
	Total   int64  // records kept
	By      By
}

func (e *SplitError) Error() string {
	return fmt.Sprintf("no validation set can be cut from the data: %d of %d records hang together by %s or a prompt that they share"+
		" (the first is %s), and a split never divides those. Add data, check why so much shares a prompt,"+
		" or set dataset.split.validation: 0", e.Largest, e.Total, e.by(), e.First)
}

func (e *SplitError) by() string {
	switch e.By {
	case ByTask:
		return "a task, an example"
	case ByExample:
		return "an example"
	default:
		return "a task"
	}
}

var errTooMany = errors.New("curate: more than four billion examples")
