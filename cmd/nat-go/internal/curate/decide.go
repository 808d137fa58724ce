package curate

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/extsort"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// NewIndex returns an empty index for the rules. Data that exceeds rules.Memory goes to temporary files in tmp.
func NewIndex(rules Rules, tmp string) *Index {
	if rules.Memory <= 0 {
		rules.Memory = defaultMemory
	}
	d := &Index{rules: rules, tmp: tmp}
	if rules.Contradictions || rules.Dedupe || rules.MaxPairs > 0 || rules.Hold {
		d.contents = extsort.New(contentWidth, rules.Memory/2, tmp)
	}
	if rules.MaxPairs > 0 {
		d.draws = extsort.New(drawWidth, rules.Memory/4, tmp)
	}
	if rules.Hold || rules.Split.Validation > 0 && rules.Split.By != ByPosition {
		d.units = extsort.New(unitWidth, rules.Memory/4, tmp)
	}
	return d
}

// Decide applies the rules, and may be called only once. It returns a *SplitError if the requested split is impossible.
func (d *Index) Decide() (*Decisions, error) {
	if err := d.flushUnit(); err != nil {
		return nil, err
	}
	var other sync.WaitGroup // the goroutine that sorts concurrently
	if d.units != nil {
		other.Go(d.units.Sort)
	}
	if d.contents != nil {
		d.contents.Sort()
	}
	other.Wait() // wait: sorting ends
	for _, rule := range []func() error{d.resolve, d.sample, d.split} {
		if err := rule(); err != nil {
			return nil, err
		}
	}
	return &Decisions{of: d.of, Warning: d.warning}, nil
}

// Index collects the records to decide on, with one entry per record. It holds the decisions so far, and the
// projections of the entries that its rules need.
type Index struct {
	rules   Rules
	tmp     string
	of      []Decision
	warning string

	contents *extsort.Sorter // rows made by contentRow
	draws    *extsort.Sorter // rows of seeded hash (16 bytes) and ordinal (8)

	units   *extsort.Sorter // rows made by unitRow
	unit    [unitWidth]byte // row of the unit to which entries are being added
	entries uint32          // number of entries that unit spans; 0 means none
}

const drawWidth = 16 + 8

// Add adds the next entry, which must have the next ordinal.
func (d *Index) Add(e Entry) (err error) {
	d.of = append(d.of, e.Drop)
	if !e.Drop.Kept() {
		return nil
	}
	if d.contents != nil {
		var row [contentWidth]byte
		contentRow(&row, &e)
		err = d.contents.Add(row[:])
	}
	if d.units != nil && err == nil {
		err = d.addUnit(&e)
	}
	return err
}

// Kept reports whether a record is still kept.
func (d *Index) Kept(ordinal uint64) bool { return d.of[ordinal].Kept() }

// Drop drops a record for a reason that can't be derived from its Entry. It must be called before Decide.
func (d *Index) Drop(ordinal uint64, why ledger.Reason) { d.of[ordinal] = Dropped(why) }

// heldOrdinal is the ordinal of entries added by Hold, greater than any record's ordinal.
const heldOrdinal = 1<<ordinalBits - 1

// Hold adds a record to keep on the validation side; Rules.Hold must be set. Hold ignores the record's ordinal, and the
// record needn't be in the log.
func (d *Index) Hold(e Entry) error {
	e.Ordinal = heldOrdinal
	var row [contentWidth]byte
	contentRow(&row, &e)
	if err := d.contents.Add(row[:]); err != nil {
		return err
	}
	var unit [unitWidth]byte // this unit spans zero records, because e isn't added to d.of
	unitRow(&unit, &e, d.rules.Split.By)
	return d.units.Add(unit[:])
}

// Len returns the number of entries.
func (d *Index) Len() uint64 { return uint64(len(d.of)) }

// Expect announces a total of n entries, so that the index can allocate memory for them at once.
func (d *Index) Expect(n uint64) {
	have := uint64(len(d.of))
	if n <= have {
		return
	}
	d.of = slices.Grow(d.of, int(min(n-have, 1<<24)))
	if d.contents != nil {
		d.contents.Expect(n - have)
	}
}

// Close releases memory and disk space.
func (d *Index) Close() {
	for _, s := range []*extsort.Sorter{d.contents, d.draws, d.units} {
		if s != nil {
			s.Close()
		}
	}
}

// A row in contents consists of a key (16 bytes), a tag (1), an ordinal (7) and a score (8). A preference's key is
// the hash of its prompt and its unordered pair of sides, so A>B and B>A are adjacent. The tag distinguishes them;
// key and tag together identify the content. A single sort therefore finds both contradictions and duplicates.
const (
	tagAt        = 16
	ordinalAt    = 16 // offset of a number whose highest byte is the tag, and whose other bytes are the ordinal
	scoreAt      = 16 + 8
	contentWidth = scoreAt + 8
	ordinalBits  = 56
	maxTag       = builders.KindState<<1 | 1
)

