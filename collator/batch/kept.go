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

// Divide divides the batches in a spool of kept rows into n parts with about the same number of row bytes each. It
// calls save for each part, in order, with a function that writes the part. WriteKept makes the batches in a part.
func (s *Spool) Divide(spec Spec, n int, save func(part int, write func(io.Writer) error) error) error {
	if err := s.file.Flush(); err != nil {
		return err
	}
	next, stop := iter.Pull2(s.plan(&spec))
	defer stop()
	p, failed, more := next()
	done := int64(0) // row bytes of the batches before p
	write := func(out io.Writer, i int) error {
		for ; more && min(int(int64(n)*done/max(1, s.bytes)), n-1) == i; p, failed, more = next() {
			if failed != nil {
				return failed
			}
			b, err := binary.Append(nil, binary.BigEndian, plannedHead{int64(p.number), uint32(len(p.rows))})
			if err == nil {
				b, err = binary.Append(b, binary.BigEndian, p.rows)
			}
			if err == nil {
				_, err = out.Write(b)
			}
			if err != nil {
				return err
			}
			for k := range p.rows {
				done += int64(p.rows[k].Bytes)
			}
		}
		return nil
	}
	for i := range n { // some parts may stay empty
		if err := save(i, func(out io.Writer) error { return write(out, i) }); err != nil {
			return err
		}
	}
	return nil
}

// plannedHead is the header of a batch in a part. It is followed by the entries of the batch's rows.
type plannedHead struct {
	Number int64
	Rows   uint32
}

// maxBatchRows limits the number of rows in a batch that is read from a part.
const maxBatchRows = 1 << 24

// readPlanned reads the next batch of a part, or returns io.EOF.
func (spec *Spec) readPlanned(in io.Reader) (*planned, error) {
	var head plannedHead
	if err := binary.Read(in, binary.BigEndian, &head); err != nil {
		return nil, err
	}
	if head.Rows < 1 || head.Rows > maxBatchRows {
		return nil, errSpool
	}
	var rows []entry // grows as rows are read, so a large row count alone doesn't take memory
	for range head.Rows {
		var e entry
		if err := binary.Read(in, binary.BigEndian, &e); err != nil || int(e.Channel) >= len(channels) {
			return nil, errSpool
		}
		rows = append(rows, e)
	}
	c := channels[rows[0].Channel]
	return &planned{c, rows[0].Split, spec.Layout.forChannel(c), int(head.Number), rows}, nil
}

// plannedIn yields the batches of a part of a divided spool, in order.
func (spec *Spec) plannedIn(part io.Reader) iter.Seq2[*planned, error] {
	return func(yield func(*planned, error) bool) {
		for {
			p, err := spec.readPlanned(part)
			if errors.Is(err, io.EOF) || !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// KeptIn yields the rows of a part of a divided spool, in order.
func (spec Spec) KeptIn(part io.Reader) iter.Seq2[*Encoded, error] {
	return func(yield func(*Encoded, error) bool) {
		for p, err := range spec.plannedIn(part) {
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range p.rows {
				if !yield(&Encoded{entry: p.rows[i]}, nil) {
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
	return spec.writePlanned(ctx, spec.plannedIn(part), read, put)
}
