package batch

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"path/filepath"

	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/fanout"
)

// Kept describes to a spool a row whose encoding is stored elsewhere.
type Kept struct {
	Variant uint8
	Length  [maxSides]uint32
	Bytes   uint32 // of the encoding
	Sum     uint64 // xxh3 of the encoding, which the reader checks

	// Where it is stored, and the facts that were unknown when the row was made.
	File    int   `json:"-"`
	Offset  int64 `json:"-"`
	Ordinal int64 `json:"-"` // position of the row's record among those collated
	Group   int64 `json:"-"` // number of an rl row's task, else -1
}

// place is the entry of a kept row in a spool, or in a part of one.
type place struct {
	File           uint32
	Offset         int64
	Bytes          uint32
	Sum            uint64
	Ordinal, Group int64
}

var placeWidth = binary.Size(place{})

func (r *Kept) append(b []byte) ([]byte, error) {
	p := place{uint32(r.File), r.Offset, r.Bytes, r.Sum, r.Ordinal, r.Group}
	return binary.Append(b, binary.LittleEndian, p)
}

func readPlace(in io.Reader) (Kept, error) {
	var p place
	err := binary.Read(in, binary.LittleEndian, &p)
	return Kept{
		File: int(p.File), Offset: p.Offset, Bytes: p.Bytes, Sum: p.Sum, Ordinal: p.Ordinal, Group: p.Group,
	}, err
}

// read reads the row.
func (r *Kept) read(from func(*Kept) ([]byte, error)) (*Row, error) {
	b, err := from(r)
	if err != nil {
		return nil, err
	}
	if len(b) < rowHead {
		return nil, errSpool
	}
	e := Encoded{data: b}
	e.SetOrdinal(r.Ordinal)
	if r.Group >= 0 {
		e.SetGroup(r.Group)
	}
	return readRow(b)
}

// KeptBy sets read as the function that reads the encodings of rows stored elsewhere; such rows are added with Keep.
// read is called concurrently.
func (s *Spool) KeptBy(read func(*Kept) ([]byte, error)) { s.kept = read }

// Keep is like Add, for a row whose encoding is stored elsewhere.
func (s *Spool) Keep(c *Channel, split Split, k *Kept) error {
	b, err := k.append(nil)
	if err != nil {
		return err
	}
	at, err := s.file.Append(b)
	if err != nil {
		return err
	}
	s.keptBytes += int64(k.Bytes)
	return s.enter(c, split, k, at)
}

func (s *Spool) place(e *entry) (Kept, error) {
	return readPlace(io.NewSectionReader(s.file, e.Offset, int64(placeWidth)))
}

// Divide writes the batches of a spool of kept rows to n parts with about the same number of bytes of rows each, in
// order, starting with part 0. WriteKept makes the batches of a part.
func (s *Spool) Divide(spec Spec, n int, part func(i int) (io.WriteCloser, error)) (err error) {
	if err := s.file.Flush(); err != nil {
		return err
	}
	total, done, at := s.keptBytes, int64(0), -1
	var out io.WriteCloser
	closeOut := func() error {
		if out == nil {
			return nil
		}
		ended := out
		out = nil
		return ended.Close()
	}
	next := func() (err error) {
		if err = closeOut(); err == nil {
			at++
			out, err = part(at)
		}
		return err
	}
	defer func() { err = errors.Join(err, closeOut()) }()
	for j, err := range s.jobs(&spec) {
		if err != nil {
			return err
		}
		for at < min(int(int64(n)*done/max(1, total)), n-1) { // a part may be empty
			if err := next(); err != nil {
				return err
			}
		}
		head := jobHead{j.rows[0].Channel, j.split, int64(j.number), uint32(len(j.rows))}
		b, err := binary.Append(nil, binary.LittleEndian, head)
		if err != nil {
			return err
		}
		for i := range j.rows {
			r, err := s.place(&j.rows[i])
			if err != nil {
				return err
			}
			if b, err = r.append(b); err != nil {
				return err
			}
			done += int64(r.Bytes)
		}
		if _, err := out.Write(b); err != nil {
			return err
		}
	}
	for at < n-1 {
		if err := next(); err != nil {
			return err
		}
	}
	return nil
}

// jobHead begins a batch of a part; the places of its rows follow.
type jobHead struct {
	Channel uint8
	Split   Split
	Number  int64
	Rows    uint32
}

// maxBatchRows limits the number of rows that a part may claim for a batch.
const maxBatchRows = 1 << 24

// readJob reads the next batch of a part, or returns io.EOF.
func readJob(in io.Reader, spec *Spec) (*job, []Kept, error) {
	var head jobHead
	if err := binary.Read(in, binary.LittleEndian, &head); err != nil {
		return nil, nil, err
	}
	n := int(head.Rows)
	if int(head.Channel) >= len(channels) || n < 1 || n > maxBatchRows {
		return nil, nil, errSpool
	}
	c := channels[head.Channel]
	j := &job{&planned{channel: c, split: head.Split, layout: spec.Layout.forChannel(c)}, int(head.Number)}
	places := make([]Kept, 0, min(n, 1<<10))
	for range n {
		k, err := readPlace(in)
		if err != nil {
			return nil, nil, errSpool
		}
		places = append(places, k)
	}
	return j, places, nil
}

// KeptIn yields the rows of a part of a divided spool, in order.
func (spec Spec) KeptIn(part io.Reader) iter.Seq2[*Kept, error] {
	return func(yield func(*Kept, error) bool) {
		for {
			_, places, err := readJob(part, &spec)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range places {
				if !yield(&places[i], nil) {
					return
				}
			}
		}
	}
}

// WriteKept writes the batches of a part of a divided spool into the spec's folder, without an index: their lines are
// passed to put, in order, with their additions to the counts of "channel/split".
func (spec Spec) WriteKept(
	ctx context.Context, part io.Reader, read func(*Kept) ([]byte, error),
	put func(line []byte, key string, c Count) error,
) error {
	jobs := func(yield func(kept, error) bool) {
		for {
			j, places, err := readJob(part, &spec)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(kept{j, places}, err) || err != nil {
				return
			}
		}
	}
	write := func(k kept) (finished, error) {
		all := make([]*Row, len(k.places))
		for i := range k.places {
			r, err := k.places[i].read(read)
			if err != nil {
				return finished{}, err
			}
			all[i] = r
		}
		return spec.write(k.job, all)
	}
	workers := max(1, spec.Workers)
	keys := map[string]bool{}
	err := fanout.Ordered(ctx, workers, 2*workers, jobs, func() fanout.Worker[kept, finished] {
		return fanout.Worker[kept, finished]{Work: write}
	}, func(k kept, f finished) error {
		keys[k.key()] = true
		return put(f.line, k.key(), f.count)
	})
	for key := range keys {
		if err == nil {
			err = durable.SyncDir(filepath.Join(spec.Dir, filepath.FromSlash(key)))
		}
	}
	return err
}

type kept struct {
	*job
	places []Kept
}
