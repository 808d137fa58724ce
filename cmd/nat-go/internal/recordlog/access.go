package recordlog

import (
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
