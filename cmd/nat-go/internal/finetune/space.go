package finetune

import (
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
)

// Measured size ratios. Each byte of candidate text in the input adds logPerByte bytes to the record log, and
// rowsPerByte bytes to each format's rows and their origins, because several pairs repeat the same text. The factor
// unpacked is the ratio of a compressed file's decompressed size to its compressed size.
const (
	logPerByte  = 0.35
	rowsPerByte = 2.9
	unpacked    = 6
)

// checkSpace compares the disk's free space with an estimate of the run's size. The size depends on the content of the
// inputs, so checkSpace warns if the space is less than the estimate, and returns an error only if it is less than a
// quarter of it.
func checkSpace(p *plan, inputs *inputs, out *report) error {
	var need float64
	for _, in := range inputs.began {
		size := float64(in.Size)
		if isCompressed(in.Path) {
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
		return exit.Environmentf("disk of %s has %s free, and the data set needs about %s: free some space, "+
			"or write elsewhere with --output-dir", dir, mebibytes(float64(free)), mebibytes(need))
	}
	out.warn("the disk of %s has %s free, and the data set may need %s; if that is not enough, the run stops "+
		"and can be resumed", dir, mebibytes(float64(free)), mebibytes(need))
	return nil
}

// freeSpace returns the number of bytes that a user may still write below dir, which need not exist yet. It returns
// false if the number is unknown.
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
