package batch

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"iter"
)

// KeptBy sets the function that reads the encodings of the spool's rows, all of which must be stored elsewhere. read is
// called concurrently.
func (s *Spool) KeptBy(read func(*Encoded) ([]byte, error)) { s.read = read }

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
	advance := func(to int) error { // opens the parts up to number to; some may stay empty
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
		b, err := binary.Append(nil, binary.BigEndian, jobHead{int64(j.number), uint32(len(j.rows))})
		if err == nil {
			b, err = binary.Append(b, binary.BigEndian, j.rows)
		}
		if err == nil {
			_, err = out.Write(b)
		}
		if err != nil {
			return err
		}
		for i := range j.rows {
			done += int64(j.rows[i].Bytes)
		}
	}
	return advance(n - 1)
}

// jobHead is the header of a batch in a part. It is followed by the entries of the batch's rows.
type jobHead struct {
	Number int64
	Rows   uint32
}

// maxBatchRows limits the number of rows in a batch that is read from a part.
const maxBatchRows = 1 << 24

// readJob reads the next batch of a part, or returns io.EOF.
func (spec *Spec) readJob(in io.Reader) (j job, err error) {
	var head jobHead
	if err := binary.Read(in, binary.BigEndian, &head); err != nil {
		return j, err
	}
	if head.Rows < 1 || head.Rows > maxBatchRows {
		return j, errSpool
	}
	var rows []entry // grows as rows are read, so a large row count alone doesn't take memory
	for range head.Rows {
		var e entry
		if err := binary.Read(in, binary.BigEndian, &e); err != nil || int(e.Channel) >= len(channels) {
			return j, errSpool
		}
		rows = append(rows, e)
	}
	c := channels[rows[0].Channel]
	p := planned{channel: c, split: rows[0].Split, layout: spec.Layout.forChannel(c), rows: rows}
	return job{&p, int(head.Number)}, nil
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
			for i := range j.rows {
				if !yield(&Encoded{entry: j.rows[i]}, nil) {
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
	return spec.writeJobs(ctx, spec.jobsIn(part), read, put)
}
