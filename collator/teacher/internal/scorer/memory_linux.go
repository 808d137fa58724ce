package scorer

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// memory is a sealed, mapped file in memory, which no process can shrink while it is being read.
type memory struct {
	file *os.File
	data []byte
}

func newMemory(size int64) (*memory, error) {
	fd, err := unix.MemfdCreate("nat-go-logits", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	m := &memory{file: os.NewFile(uintptr(fd), "nat-go-logits")}
	if err := m.file.Truncate(size); err != nil {
		m.close()
		return nil, err
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS,
		unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		m.close()
		return nil, fmt.Errorf("seal: %w", err)
	}
	if m.data, err = unix.Mmap(fd, 0, int(size), unix.PROT_READ, unix.MAP_SHARED); err != nil {
		m.close()
		return nil, fmt.Errorf("mmap: %w", err)
	}
	return m, nil
}

// read returns the first n bytes.
func (m *memory) read(n int) ([]byte, error) { return m.data[:n], nil }

func (m *memory) close() {
	if m.data != nil {
		_ = unix.Munmap(m.data) // Munmap cannot fail for mapped memory
	}
	m.file.Close()
}
