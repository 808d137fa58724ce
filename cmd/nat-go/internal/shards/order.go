package shards

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/extsort"
)

// Place is an example's position in the inputs, given by its collection run and its row in that run.
type Place struct{ Run, Row int64 }

// placeWidth is the size of an encoded place.
const placeWidth = 16

// Order is the file that records the place of each group in a shard's log for stage Group. SortGroups uses the shards'
// Order files to put all groups into the order that a single run would give them. The file is next to the log. It is
// synced before each of the log's commits, and truncated when the log is. The methods of a nil Order do nothing.
type Order struct {
	file *os.File
	buf  []byte
}

func orderPath(f runfolder.Folder) string { return filepath.Join(f.Records(), "order.bin") }

// OpenOrder opens the file for appending after the given number of groups, and creates the file if it doesn't exist.
func OpenOrder(f runfolder.Folder, groups int64) (*Order, error) {
	file, err := durable.Continue(orderPath(f))
	if err != nil {
		return nil, err
	}
	at := groups * placeWidth
	info, err := file.Stat()
	if err == nil && info.Size() < at {
		err = fmt.Errorf("%s has %d bytes, but %d were committed: it was changed", file.Name(), info.Size(), at)
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
	if o == nil {
		return
	}
	o.buf = binary.BigEndian.AppendUint64(o.buf, uint64(p.Run))
	o.buf = binary.BigEndian.AppendUint64(o.buf, uint64(p.Row))
}

// Sync makes the additions durable.
func (o *Order) Sync() error {
	if o == nil {
		return nil
	}
	if _, err := o.file.Write(o.buf); err != nil {
		return err
	}
	o.buf = o.buf[:0]
	return o.file.Sync()
}

// Close closes the file.
func (o *Order) Close() {
	if o != nil {
		o.file.Close()
	}
}

// orderWidth is the size of an entry that SortGroups sorts. An entry consists of a place and a shard number.
const orderWidth = placeWidth + 4

// orderMemory is the number of bytes that SortGroups sorts in memory before it uses the disk.
const orderMemory = 4 << 20

// SortGroups yields the shard number of each group in the shards' logs for stage Group, in the order that a single run
// would give the groups. scratch is a folder for temporary files.
func (f Folder) SortGroups(p *Plan, scratch string) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		order := extsort.New(orderWidth, orderMemory, scratch)
		defer order.Close()
		for i := range p.Shards {
			if err := f.addPlaces(order, i); err != nil {
				yield(0, err)
				return
			}
		}
		for entry, err := range order.All() {
			if err != nil {
				yield(0, err)
				return
			}
			if !yield(int(binary.BigEndian.Uint32(entry[placeWidth:])), nil) {
				return
			}
		}
	}
}

// addPlaces adds the places of a shard's groups to the sorter.
func (f Folder) addPlaces(order *extsort.Sorter, shard int) error {
	file, err := durable.Open(orderPath(f.Shard(Group, shard)))
	if err != nil {
		return err
	}
	defer file.Close()
	var entry [orderWidth]byte
	binary.BigEndian.PutUint32(entry[placeWidth:], uint32(shard))
	for in := bufio.NewReader(file); ; {
		if _, err := io.ReadFull(in, entry[:placeWidth]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := order.Add(entry[:]); err != nil {
			return err
		}
	}
}
