package finetune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/read"
)

// openFolder creates and locks the run folder, and writes its first files. For a resumed run, whose folder is already
// locked, it instead checks that nothing that determines the data set has changed, and stores the configuration that
// the run continues with.
func (r *run) openFolder(ctx context.Context) (err error) {
	if r.begun != nil {
		if r.made.Accepted, err = r.acceptChanges(); err != nil {
			return err
		}
		return r.rewriteConfig()
	}
	folder := r.folder
	if r.stored != "" {
		if err := r.stored.Free(ctx); err != nil {
			return err
		}
	}
	if err := r.checkSpace(); err != nil {
		return err
	}
	command := cmp.Or(r.starts, "run") + " --run-id " + r.RunID
	if r.lock, err = folder.Create(command); err != nil {
		return err
	}
	r.sum.NotStarted = false
	err = r.writeConfig(folder.Config())
	if err == nil && r.joined == nil { // the inputs of joined runs aren't known yet
		err = r.writeBegun(r.in.Began)
	}
	if err != nil {
		return exit.Default(exit.Environment, fmt.Errorf("cannot write the run's config.yml: %w", err))
	}
	return nil
}

// listDrops starts the list of drops with the files in input folders that aren't read.
func (r *run) listDrops(context.Context) error {
	if err := r.Open(r.folder.Dropped()); err != nil {
		return exit.Environmentf("cannot write the list of drops: %w", err)
	}
	if r.in != nil {
		r.passOver(r.PassedOver, r.in.Runs())
	}
	return nil
}

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
func (r *run) checkSpace() error {
	var need float64
	for _, in := range r.in.Began {
		size := float64(in.Size)
		if read.IsCompressed(in.Path) {
			size *= unpacked
		}
		need += size * (logPerByte + rowsPerByte*float64(len(r.formats)))
	}
	dir := filepath.Dir(string(r.folder))
	free, known := freeSpace(dir)
	switch {
	case !known || float64(free) >= need:
		return nil
	case float64(free) < need/4:
		return exit.Environmentf("disk of %s has %s free, and the data set needs about %s: free some space, "+
			"or write elsewhere with --output-dir", dir, mebibytes(float64(free)), mebibytes(need))
	}
	r.Warn("the disk of %s has %s free, and the data set may need %s; if that is not enough, the run stops "+
		"but can be resumed", dir, mebibytes(float64(free)), mebibytes(need))
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

func mebibytes(n float64) string { return fmt.Sprintf("%.1f MiB", n/(1<<20)) }
