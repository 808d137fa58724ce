package recordlog

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/internal/durable"
)

// Version is the version of the log's encoding. Logs of other versions can't be read, so their runs have to be
// repeated.
const Version = 3

// The names of the files in a log's folder.
const (
	LogName    = "records.log"
	CommitName = "commit.json" // file with the last commit
)

// HeaderSize is the offset of the first group of a log.
const HeaderSize = len(magic) + 4

const (
	magic       = "nat-go record log"
	frameHead   = 8        // size of the payload's length
	frameTail   = 8        // size of the payload's hash (xxh3-64)
	maxCommit   = 64 << 20 // maximum size of commit.json, whose cursor lists all inputs
	bufferBytes = 1 << 20
)

// Commit records a log's durable length, and the source's position at that point.
type Commit struct {
	Version int             `json:"version"`
	Bytes   int64           `json:"bytes"`
	Groups  uint64          `json:"groups"`
	Records uint64          `json:"records"`
	Done    bool            `json:"done"`           // whether all groups are in the log
	XXH3    string          `json:"xxh3,omitempty"` // hash of the log, once all groups are in it, as 128 bits in hex
	Large   *Large          `json:"large,omitempty"`
	Cursor  json.RawMessage `json:"cursor,omitempty"`
}

// Large holds the maximum sizes of a log's groups. A log announces them only if they exceed the usual maximums, and a
// reader returns an error for a group larger than announced.
type Large struct {
	Frame int64 `json:"frame"` // maximum size of a frame in bytes
	Lists int64 `json:"lists"` // maximum memory for a group's lists in bytes
}

// The maximum sizes of a group, unless its log announces larger ones. A run with the default limits stays below them.
const (
	usualFrame = 128 << 20
	usualLists = 192 << 20
)

// maxRecords is the maximum number of records in a log. It bounds the memory for decisions, one byte per record.
const maxRecords = 1 << 28

// ErrFull is wrapped by the errors for exceeding a log's limits. A group that exceeds the limits isn't written, because
// it couldn't be read back.
var ErrFull = errors.New("a run cannot hold more: divide the inputs among several runs")

// checkRecords returns an error if the number of records exceeds maxRecords.
func checkRecords(records uint64) error {
	if records > maxRecords {
		return fmt.Errorf("more than %d records: %w", maxRecords, ErrFull)
	}
	return nil
}

// checkInputs returns an error if the group refers to an input whose number is too high for a log.
func checkInputs(g *Group) error {
	last := 0
	for i := range g.Records {
		last = max(last, g.Records[i].Origin.Run)
	}
	for i := range g.Drops {
		last = max(last, g.Drops[i].Run)
	}
	if last >= maxRuns {
		return fmt.Errorf("more than %d inputs: %w", maxRuns, ErrFull)
	}
	return nil
}

// largest returns the maximum sizes of the log's groups.
func (c *Commit) largest() Large {
	l := Large{usualFrame, usualLists}
	if c.Large != nil {
		l.Frame, l.Lists = max(l.Frame, c.Large.Frame), max(l.Lists, c.Large.Lists)
	}
	return l
}

// announce records a group's size, if it exceeds the maximum so far.
func (c *Commit) announce(frame, lists int64) {
	if was := c.largest(); frame > was.Frame || lists > was.Lists {
		c.Large = &Large{max(frame, was.Frame), max(lists, was.Lists)}
	}
}

// Writer appends groups to a log. It is not safe for concurrent use.
type Writer struct {
	dir    string
	file   *os.File
	out    *bufio.Writer
	state  Commit
	enc    codec
	synced int64
	sum    *xxh3.Hasher
}

// Create starts an empty log in dir, which must exist. It replaces an earlier log, which must not have a commit (see
// Reset).
func Create(dir string) (*Writer, error) {
	path := filepath.Join(dir, LogName)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	w := newWriter(dir, f, Commit{Version: Version, Bytes: int64(HeaderSize)})
	head := binary.LittleEndian.AppendUint32([]byte(magic), Version)
	w.sum.Write(head)
	_, _ = w.out.Write(head) // can't fail, because head fits into the buffer
	return w, nil
}

func newWriter(dir string, f *os.File, state Commit) *Writer {
	out := bufio.NewWriterSize(durable.Behind(f), bufferBytes)
	return &Writer{dir: dir, file: f, out: out, state: state, sum: xxh3.New()}
}

