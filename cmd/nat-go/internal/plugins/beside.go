package plugins

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/nat-go/nat-go/internal/durable"
)

// Limits on the number and total size of the files that are locked with a script. No real plugin needs as much.
const (
	maxBeside      = 256
	maxBesideBytes = 64 << 20
)

// SiblingSums returns the SHA-256 sums of the files that belong to a script, keyed by name. These are the files in its
// folder with the same extension, such as the *.py files next to a main.py, which may import them. A compiled program
// or a script without an extension doesn't have any. Modules in subfolders and installed packages are not covered.
func SiblingSums(path string) (map[string]string, error) {
	ending := filepath.Ext(path)
	if script, err := isScript(path); err != nil || !script || ending == "" {
		return nil, err
	}
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	var size int64
	for _, e := range entries {
		name := e.Name()
		if filepath.Ext(name) != ending || name == filepath.Base(path) {
			continue
		}
		full := filepath.Join(dir, name)
		info, err := os.Stat(full)
		if err != nil || !info.Mode().IsRegular() {
			continue // a dangling link can't be imported
		}
		if size += info.Size(); size > maxBesideBytes || len(sums) == maxBeside {
			return nil, fmt.Errorf("%s has more than %d files or %d MiB of *%s: move the plugin to its own folder", dir, maxBeside, maxBesideBytes>>20, ending)
		}
		if sums[name], err = durable.Sum(full); err != nil {
			return nil, err
		}
	}
	return sums, nil
}

// isScript reports whether a file begins with #!, which precedes the name of the program that runs it.
func isScript(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var start [2]byte
	_, err = io.ReadFull(f, start[:])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil
	}
	return string(start[:]) == "#!", err
}
