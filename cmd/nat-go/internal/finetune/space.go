package finetune

import (
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
)

// Measured sizes per byte of input that consists of candidates' texts: in the record log, and in a format's rows (which
// repeat each text in several pairs) and their origins; and the size of a compressed byte when unpacked.
const (
	logPerByte  = 0.35
	rowsPerByte = 2.9
	unpacked    = 6
)

// checkSpace compares the disk's free space with the size that the data set may reach. That depends on the content of
// the inputs, so only a disk that can't even hold a quarter of the estimate is refused; if it may be too small there is
// a warning.
func checkSpace(p *plan, inputs *inputs, out *report) error {
	var need float64
	for _, in := range inputs.began {
		size := float64(in.Size)
		if compressed(in.Path) {
			size *= unpacked
		}
		need += size * (logPerByte + rowsPerByte*float64(len(p.formats)))
	}
	dir := filepath.Dir(string(p.folder))
	free, known := freeSpace(dir)
	switch {
	case !known || float64(free) >= need:
		return nil
	case float64(free) < need/4:
		return exit.Environmentf("disk of %s has %s free, and the data set needs about %s: make room, "+
			"or write elsewhere with --output-dir", dir, mebibytes(float64(free)), mebibytes(need))
	}
	out.warn("the disk of %s has %s free, and the data set may need %s; where that does not suffice the run stops and "+
		"can be resumed", dir, mebibytes(float64(free)), mebibytes(need))
	return nil
}

// freeSpace returns the number of bytes that a user may still write below dir, which need not exist yet.
func freeSpace(dir string) (int64, bool) {
	for {
		var st unix.Statfs_t
		err := unix.Statfs(dir, &st)
		if err == nil {
			return int64(st.Bavail) * int64(st.Bsize), true //nolint:unconvert // its type differs between systems
		}
		up := filepath.Dir(dir)
		if !errors.Is(err, fs.ErrNotExist) || up == dir {
			return 0, false
		}
		dir = up
	}
}