func contentRow(row *[contentWidth]byte, e *Entry) {
	tag := byte(e.Kind) << 1
	if e.Kind != builders.KindPreference {
		copy(row[:], e.Content[:])
	} else {
		low, high := &e.Chosen, &e.Rejected
		if bytes.Compare(low[:], high[:]) > 0 {
			low, high = high, low
			tag |= 1
		}
		var key [3 * 16]byte
		copy(key[:], e.Prompt[:])
		copy(key[16:], low[:])
		copy(key[32:], high[:])
		sum := xxh3.Hash128(key[:]).Bytes()
		copy(row[:], sum[:])
		copy(row[scoreAt:], e.Score[:])
	}
	binary.BigEndian.PutUint64(row[ordinalAt:], uint64(tag)<<ordinalBits|e.Ordinal)
}

// bucketRow is a row of contents without the key that adjacent rows share.
type bucketRow struct {
	ordinal uint64
	score   [8]byte
	tag     byte
}

func (r *bucketRow) preference() bool { return builders.Kind(r.tag>>1) == builders.KindPreference }

// resolve drops contradictions, then duplicates. If MaxPairs is set, it also assigns a seeded number to every remaining
// preference.
func (d *Index) resolve() error {
	if d.contents == nil {
		return nil
	}
	if d.draws != nil {
		d.draws.Expect(uint64(d.contents.Len()))
	}
	var key [16]byte
	var bucket []bucketRow
	for row, err := range d.contents.All() {
		if err != nil {
			return err
		}
		if !bytes.Equal(row[:16], key[:]) {
			if err := d.resolveBucket(key, bucket); err != nil {
				return err
			}
			key, bucket = [16]byte(row), bucket[:0]
		}
		bucket = append(bucket, bucketRow{
			binary.BigEndian.Uint64(row[ordinalAt:]) & (1<<ordinalBits - 1),
			[8]byte(row[scoreAt:]),
			row[tagAt],
		})
	}
	if err := d.resolveBucket(key, bucket); err != nil {
		return err
	}
	d.contents.Close()
	return nil
}

// resolveBucket resolves the records that share a key. They are ordered by tag, then by position in the log.
func (d *Index) resolveBucket(key [16]byte, b []bucketRow) error {
	var held [maxTag + 1]bool // whether a row with the tag was added by Hold
	for i := range b {
		held[b[i].tag] = held[b[i].tag] || b[i].ordinal == heldOrdinal
	}
	if n := len(b); n > 1 && d.rules.Contradictions && b[0].tag != b[n-1].tag {
		d.dropContradictions(b, &held)
	}
	found := false // whether a record with this content is kept
	for i := range b {
		r := &b[i]
		found = found && r.tag == b[i-1].tag
		switch {
		case r.ordinal == heldOrdinal || !d.of[r.ordinal].Kept():
			continue
		case found && d.rules.Dedupe:
			d.of[r.ordinal] = Dropped(duplicate)
			continue
		}
		found = true
		if held[r.tag] {
			d.of[r.ordinal] = Validation
		}
		if d.draws == nil || !r.preference() {
			continue
		}
		var content [17]byte
		copy(content[:], key[:])
		content[16] = r.tag
		number := xxh3.Hash128Seed(content[:], d.rules.Seed).Bytes()
		if held[r.tag] {
			number = [16]byte{} // the lowest number, so that it is drawn first
		}
		var draw [drawWidth]byte
		if err := d.draws.Add(binary.BigEndian.AppendUint64(append(draw[:0], number[:]...), r.ordinal)); err != nil {
			return err
		}
	}
	return nil
}

// dropContradictions drops a preference in a bucket if the bucket also contains the opposite preference for the same
// score. It doesn't drop preferences with the same content as one added by Hold. Preferences that were dropped before
// keep their reason, and don't contradict others.
func (d *Index) dropContradictions(b []bucketRow, held *[maxTag + 1]bool) {
	var scores [2]map[[8]byte]bool // names of the scores of each direction
	for i := range b {
		if r := &b[i]; r.preference() && (r.ordinal == heldOrdinal || d.of[r.ordinal].Kept()) {
			if scores[r.tag&1] == nil {
				scores[r.tag&1] = map[[8]byte]bool{}
			}
			scores[r.tag&1][r.score] = true
		}
	}
	for i := range b {
		r := &b[i]
		if r.preference() && r.ordinal != heldOrdinal && d.of[r.ordinal].Kept() && !held[r.tag] &&
			scores[r.tag&1^1][r.score] {
			d.of[r.ordinal] = Dropped(Contradiction)
		}
	}
}

// sample keeps the MaxPairs preferences with the smallest seeded numbers.
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
			d.of[binary.BigEndian.Uint64(row[16:])] = Dropped(notSampled)
		}
	}
	d.draws.Close()
	return nil
}

// SplitError is the error for data that can't be split as requested.
type SplitError struct {
	First   string // identifies the first record of the largest component
	Largest int64  // number of records in the largest component
	Total   int64  // number of kept records
	By      By
}

func (e *SplitError) Error() string {
	return fmt.Sprintf("cannot split off a validation set: %d of %d records are connected by %s or a shared prompt"+
		" (the first is %s), and a split never separates connected records. Add data, check why so many share a prompt,"+
		" or set dataset.split.validation: 0", e.Largest, e.Total, e.By.unit(), e.First)
}

// unit names the unit that a split never divides.
func (b By) unit() string {
	if b == ByTask {
		return "a task, an example"
	}
	return "an example"
}
