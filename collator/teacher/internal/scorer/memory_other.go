//go:build !linux

package scorer

import (
	"fmt"
	"io"
	"os"

	"github.com/nat-go/nat-go/internal/spool"
)

// memory is an unnamed file. It is read, not mapped, because the program could shrink it while it is mapped.
type memory struct {
	file *os.File
	data []byte
}

func newMemory(size int64) (*memory, error) {
	file, err := spool.Unnamed("")
	if err != nil {
		return nil, err
	}
	if err := file.Truncate(size); err != nil {
		file.Close()
		return nil, err
	}
	return &memory{file: file}, nil
}

// read returns the first n bytes.
func (m *memory) read(n int) ([]byte, error) {
	if cap(m.data) < n {
		m.data = make([]byte, n)
	}
	m.data = m.data[:n]
	if _, err := io.ReadFull(io.NewSectionReader(m.file, 0, int64(n)), m.data); err != nil {
		return nil, fmt.Errorf("returned logits that cannot be read from the shared memory: %w", err)
	}
	return m.data, nil
}

func (m *memory) close() { m.file.Close() }
