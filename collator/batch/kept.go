package batch

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"iter"
)

// place is the location of a row's encoding outside the spool. Spools of kept rows and their parts store it in
// place of the encoding.
type place struct {
	File           uint32
	Offset         int64
	Bytes          uint32
	Sum            uint64
	Ordinal, Group int64
}

var placeWidth = binary.Size(place{})

func (e *Encoded) appendPlace(b []byte) ([]byte, error) {
	p := place{uint32(e.File), e.Offset, e.Bytes, e.Sum, e.Ordinal, e.Group}
	return binary.Append(b, binary.LittleEndian, p)
}

func readPlace(in io.Reader) (Encoded, error) {
	var p place
	err := binary.Read(in, binary.LittleEndian, &p)
	return Encoded{
		File: int(p.File), Offset: p.Offset, Bytes: p.Bytes, Sum: p.Sum, Ordinal: p.Ordinal, Group: p.Group,
	}, err
}

// read reads the row from where it is stored.
func (e *Encoded) read(from func(*Encoded) ([]byte, error)) (*Row, error) {
	b, err := from(e)
	if err != nil {
		return nil, err
	}
	if len(b) < rowHead {
		return nil, errSpool
	}
	e.number(b)
	return readRow(b)
}

// KeptBy sets the function that reads the encodings of the spool's rows, all of which must be stored elsewhere. read is
// called concurrently.
func (s *Spool) KeptBy(read func(*Encoded) ([]byte, error)) { s.kept = read }

func (s *Spool) place(e *entry) (Encoded, error) {
	return readPlace(io.NewSectionReader(s.file, e.Offset, int64(placeWidth)))
}

// Divide divides the batches in a spool of kept rows into n parts with about the same number of row bytes each, in
// order, starting with part 0. WriteKept makes the batches in a part.
func (s *Spool) Divide(spec Spec, n int, part func(i int) (io.WriteCloser, error)) (err error) {
	if err := s.file.Flush(); err != nil {
		return err
	}
	total, done, at := s.bytes, int64(0), -1
	var out io.WriteCloser
	closeOut := func() (err error) {
		if out != nil {
			err = out.Close()
		}
		out = nil
		return err
	}
	advance := func(to int) error { // opens the parts up to this one; some may be empty
		for at < to {
			err := closeOut()
			if at++; err == nil {
				out, err = part(at)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	defer func() { err = errors.Join(err, closeOut()) }()
	for j, err := range s.jobs(&spec) {
		if err != nil {
			return err
		}
		if err := advance(min(int(int64(n)*done/max(1, total)), n-1)); err != nil {
			return err
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
			if b, err = r.appendPlace(b); err != nil {
				return err
			}
			done += int64(r.Bytes)
		}
		if _, err := out.Write(b); err != nil {
			return err
		}
	}
	return advance(n - 1)
}

// jobHead is the header of a batch in a part. It is followed by the places of the batch's rows.
type jobHead struct {
	Channel uint8
	Split   Split
	Number  int64
	Rows    uint32
}

// maxBatchRows limits the number of rows in a batch that is read from a part.
const maxBatchRows = 1 << 24

// readJob reads the next batch of a part, or returns io.EOF.
func (spec *Spec) readJob(in io.Reader) (j job, err error) {
	var head jobHead
	if err := binary.Read(in, binary.LittleEndian, &head); err != nil {
		return j, err
	}
	n := int(head.Rows)
	if int(head.Channel) >= len(channels) || n < 1 || n > maxBatchRows {
		return j, errSpool
	}
	c := channels[head.Channel]
	j.planned, j.number = &planned{channel: c, split: head.Split, layout: spec.Layout.forChannel(c)}, int(head.Number)
	j.places = make([]Encoded, 0, min(n, 1<<10))
	for range n {
		k, err := readPlace(in)
		if err != nil {
			return j, errSpool
		}
		j.places = append(j.places, k)
	}
	return j, nil
}

// jobsIn yields the batches of a part of a divided spool, in order.
func (spec *Spec) jobsIn(part io.Reader) iter.Seq2[job, error] {
	return func(yield func(job, error) bool) {
		for {
			j, err := spec.readJob(part)
			if errors.Is(err, io.EOF) || !yield(j, err) || err != nil {
				return
			}
		}
	}
}

// KeptIn yields the rows of a part of a divided spool, in order.
func (spec Spec) KeptIn(part io.Reader) iter.Seq2[*Encoded, error] {
	return func(yield func(*Encoded, error) bool) {
		for j, err := range spec.jobsIn(part) {
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range j.places {
				if !yield(&j.places[i], nil) {
					return
				}
			}
		}
	}
}

// WriteKept writes the batches in a part of a divided spool to the spec's folder, without an index. It calls put for
// each batch, in order, with the batch's line and the amounts to add to the counts for "channel/split".
func (spec Spec) WriteKept(
	ctx context.Context, part io.Reader, read func(*Encoded) ([]byte, error),
	put func(line []byte, key string, c Count) error,
) error {
	return spec.writeJobs(ctx, spec.jobsIn(part), func(j job) ([]*Row, error) {
		return readRows(j.places, func(e *Encoded) (*Row, error) { return e.read(read) })
	}, put)
}
