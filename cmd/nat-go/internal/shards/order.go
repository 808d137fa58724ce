package shards

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/durable"
)

// Place is the position of an example in the inputs: its collection run and its row there.
type Place struct{ Run, Row int64 }

// Less reports whether a place comes before another.
func (p Place) Less(q Place) bool { return p.Run < q.Run || p.Run == q.Run && p.Row < q.Row }

const placeWidth = 16

// Order is the file with the positions in the inputs at which the groups of a shard's log begin, so that the groups of
// all shards can be put into the order of a single run. It is written next to the log: synced before each of the log's
// commits, and truncated with it.
type Order struct {
	file *os.File
	buf  []byte
}

func orderPath(f runfolder.Folder) string { return filepath.Join(f.Records(), "order.bin") }

// OpenOrder continues the file after the given number of groups.
func OpenOrder(f runfolder.Folder, groups int64) (*Order, error) {
	file, err := durable.Continue(orderPath(f))
	if err != nil {
		return nil, err
	}
	at := groups * placeWidth
	info, err := file.Stat()
	if err == nil && info.Size() < at {
		err = fmt.Errorf("%s has %d bytes where %d were committed: it was changed", file.Name(), info.Size(), at)
	}
	if err == nil {
		err = file.Truncate(at)
	}
	if err == nil {
		_, err = file.Seek(at, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return &Order{file: file}, nil
}

// Add adds the place of the next group.
func (o *Order) Add(p Place) {
	o.buf = binary.BigEndian.AppendUint64(o.buf, uint64(p.Run))
	o.buf = binary.BigEndian.AppendUint64(o.buf, uint64(p.Row))
}

// Sync makes the additions durable.
func (o *Order) Sync() error {
	if _, err := o.file.Write(o.buf); err != nil {
		return err
	}
	o.buf = o.buf[:0]
	return o.file.Sync()
}

// Close closes the file, if there is one.
func (o *Order) Close() {
	if o != nil {
		o.file.Close()
	}
}

// Places reads the file back.
type Places struct {
	file *os.File
	in   *bufio.Reader
}

// OpenPlaces opens the file in a shard's folder.
func OpenPlaces(f runfolder.Folder) (*Places, error) {
	file, err := durable.Open(orderPath(f))
	if err != nil {
		return nil, err
	}
	return &Places{file: file, in: bufio.NewReaderSize(file, 4<<10)}, nil
}

// Next returns the place of the next group, or io.EOF.
func (p *Places) Next() (Place, error) {
	var b [placeWidth]byte
	if _, err := io.ReadFull(p.in, b[:]); err != nil {
		return Place{}, err
	}
	return Place{int64(binary.BigEndian.Uint64(b[:])), int64(binary.BigEndian.Uint64(b[8:]))}, nil
}

// Close closes the file.
func (p *Places) Close() error { return p.file.Close() }
