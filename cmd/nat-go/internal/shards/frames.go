package shards

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/coder"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/extsort"
)

// appender appends to a file from an earlier attempt.
type appender struct {
	*bufio.Writer
	file *os.File
}

// appendTo opens a file for appending, and creates it if it doesn't exist. Function keep gets the file and its size,
// and returns how many of its first bytes are kept.
func appendTo(path string, keep func(file *os.File, size int64) (int64, error)) (a appender, err error) {
	file, err := durable.Continue(path)
	if err != nil {
		return a, err
	}
	var n int64
	info, err := file.Stat()
	if err == nil {
		n, err = keep(file, info.Size())
	}
	if err == nil {
		err = file.Truncate(n)
	}
	if err == nil {
		_, err = file.Seek(n, io.SeekStart)
	}
	if err != nil {
		file.Close()
	}
	return appender{bufio.NewWriterSize(durable.Behind(file), 1<<20), file}, err
}

// Close syncs the additions to disk and closes the file.
func (a appender) Close() error { return errors.Join(a.Flush(), a.file.Sync(), a.file.Close()) }

// A file of frames consists of blocks of bytes. Each block is preceded by its length and hash, so that an interrupted
// writer can resume after the last complete frame. frameHead is the size of the length and the hash. maxFrame is the
// maximum size of a block.
const (
	frameHead = 4 + 8
	maxFrame  = 256 << 20
)

// headsPath returns the path of the file that describes the token rows for each group in a shard's log. The rows
// themselves are concatenated in the file at rowsPath.
func headsPath(f runfolder.Folder) string { return filepath.Join(f.Records(), "heads.bin") }

// rowsPath returns the path of the file with a shard's token rows.
func rowsPath(f runfolder.Folder) string { return filepath.Join(f.Records(), "prepared.bin") }

// continueFrames opens a file of frames for appending, and creates the file if it doesn't exist. It truncates the file
// at the first frame that is damaged or for which keep returns false.
func continueFrames(path string, keep func(frame []byte) bool) (appender, error) {
	return appendTo(path, func(file *os.File, size int64) (end int64, _ error) {
		in := &FrameReader{file: file, in: bufio.NewReaderSize(file, 1<<20), left: size}
		for {
			frame, err := in.Next()
			if err != nil || !keep(frame) {
				return end, nil // the end of the file, a damaged frame, or a frame rejected by keep
			}
			end += frameHead + int64(len(frame))
		}
	})
}

// addFrame appends a frame.
func (a appender) addFrame(frame []byte) error {
	if len(frame) > maxFrame {
		return fmt.Errorf("group has %d bytes in %s; the maximum is %d", len(frame), a.file.Name(), maxFrame)
	}
	var head [frameHead]byte
	binary.LittleEndian.PutUint32(head[:], uint32(len(frame)))
	binary.LittleEndian.PutUint64(head[4:], xxh3.Hash(frame))
	_, _ = a.Write(head[:]) // the next write returns the error
	_, err := a.Write(frame)
	return err
}

// prepared writes a shard's token rows.
type prepared struct {
	heads, rows appender
	head        []byte
}

// OpenPrepared opens the files of a shard's token rows for appending, and creates the files if they don't exist. It
// returns the number of groups whose rows already exist.
func OpenPrepared(f runfolder.Folder) (_ *prepared, groups uint64, err error) {
	p := &prepared{}
	p.rows, err = appendTo(rowsPath(f), func(_ *os.File, size int64) (end int64, err error) {
		p.heads, err = continueFrames(headsPath(f), func(frame []byte) bool {
			h, err := readHead(frame)
			if err != nil || h.Rows > size-end {
				return false
			}
			end += h.Rows
			groups++
			return true
		})
		return end, err
	})
	return p, groups, err
}

// Add adds the rows and the head of the next group, which has the given number of records.
func (p *prepared) Add(records int, head, rows []byte) error {
	if _, err := p.rows.Write(rows); err != nil {
		return err
	}
	w := coder.Coder{Buf: p.head[:0]}
	(&Head{records, int64(len(rows)), head}).code(&w)
	p.head = w.Buf
	return p.heads.addFrame(p.head)
}

// Close syncs the additions to disk and closes the files.
func (p *prepared) Close() error { return errors.Join(p.rows.Close(), p.heads.Close()) }

// Head describes a group's token rows.
type Head struct {
	Records int
	Rows    int64  // size of the rows in bytes
	Head    []byte // the head passed to Add
}

func (h *Head) code(c *coder.Coder) {
	coder.Natural(c, &h.Records)
	coder.Natural(c, &h.Rows)
	coder.Raw(c, &h.Head)
}

