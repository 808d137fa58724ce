package durable

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Temporary reports whether a name belongs to a temporary file of this package.
func Temporary(name string) bool {
	digits, ok := strings.CutPrefix(name, mark)
	random, err := hex.DecodeString(digits)
	return ok && err == nil && len(random) == 8
}

// Sweep removes the temporary files that remain in a folder after a crash. The folder need not exist; its sub-folders
// are not searched. Sweep keeps files that are still being written. Their writers hold locks on them, which the system
// releases when a process ends.
func Sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type().IsRegular() && Temporary(e.Name()) {
			if err := removeLeft(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeLeft removes a file that isn't locked.
func removeLeft(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if Lock(f, unix.LOCK_EX|unix.LOCK_NB) != nil || !sameFile(f) {
		return nil
	}
	return os.Remove(path)
}
