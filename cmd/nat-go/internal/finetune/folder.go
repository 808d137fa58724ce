package finetune

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/internal/durable"
)

// Folder is a run's folder, <output_dir>/<run_id>. Paths inside are relative, so that it can move.
type Folder string

// Manifest says what the run read, decided and wrote.
func (f Folder) Manifest() string { return f.path("manifest.json") }

// Config is the run's configuration, with ${VAR} left as references.
func (f Folder) Config() string { return f.path("config.yml") }

// Records is the folder of the record log.
func (f Folder) Records() string { return f.path("records") }

// Decisions holds curation's decision on every record of the log.
func (f Folder) Decisions() string { return f.path("records", "decisions.bin") }

// Dataset has a folder for each format.
func (f Folder) Dataset() string { return f.path("dataset") }

// Collected has what a live source made: a folder for each collection run.
func (f Folder) Collected() string { return f.path("collected") }

// Batches has the token batches.
func (f Folder) Batches() string { return f.path("batches") }

// Teacher holds the answers of collator.teacher, by the hash of what was asked.
func (f Folder) Teacher() string { return f.path("teacher") }

// Dropped lists what was left out, with the reason.
func (f Folder) Dropped() string { return f.path("dropped.jsonl") }

// Job is the reference to the training job.
func (f Folder) Job() string { return f.path("job.json") }

func (f Folder) path(p ...string) string { return filepath.Join(append([]string{string(f)}, p...)...) }

// create makes the folder and locks it: two runs never share one. A folder that exists is refused, unless a run died in it
// before it had begun: it holds nothing then that resume could go on with.
func (f Folder) create() (*os.File, error) {
	if err := os.MkdirAll(f.Records(), 0o755); err != nil {
		return nil, exit.Environmentf("can't make the run folder: %w", err)
	}
	lock, err := f.lock()
	if err != nil {
		return nil, err
	}
	used, err := f.used()
	switch {
	case err != nil:
		err = exit.Environmentf("can't make the run folder: %w", err)
	case used:
		err = exit.Usagef("the run folder %s exists already: choose another --run-id, or go on with it by `nat-go finetune resume %s`", f, f)
	default:
		return lock, nil
	}
	lock.Close()
	return nil, err
}

// used says whether the folder holds more than a run that dies before it begins leaves behind.
func (f Folder) used() (bool, error) {
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

// lock keeps other processes from working on the run until the file is closed, or this process ends in whatever way.
func (f Folder) lock() (*os.File, error) {
	dir, err := os.Open(string(f))
	if err != nil {
		return nil, exit.Environmentf("can't open the run folder: %w", err)
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		dir.Close()
		return nil, exit.Usagef("another nat-go is at work on the run in %s: choose another --run-id, or wait for it to end", f)
	}
	return dir, nil // a file system without locks has to do without
}