// readHead decodes a frame that prepared.Add wrote.
func readHead(frame []byte) (h Head, err error) {
	c := coder.Reader(frame, nil)
	if h.code(&c); c.Err != nil || c.Left() > 0 || h.Rows < 0 || h.Records < 0 {
		err = errors.New("invalid description of the token rows")
	}
	return h, err
}

// FrameReader reads a file of frames.
type FrameReader struct {
	file *os.File
	in   *bufio.Reader
	left int64
}

// readFrames opens one of the files that a manifest lists, a file of frames.
func readFrames(d *Done, path string) (*FrameReader, error) {
	file, err := d.Open(path)
	if err != nil {
		return nil, err
	}
	return &FrameReader{file: file, in: bufio.NewReaderSize(file, 64<<10), left: d.File(path).Bytes}, nil
}

// Next returns the next frame, or io.EOF.
func (r *FrameReader) Next() ([]byte, error) {
	if r.left == 0 {
		return nil, io.EOF
	}
	var head [frameHead]byte
	_, err := io.ReadFull(r.in, head[:])
	n := int64(binary.LittleEndian.Uint32(head[:]))
	if r.left -= frameHead + n; err != nil || r.left < 0 || n > maxFrame {
		return nil, r.damaged("unexpected end of a frame")
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(r.in, frame); err != nil {
		return nil, r.damaged("unexpected end of a frame")
	}
	if xxh3.Hash(frame) != binary.LittleEndian.Uint64(head[4:]) {
		return nil, r.damaged("invalid checksum")
	}
	return frame, nil
}

// Close closes the file.
func (r *FrameReader) Close() error { return r.file.Close() }

func (r *FrameReader) damaged(why string) error { return Damaged(r.file.Name(), why) }

// Damaged returns the error for a damaged file in a shard's folder.
func Damaged(path, why string) error {
	return fmt.Errorf("%s is damaged: %s: remove the shard's folder, and rerun the shard", path, why)
}

// Place is an example's position in the inputs, given by its collection run and its row in that run.
type Place struct{ Run, Row int64 }

// placeWidth is the size of an encoded place.
const placeWidth = 16

// Order is the file that records the place of each group in a shard's log for stage Group. sortGroups uses these
// files to arrange all groups in the order that they would have in a single run. The file is next to the log. It is
// synced before each of the log's commits, and truncated when the log is. The methods of a nil Order do nothing.
type Order struct{ appender }

func orderPath(f runfolder.Folder) string { return filepath.Join(f.Records(), "order.bin") }

// OpenOrder opens the file for appending after the given number of groups, and creates the file if it doesn't exist.
func OpenOrder(f runfolder.Folder, groups int64) (*Order, error) {
	path, at := orderPath(f), groups*placeWidth
	a, err := appendTo(path, func(_ *os.File, size int64) (int64, error) {
		if size < at {
			return 0, fmt.Errorf("%s has %d bytes, but %d were committed: it was changed", path, size, at)
		}
		return at, nil
	})
	if err != nil {
		return nil, err
	}
	return &Order{a}, nil
}

// Add adds the place of the next group.
func (o *Order) Add(p Place) {
	if o == nil {
		return
	}
	place := binary.BigEndian.AppendUint64(o.AvailableBuffer(), uint64(p.Run))
	_, _ = o.Write(binary.BigEndian.AppendUint64(place, uint64(p.Row))) // Sync returns the error
}

// Sync makes the additions durable.
func (o *Order) Sync() error {
	if o == nil {
		return nil
	}
	return cmp.Or(o.Flush(), o.file.Sync())
}

// Close closes the file.
func (o *Order) Close() {
	if o != nil {
		o.file.Close()
	}
}

// orderWidth is the size of an entry that sortGroups sorts. An entry consists of a place and a shard number.
const orderWidth = placeWidth + 4

// orderMemory is the number of bytes that sortGroups sorts in memory before it uses the disk.
const orderMemory = 4 << 20

// sortGroups yields the shard number of each group in the shards' logs for stage Group, in the order that the groups
// would have in a single run. scratch is a folder for temporary files.
func (p *Parts) sortGroups(scratch string) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		order := extsort.New(orderWidth, orderMemory, scratch)
		defer order.Close()
		for i := range p.Plan.Shards {
			if err := addPlaces(order, p.Dir, i); err != nil {
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
func addPlaces(order *extsort.Sorter, dir Folder, shard int) error {
	file, err := durable.Open(orderPath(dir.Shard(Group, shard)))
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
