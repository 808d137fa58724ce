package recordlog

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/internal/coder"
	"github.com/nat-go/nat-go/internal/durable"
)

// Join opens the complete log in dir, whose commit must have the given hash. The caller then appends its groups to w
// with Part.Next. A log written only in this way equals the log that a single run would write for the groups of all
// parts. The error wraps ErrFull if the log would exceed its limits.
func (w *Writer) Join(dir, sum string) (*Part, error) {
	c, err := ReadCommit(dir)
	switch {
	case err != nil:
		return nil, err
	case !c.Done || c.XXH3 != sum:
		return nil, fmt.Errorf("log %s does not match its manifest", filepath.Join(dir, LogName))
	}
	whole := &w.state
	if err := checkRecords(whole.Records + c.Records); err != nil {
		return nil, err
	}
	f, err := durable.Open(filepath.Join(dir, LogName))
	if err != nil {
		return nil, err
	}
	p := &Part{file: f, commit: c, most: c.largest(), sum: xxh3.New(), out: io.MultiWriter(w.out, w.sum)}
	p.in = bufio.NewReaderSize(io.TeeReader(io.LimitReader(f, c.Bytes), p.sum), 64<<10)
	if _, err := p.in.Discard(HeaderSize); err != nil {
		f.Close()
		return nil, p.damaged(err)
	}
	if c.Large != nil {
		whole.announce(c.Large.Frame, c.Large.Lists)
	}
	whole.Bytes += c.Bytes - int64(HeaderSize)
	whole.Groups += c.Groups
	whole.Records += c.Records
	return p, nil
}

// Part is a log whose groups are added to another.
type Part struct {
	file   *os.File
	in     *bufio.Reader
	out    io.Writer // writes both to the joined log and to its hash
	commit Commit
	most   Large
	sum    *xxh3.Hasher
}

// Next adds the next group, or returns io.EOF at the end.
func (p *Part) Next() error {
	head, err := p.in.Peek(frameHead)
	if errors.Is(err, io.EOF) && len(head) == 0 {
		return io.EOF
	}
	if err != nil {
		return p.damaged(coder.ErrShort)
	}
	n := binary.LittleEndian.Uint64(head)
	if err := p.most.checkFrame(n, p.commit.Bytes); err != nil {
		return p.damaged(err)
	}
	_, err = io.CopyN(p.out, p.in, int64(n)+frameHead+frameTail)
	if errors.Is(err, io.EOF) {
		err = p.damaged(coder.ErrShort)
	}
	return err
}

// Close closes the part's log. If all of it was added, Close returns an error unless the bytes match the log's hash.
func (p *Part) Close() error {
	defer p.file.Close()
	if _, err := p.in.Peek(1); err == nil {
		return nil
	}
	digest := p.sum.Sum128().Bytes()
	if info, err := p.file.Stat(); err != nil || info.Size() < p.commit.Bytes ||
		hex.EncodeToString(digest[:]) != p.commit.XXH3 {
		return p.damaged(errors.New("invalid checksum"))
	}
	return nil
}

func (p *Part) damaged(err error) error {
	return fmt.Errorf("%s is damaged: %w: remove the shard's folder, and rerun the shard", p.file.Name(), err)
}

// Reset removes the commit of the log in dir, if there is one, so that Create may replace the log.
func Reset(dir string) error {
	err := os.Remove(filepath.Join(dir, CommitName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
