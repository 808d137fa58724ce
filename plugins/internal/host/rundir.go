package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nat-go/nat-go/internal/process"
)

// runDir is the folder of one Plugin's sockets. Next to it is a file that stays locked while the folder has an owner.
// A process ID would not suffice, because it is meaningless in another namespace and may have been reused. Both names
// begin with a prefix of the mark in the environment of the plugin's processes.
//
// A plugin can write here, as can any other program that the user runs. However, sweep kills only processes with the
// mark in their environment. The host sets the mark for plugins, and their child processes inherit it. Another
// program has it only if it was deliberately started with a plugin's environment.
type runDir struct {
	path string
	mark string
	lock *os.File

	restoring sync.Mutex
}

const (
	maxSocketPath = 100 // macOS allows 104 bytes, Linux 108
	lockEnding    = ".lock"
)

// newRunDir removes the leftovers of ended hosts and creates a folder for this one.
func newRunDir() (*runDir, error) {
	base, err := runBase()
	if err != nil {
		return nil, err
	}
	sweep(base)
	d := &runDir{mark: process.NewMark()}
	d.path = filepath.Join(base, d.mark[:16])
	// go-plugin adds plugin-dir<random>/plugin<random>.
	if n := len(d.path) + len("/plugin-dir/plugin") + 2*10; n > maxSocketPath {
		return nil, fmt.Errorf("socket paths under %s would be %d bytes long, but systems allow about %d; "+
			"set XDG_RUNTIME_DIR to a shorter folder", base, n, maxSocketPath)
	}
	if err := d.claim(); err != nil {
		d.remove()
		return nil, fmt.Errorf("cannot create a folder for plugin sockets: %w", err)
	}
	return d, nil
}

// claim creates the lock and the folder. The lock file gets its name only after it is locked, so that other hosts
// never see it without an owner.
func (d *runDir) claim() (err error) {
	if d.lock, err = os.CreateTemp(filepath.Dir(d.path), ".new-"); err != nil { //nolint:forbidigo // a lock, not data
		return err
	}
	if _, err := d.lock.WriteString(d.mark); err != nil {
		return err
	}
	if err := unix.Flock(int(d.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	err = os.Rename(d.lock.Name(), d.path+lockEnding) //nolint:forbidigo // it is held already, and nothing to sync
	if err != nil {
		return err
	}
	return os.Mkdir(d.path, 0o700)
}

// errNoFolder means that plugins can't be started because there is no folder for their sockets. Retrying doesn't
// help.
var errNoFolder = errors.New("cannot recreate the lost folder for plugin sockets")

// restore recreates the folder if it or its parent folder was removed. It may be called concurrently.
func (d *runDir) restore() error {
	d.restoring.Lock()
	defer d.restoring.Unlock()
	if info, err := os.Lstat(d.path); err == nil && info.IsDir() {
		return nil
	}
	_, err := runBase()
	if err == nil {
		if _, gone := os.Lstat(d.path + lockEnding); gone != nil {
			d.lock.Close()
			err = d.claim()
		} else {
			err = os.Mkdir(d.path, 0o700)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errNoFolder, err)
	}
	return nil
}

func (d *runDir) remove() {
	os.RemoveAll(d.path)
	if d.lock != nil {
		os.Remove(d.path + lockEnding)
		os.Remove(d.lock.Name())
		d.lock.Close()
	}
}

// runBase returns a folder with a short path that only the user can access.
func runBase() (string, error) {
	base := fmt.Sprintf("/tmp/nat-go-%d", os.Getuid())
	if x := os.Getenv("XDG_RUNTIME_DIR"); x != "" && len(x) < 50 {
		if info, err := os.Stat(x); err == nil && info.IsDir() { // the folder may be left over from an earlier login
			base = filepath.Join(x, "nat-go")
		}
	}
	if err := os.Mkdir(base, 0o700); err != nil && !os.IsExist(err) {
		return "", fmt.Errorf("cannot create a folder for plugin sockets: %w", err)
	}
	info, err := os.Lstat(base)
	if err != nil {
		return "", err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm() != 0o700 || !ok || int(st.Uid) != os.Getuid() {
		return "", fmt.Errorf("%s must be owned by you and have mode 0700, because it contains plugin sockets; its mode is %s", base, info.Mode())
	}
	return base, nil
}

// sweep ends the plugins of hosts that have ended, and removes their folders.
func sweep(base string) {
	files, _ := os.ReadDir(base)
	for _, f := range files {
		if strings.HasSuffix(f.Name(), lockEnding) {
			sweepOne(filepath.Join(base, f.Name()))
		}
	}
}

func sweepOne(name string) {
	lock, err := os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer lock.Close()
	if info, err := lock.Stat(); err != nil || !info.Mode().IsRegular() {
		return
	}
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return // the folder still has an owner
	}
	mark := make([]byte, len(process.NewMark()))
	dir := strings.TrimSuffix(name, lockEnding)
	if n, _ := lock.ReadAt(mark, 0); n == len(mark) && filepath.Base(dir) == string(mark[:16]) {
		(&process.Tree{Mark: string(mark)}).Kill()
	}
	os.RemoveAll(dir)
	os.Remove(name)
}
