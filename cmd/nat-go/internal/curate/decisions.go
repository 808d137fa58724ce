package curate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"unsafe"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/internal/coder"
	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Decision is the outcome of curation for one record.
type Decision uint8

// The decisions. Greater values are drops (see Dropped).
const (
	Train      Decision = iota
	Validation          // in the validation set only
	Both                // in both sets, as in NAT's split of a single record
)

const firstDrop = 8

// reasons lists the reasons for drops by decision, starting at firstDrop. The decisions file contains their names, so
// the order may change.
var reasons = []ledger.Reason{
	ledger.BadRecord, ledger.BadRoles, ledger.EmptyResponse, ledger.NonFiniteScore, ledger.SameText, pairs.Tie,
	Contradiction, duplicate, notSampled, rejected, Held, lowFidelity,
	Contaminated,
}

// Dropped returns the decision to drop a record for a reason. It panics if r isn't a reason for dropping records.
func Dropped(r ledger.Reason) Decision {
	i := slices.Index(reasons, r)
	if i < 0 {
		panic("curate: no record is dropped for " + string(r))
	}
	return Decision(firstDrop + i)
}

// Reason returns the reason why the record was dropped. It returns false if the record is kept.
func (d Decision) Reason() (ledger.Reason, bool) {
	if i := int(d) - firstDrop; i >= 0 && i < len(reasons) {
		return reasons[i], true
	}
	return "", false
}

// Kept reports whether the record is in the data set.
func (d Decision) Kept() bool { return d < firstDrop }

// Trains reports whether the record is in the training set.
func (d Decision) Trains() bool { return d == Train || d == Both }

// Validates reports whether the record is in the validation set.
func (d Decision) Validates() bool { return d == Validation || d == Both }

// Decisions holds one decision per record, by ordinal.
type Decisions struct {
	of      []Decision
	Warning string // warning about the split; not written to the decisions file
}

// Decided wraps existing decisions, one per record, by ordinal.
func Decided(of []Decision) *Decisions { return &Decisions{of: of} }

// Len returns the number of decisions.
func (d *Decisions) Len() uint64 { return uint64(len(d.of)) }

// At returns the decision on the record with the given ordinal, which must be below Len.
func (d *Decisions) At(ordinal uint64) Decision { return d.of[ordinal] }

// Reject drops a record because a user rejected it. The existing split doesn't change for the other records.
func (d *Decisions) Reject(ordinal uint64) {
	if d.of[ordinal].Kept() {
		d.of[ordinal] = Dropped(rejected)
	}
}

// Kept returns the number of records in the data set.
func (d *Decisions) Kept() (n int64) {
	for x, c := range d.Counts() {
		if x.Kept() {
			n += c
		}
	}
	return n
}

// Counts returns the number of times each decision was made.
func (d *Decisions) Counts() map[Decision]int64 {
	var n [256]int64
	for _, x := range d.of {
		n[x]++
	}
	counts := map[Decision]int64{}
	for x, c := range n {
		if c > 0 {
			counts[Decision(x)] = c
		}
	}
	return counts
}

// The file contains magic, the number of reasons, the length and text of each reason, the number of records, one byte
// per record, and the 64-bit xxh3 hash of the preceding bytes. Numbers are little-endian. The reasons' names are
// included so that later versions may change their order.
const magic = "ngdecid1"

// bytes returns the decisions, one byte each, without copying them.
func (d *Decisions) bytes() []byte { return unsafe.Slice((*byte)(unsafe.SliceData(d.of)), len(d.of)) }

// Write writes the decisions; equal decisions yield equal bytes.
func (d *Decisions) Write(w io.Writer) error {
	head := append([]byte(magic), byte(len(reasons)))
	for _, r := range reasons {
		head = append(append(head, byte(len(r))), r...)
	}
	head = binary.LittleEndian.AppendUint64(head, uint64(len(d.of)))
	sum := xxh3.New()
	out := io.MultiWriter(w, sum)
	_, err := out.Write(head)
	if err == nil {
		_, err = out.Write(d.bytes())
	}
	if err == nil {
		_, err = w.Write(binary.LittleEndian.AppendUint64(nil, sum.Sum64()))
	}
	if err != nil {
		return fmt.Errorf("write the decisions: %w", err)
	}
	return nil
}

// maxReasons is the maximum number of reasons in a file. maxAround is the maximum size of a file without its decisions.
const (
	maxReasons = 200
	maxAround  = len(magic) + 1 + maxReasons<<8 + 8 + 8
)

// ReadDecisions reads a file that Write wrote for a log with the given number of records. It returns an error if the
// file is truncated or damaged, has a different number of decisions, or drops a record for a reason unknown to this
// version.
func ReadDecisions(r io.Reader, records uint64) (*Decisions, error) {
	file := make([]byte, records+uint64(maxAround))
	n, err := io.ReadFull(r, file)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	var d *Decisions
	if err == nil {
		d, err = decode(file[:n], records)
	}
	if err != nil {
		return nil, fmt.Errorf("read the decisions: %w", err)
	}
	return d, nil
}

func decode(file []byte, records uint64) (*Decisions, error) {
	c := coder.Reader(file, nil)
	if begin := c.Take(uint64(len(magic))); c.Err == nil && string(begin) != magic {
		return nil, errors.New("unknown format: expected decisions from this version of nat-go")
	}
	var all, length byte
	if coder.Octet(&c, &all); all > maxReasons {
		return nil, fmt.Errorf("invalid number of reasons %d", all)
	}
	meaning := map[Decision]Decision{Train: Train, Validation: Validation, Both: Both}
	for i := range int(all) {
		coder.Octet(&c, &length)
		name := ledger.Reason(c.Take(uint64(length)))
		if slices.Contains(reasons, name) { // an unknown reason is harmless unless a decision uses it
			meaning[Decision(firstDrop+i)] = Dropped(name)
		}
	}
	if b := c.Take(8); b != nil && binary.LittleEndian.Uint64(b) != records {
		n := binary.LittleEndian.Uint64(b)
		return nil, fmt.Errorf("file has %d decisions, but the record log has %d records", n, records)
	}
	of := c.Take(records)
	before := len(file) - c.Left()
	switch sum := c.Take(8); {
	case c.Err != nil:
		return nil, errors.New("unexpected end of the file")
	case c.Left() > 0 || binary.LittleEndian.Uint64(sum) != xxh3.Hash(file[:before]):
		return nil, errors.New("invalid checksum: the file has been changed")
	}
	d := Decided(unsafe.Slice((*Decision)(unsafe.SliceData(of)), len(of)))
	for i, b := range d.of {
		m, ok := meaning[b]
		if !ok {
			return nil, fmt.Errorf("unknown decision %[2]d of record %[1]d", i, b)
		}
		d.of[i] = m
	}
	return d, nil
}

// Reasons for dropping a record.
const (
	duplicate     ledger.Reason = "duplicate"
	Contradiction ledger.Reason = "contradiction"
	notSampled    ledger.Reason = "not_sampled"
	rejected      ledger.Reason = "rejected_by_mark"
	Held          ledger.Reason = "shares_validation"
	Contaminated  ledger.Reason = "contaminated"
	lowFidelity   ledger.Reason = "fidelity_too_low"
)
