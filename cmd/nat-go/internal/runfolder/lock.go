package runfolder

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/internal/durable"
)

// Create makes the folder and locks it: two runs never share one. A folder that exists is refused, unless a run died in
// it before it had begun: it holds nothing then that resume could go on with.
func (f Folder) Create() (*os.File, error) {
	if err := os.MkdirAll(f.Records(), 0o755); err != nil {
		return nil, exit.Environmentf("can't make the run folder: %w", err)
	}
	lock, err := f.Lock()
	if err != nil {
		return nil, err
	}
	used, err := f.Used()
	switch {
	case err != nil:
		err = exit.Environmentf("can't make the run folder: %w", err)
	case used:
		err = exit.Usagef("the run folder %s exists already: choose another --run-id, or go on with it by "+
			"`nat-go finetune resume %s`", f, f)
	default:
		return lock, nil
	}
	lock.Close()
	return nil, err
}

// Used says whether the folder holds more than a run that dies before it begins leaves behind.
func (f Folder) Used() (bool, error) {
	if err := durable.Sweep(string(f)); err != nil {
		return false, err
	}
	top, err := os.ReadDir(string(f))
	if err != nil {
		return false, err
	}
	for _, e := range top {
		if p := f.path(e.Name()); p != f.Records() && p != f.Config() {
			return true, nil
		}
	}
	records, err := os.ReadDir(f.Records())
	return len(records) > 0, err
}

// Lock keeps other processes from working on the run until the file is closed, or this process ends in whatever way.
func (f Folder) Lock() (*os.File, error) {
	dir, err := os.Open(string(f))
	if err != nil {
		return nil, exit.Environmentf("can't open the run folder: %w", err)
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		dir.Close()
		return nil, exit.Usagef("another nat-go is at work on the run in %s: "+
			"choose another --run-id, or wait for it to end", f)
	}
	return dir, nil // a file system without locks has to do without
}
