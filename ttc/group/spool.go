package group

import (
	"bufio"
	"fmt"
	"os"
)

// spool is a temporary file that blocks are appended to and then read from. It has no name from the start.
type spool struct {
	file *os.File
	out  *bufio.Writer
	size int64
}

func newSpool(dir string) (*spool, error) {
	f, err := os.CreateTemp(dir, ".tmp-group-*")
	if err != nil {
		return nil, fmt.Errorf("grouping needs a temporary file: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, fmt.Errorf("unlink the temporary file of grouping: %w", err)
	}
	return &spool{file: f, out: bufio.NewWriterSize(f, 256<<10)}, nil
}

// append returns where the block lies.
func (s *spool) append(block []byte) (at int64, err error) {
	at = s.size
	n, err := s.out.Write(block)
	s.size += int64(n)
	return at, s.explain(err)
}

func (s *spool) flush() error { return s.explain(s.out.Flush()) }

func (s *spool) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("grouping keeps a compressed copy of the input in a temporary file, which failed after %d bytes: %w", s.size, err)
}

func (s *spool) read(block []byte, at int64) error {
	if _, err := s.file.ReadAt(block, at); err != nil {
		return fmt.Errorf("read the temporary file of grouping: %w", err)
	}
	return nil
}

func (s *spool) close() { s.file.Close() }
