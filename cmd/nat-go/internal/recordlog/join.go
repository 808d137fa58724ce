package recordlog

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/internal/durable"
)

// Join makes one log from complete logs: what one run over all their groups would have written.
type Join struct {
	dir   string
	file  *durable.File
	buf   *bufio.Writer
	sum   *xxh3.Hasher
	out   io.Writer // both
	whole Commit
}

// NewJoin starts the log in dir.
func NewJoin(dir string) (*Join, error) {
	f, err := durable.Create(filepath.Join(dir, LogName))
	if err != nil {
		return nil, err
	}
	j := &Join{
		dir: dir, file: f, buf: bufio.NewWriterSize(f, bufferBytes), sum: xxh3.New(),
		whole: Commit{Version: Version, Bytes: int64(HeaderSize), Done: true},
	}
	j.out = io.MultiWriter(j.buf, j.sum)
	_, err = j.out.Write(binary.LittleEndian.AppendUint32([]byte(magic), Version))
	if err != nil {
		f.Abort()
		return nil, err
	}
	return j, nil
}

// Add opens the log in dir, which must have the given hash, so that its groups can be added. The error wraps ErrFull if
// the joined log can't hold them.
func (j *Join) Add(dir, sum string) (*Part, error) {
	c, err := ReadCommit(dir)
	switch {
	case err != nil:
		return nil, err
	case !c.Done || c.XXH3 != sum:
		return nil, fmt.Errorf("%s is not the log that its manifest names", filepath.Join(dir, LogName))
	}
	if err := holds(j.whole.Records + c.Records); err != nil {
		return nil, err
	}
	f, err := durable.Open(filepath.Join(dir, LogName))
	if err != nil {
		return nil, err
	}
	p := &Part{join: j, file: f, commit: c, most: c.largest(), sum: xxh3.New()}
	p.in = bufio.NewReaderSize(io.TeeReader(io.LimitReader(f, c.Bytes), p.sum), 64<<10)
	if _, err := p.in.Discard(HeaderSize); err != nil {
		f.Close()
		return nil, p.damaged(err)
	}
	if c.Large != nil {
		j.whole.announce(c.Large.Frame, c.Large.Lists)
	}
	j.whole.Bytes += c.Bytes - int64(HeaderSize)
	j.whole.Groups += c.Groups
	j.whole.Records += c.Records
	return p, nil
}

// Groups returns how many groups the opened logs have.
func (j *Join) Groups() int64 { return int64(j.whole.Groups) }

// Commit completes the log. The cursor is stored with its commit.
func (j *Join) Commit(cursor json.RawMessage) error {
	if err := j.buf.Flush(); err != nil {
		return err
	}
	if err := j.file.Commit(); err != nil {
		return err
	}
	digest := j.sum.Sum128().Bytes()
	j.whole.XXH3, j.whole.Cursor = hex.EncodeToString(digest[:]), cursor
	text, err := json.Marshal(j.whole)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(j.dir, CommitName), append(text, '\n'))
}

// Abort removes a log that wasn't completed.
func (j *Join) Abort() { j.file.Abort() }

// Part is a log whose groups are added to another.
type Part struct {
	join   *Join
	file   *os.File
	in     *bufio.Reader
	commit Commit
	most   Large
	sum    *xxh3.Hasher
}

// Next adds the next group; io.EOF: there is none.
func (p *Part) Next() error {
	head, err := p.in.Peek(frameHead)
	if errors.Is(err, io.EOF) && len(head) == 0 {
		return io.EOF
	}
	if err != nil {
		return p.damaged(errShort)
	}
	n := binary.LittleEndian.Uint64(head)
	if err := p.most.fits(n, p.commit.Bytes); err != nil {
		return p.damaged(err)
	}
	_, err = io.CopyN(p.join.out, p.in, int64(n)+frameHead+frameTail)
	if errors.Is(err, io.EOF) {
		err = p.damaged(errShort)
	}
	return err
}

// joinChunk is how much of a log is copied at a time.
const joinChunk = 1 << 20

// Rest adds all remaining groups. What they consist of is checked by Close, as the log's hash.
func (p *Part) Rest(ctx context.Context) error {
	for ctx.Err() == nil {
		switch _, err := io.CopyN(p.join.out, p.in, joinChunk); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
	return context.Cause(ctx)
}

// Close closes the log and, if all of it was added, checks that it matched its hash.
func (p *Part) Close() error {
	defer p.file.Close()
	if _, err := p.in.Peek(1); err == nil {
		return nil
	}
	digest := p.sum.Sum128().Bytes()
	if info, err := p.file.Stat(); err != nil || info.Size() < p.commit.Bytes ||
		hex.EncodeToString(digest[:]) != p.commit.XXH3 {
		return p.damaged(errors.New("its checksum is wrong"))
	}
	return nil
}

func (p *Part) damaged(err error) error {
	return fmt.Errorf("%s is damaged: %w: remove the folder of the shard, and run it again", p.file.Name(), err)
}

// Reset removes the log in dir, whatever was committed of it.
func Reset(dir string) error {
	err := os.Remove(filepath.Join(dir, CommitName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return Remove(dir)
}
