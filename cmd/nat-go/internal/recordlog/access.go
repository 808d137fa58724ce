package recordlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nat-go/nat-go/internal/durable"
)

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
	g, err := a.group(offset)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errShort
	}
	if err != nil {
		return nil, fmt.Errorf("%s is damaged at byte %d: %w", a.file.Name(), offset, err)
	}
	return g, nil
}

func (a *Access) group(offset int64) (*Group, error) {
	if offset < int64(HeaderSize) || offset > a.size {
		return nil, fmt.Errorf("invalid frame offset: the log has %d bytes", a.size)
	}
	var head [frameHead]byte
	if _, err := a.file.ReadAt(head[:], offset); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(head[:])
	if err := a.most.checkFrame(n, a.size-offset); err != nil {
		return nil, err
	}
	g := &Group{frame: make([]byte, n+frameTail)}
	if _, err := a.file.ReadAt(g.frame, offset+frameHead); err != nil {
		return nil, err
	}
	return g, g.decodeFrame(a.most)
}

// Close closes the file.
func (a *Access) Close() error { return a.file.Close() }