// Open continues the log in dir after its last commit. Bytes written after that commit are discarded.
func Open(dir string) (*Writer, error) {
	f, c, err := openCommitted(dir, durable.Continue)
	if err != nil {
		return nil, err
	}
	w := newWriter(dir, f, c)
	w.synced = c.Bytes
	if err = f.Truncate(c.Bytes); err == nil {
		_, err = io.CopyN(w.sum, f, c.Bytes)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return w, nil
}

// openCommitted opens the log in dir. It returns an error if the log is shorter than recorded in its commit.
func openCommitted(dir string, open func(path string) (*os.File, error)) (*os.File, Commit, error) {
	c, err := ReadCommit(dir)
	if err != nil {
		return nil, c, err
	}
	f, err := open(filepath.Join(dir, LogName))
	if err != nil {
		return nil, c, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() < c.Bytes {
		err = fmt.Errorf("%s has %d bytes, but %d were committed: it was cut short", f.Name(), info.Size(), c.Bytes)
	}
	if err != nil {
		f.Close()
		return nil, c, err
	}
	return f, c, nil
}

// ReadCommit returns the last commit of the log in dir. The error wraps fs.ErrNotExist if it is missing.
func ReadCommit(dir string) (Commit, error) {
	var c Commit
	b, err := durable.ReadFile(filepath.Join(dir, CommitName), maxCommit)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("%s: %w", filepath.Join(dir, CommitName), err)
	}
	if c.Version != Version {
		return c, fmt.Errorf("record log in %s has version %d, expected %d: start a new run", dir, c.Version, Version)
	}
	if c.Bytes < int64(HeaderSize) || c.Records > maxRecords {
		return c, fmt.Errorf("%s is damaged: %d records in %d bytes", filepath.Join(dir, CommitName),
			c.Records, c.Bytes)
	}
	return c, nil
}

// Uncommitted returns how many bytes have been appended since the last commit.
func (w *Writer) Uncommitted() int64 { return w.state.Bytes - w.synced }

// Append adds a group, and sets g.First. The error wraps ErrFull if the log can't hold the group.
func (w *Writer) Append(g *Group) error {
	g.First = w.state.Records
	if err := cmp.Or(checkRecords(g.First+uint64(len(g.Records))), checkInputs(g)); err != nil {
		return err
	}
	w.enc.Buf, w.enc.Lists = append(w.enc.Buf[:0], make([]byte, frameHead)...), 0
	if err := w.enc.group(g); err != nil {
		return err
	}
	payload := w.enc.Buf[frameHead:]
	binary.LittleEndian.PutUint64(w.enc.Buf, uint64(len(payload)))
	w.enc.Buf = binary.LittleEndian.AppendUint64(w.enc.Buf, xxh3.Hash(payload))
	w.sum.Write(w.enc.Buf) // hash the bytes here, while they are still in the cache
	n, err := w.out.Write(w.enc.Buf)
	if err != nil {
		return err
	}
	w.state.announce(int64(len(payload)), w.enc.Lists)
	w.state.Bytes += int64(n)
	w.state.Groups++
	w.state.Records += uint64(len(g.Records))
	return nil
}

// Commit makes everything appended so far durable, along with the source's cursor. done reports whether the log is
// complete.
func (w *Writer) Commit(cursor json.RawMessage, done bool) error {
	if err := w.out.Flush(); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		return err
	}
	w.state.Cursor, w.state.Done = cursor, done
	if done {
		sum := w.sum.Sum128().Bytes()
		w.state.XXH3 = hex.EncodeToString(sum[:])
	}
	b, err := json.Marshal(w.state)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(w.dir, CommitName), append(b, '\n')); err != nil {
		return err
	}
	w.synced = w.state.Bytes
	return nil
}

// Close closes the file. Uncommitted groups are lost on resume.
func (w *Writer) Close() error { return w.file.Close() }

// Reader reads the groups of a committed log in order.
type Reader struct {
	file   *os.File
	in     *bufio.Reader
	left   int64  // bytes from offset to the end
	next   uint64 // ordinal of the next record
	offset int64  // offset of the next frame in the log
	commit Commit
	most   Large
	part   bool      // whether only a part of the log is read; if so, the number of records isn't checked
	spare  sync.Pool // holds values of type *Group
}

// newReader opens the log in dir up to its last commit.
func newReader(dir string) (*Reader, error) {
	f, c, err := openCommitted(dir, durable.Open)
	if err != nil {
		return nil, err
	}
	r := &Reader{
		file: f, in: bufio.NewReaderSize(f, bufferBytes), left: c.Bytes - int64(HeaderSize), offset: int64(HeaderSize),
		commit: c, most: c.largest(),
	}
	head := make([]byte, HeaderSize)
	if _, err := io.ReadFull(r.in, head); err != nil || string(head[:len(magic)]) != magic {
		f.Close()
		return nil, fmt.Errorf("invalid record log %s", f.Name())
	}
	if v := binary.LittleEndian.Uint32(head[len(magic):]); v != Version {
		f.Close()
		return nil, fmt.Errorf("%s has version %d, expected %d: start a new run", f.Name(), v, Version)
	}
	return r, nil
}

// Next returns the next group. It returns io.EOF after the last committed group, or after the last group in the range
// being read.
func (r *Reader) Next() (*Group, error) {
	if r.left == 0 {
		if !r.part && r.next != r.commit.Records {
			return nil, r.damaged(fmt.Errorf("expected %[2]d committed records, got %[1]d", r.next, r.commit.Records))
		}
		return nil, io.EOF
	}
	g, _ := r.spare.Get().(*Group)
	if g == nil {
		g = &Group{}
	}
	size, err := g.read(r.in, r.most, r.left)
	if err != nil {
		return nil, r.damaged(err)
	}
	g.First, g.Offset = r.next, r.offset
	r.next += uint64(len(g.Records))
	if r.next > r.commit.Records {
		return nil, r.damaged(fmt.Errorf("too many records: only %d were committed", r.commit.Records))
	}
	r.offset += size
	r.left -= size
	return g, nil
}

func (r *Reader) damaged(err error) error {
	return fmt.Errorf("%s is damaged at byte %d: %w", r.file.Name(), r.offset, err)
}

// ahead returns the maximum memory that the next group can take, or 0 if there isn't one or its length is invalid.
func (r *Reader) ahead() int64 {
	head, err := r.in.Peek(frameHead)
	if err != nil {
		return 0
	}
	n := binary.LittleEndian.Uint64(head)
	if n > uint64(r.most.Frame) {
		return 0
	}
	return int64(n) + listsIn(int64(n), r.most)
}

// checkFrame returns an error if a frame of n bytes doesn't fit into the rest of a log, or is larger than the log's
// maximum.
func (l Large) checkFrame(n uint64, left int64) error {
	if left < frameHead+frameTail || n > uint64(left-frameHead-frameTail) {
		return fmt.Errorf("invalid frame size: %d bytes, but only %d bytes of the log remain", n, left)
	}
	if n > uint64(l.Frame) {
		return fmt.Errorf("invalid frame size: %d bytes, but the maximum in this log is %d", n, l.Frame)
	}
	return nil
}

// Reuse makes a group's memory available for later groups. The caller must not use the group any more.
func (r *Reader) Reuse(g *Group) { r.spare.Put(g) }

// Close closes the file.
func (r *Reader) Close() error { return r.file.Close() }

// Access reads a log's groups in any order, by the offsets of their frames. It is safe for concurrent use.
type Access struct {
	file *os.File
	size int64
	most Large // limits for a group
}

// OpenAccess opens the log in dir up to its last commit.
func OpenAccess(dir string) (*Access, error) {
	f, c, err := openCommitted(dir, durable.Open)
	if err != nil {
		return nil, err
	}
	return &Access{file: f, size: c.Bytes, most: c.largest()}, nil
}

// Group reads the group whose frame begins at offset (see Group.Offset). First and Offset of the returned group are 0,
// because a frame doesn't contain them.
func (a *Access) Group(offset int64) (*Group, error) {
	g, err := &Group{}, fmt.Errorf("invalid frame offset: the log has %d bytes", a.size)
	if left := a.size - offset; offset >= int64(HeaderSize) && left >= 0 {
		_, err = g.read(io.NewSectionReader(a.file, offset, left), a.most, left)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is damaged at byte %d: %w", a.file.Name(), offset, err)
	}
	return g, nil
}

// Close closes the file.
func (a *Access) Close() error { return a.file.Close() }
