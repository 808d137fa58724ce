package host

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/nat-go/nat-go/internal/durable"
)

// binary returns the file to run: the configured file or, if it has a checksum, a private copy. Both are checked: the
// original to detect changes, and the copy so that the verified contents cannot change before it starts.
func (s *Spec) binary(runDir string) (string, error) {
	if s.Self {
		return selfPath()
	}
	path, err := s.executable()
	if err != nil || s.SHA256 == "" {
		return path, err
	}
	sum, key := strings.ToLower(s.SHA256), strings.ToLower(s.SHA256)
	if len(s.Beside) > 0 {
		key = folderKey(sum, s.Beside)
	}
	for name := range s.Beside {
		if name != filepath.Base(name) || !filepath.IsLocal(name) {
			return "", fmt.Errorf("invalid name %q of a file next to %s", name, path)
		}
	}
	dir := copiesFolder(key, runDir)
	if err := copyFiles(filepath.Dir(path), dir, s.Beside); err != nil {
		return "", err
	}
	copied := filepath.Join(dir, filepath.Base(path))
	return copied, checkedCopy(path, copied, sum)
}

// executable returns the path of the file or, for a module, of the Python interpreter.
func (s *Spec) executable() (string, error) {
	path, err := exec.LookPath(s.Path)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return "", lookError(s.Path, err)
	}
	return filepath.Abs(path)
}

func lookError(path string, err error) error {
	info, statErr := os.Stat(path)
	switch {
	case statErr != nil && os.IsNotExist(statErr):
		return fmt.Errorf("cannot find file %s", path)
	case statErr == nil && info.IsDir():
		return fmt.Errorf("cannot run folder %s: specify the program in it", path)
	case statErr == nil && info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("cannot execute %s: run `chmod +x %s`", path, path)
	}
	return err
}

// execError explains why the system refused to run a file that exists and is executable.
func execError(path string, err error) error {
	_, statErr := os.Stat(path)
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("cannot run %s on %s/%s: it was built for another platform, or is a script whose first "+
			"line doesn't name its interpreter (#!)", path, runtime.GOOS, runtime.GOARCH)
	case errors.Is(err, fs.ErrNotExist) && statErr == nil:
		return fmt.Errorf("cannot run %s: the interpreter that it names, in its first line if it is a script, "+
			"is not on this machine", path)
	}
	return err
}

// copiesFolder returns the folder, which only the user can access, for the copies of a plugin's files.
func copiesFolder(key, runDir string) string {
	if cache, err := os.UserCacheDir(); err == nil {
		return filepath.Join(cache, "nat-go", "plugins", key)
	}
	return filepath.Join(runDir, "bin")
}

// copyFiles makes checked copies of files, given by name with their checksums.
func copyFiles(from, to string, files map[string]string) error {
	for name, sum := range files {
		name = filepath.FromSlash(name)
		if err := checkedCopy(filepath.Join(from, name), filepath.Join(to, name), strings.ToLower(sum)); err != nil {
			return err
		}
	}
	return nil
}

// folderKey returns the folder name for a program and the files that go with it. Different contents get different
// folders.
func folderKey(sum string, beside map[string]string) string {
	h := sha256.New()
	fmt.Fprintln(h, sum)
	for _, name := range slices.Sorted(maps.Keys(beside)) {
		fmt.Fprintf(h, "%q %s\n", name, strings.ToLower(beside[name]))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// checkedCopy copies a file with checksum sum to copied. The original is checked even if the copy already exists.
func checkedCopy(path, copied, sum string) error {
	switch got, err := durable.Sum(path); {
	case err != nil:
		return err
	case got != sum:
		return &checksumError{Path: path, Want: sum, Got: got}
	}
	if got, err := durable.Sum(copied); err == nil && got == sum {
		return nil
	}
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(copied), 0o700); err != nil {
		return err
	}
	out, err := durable.Create(copied)
	if err != nil {
		return err
	}
	defer out.Abort()
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(out, h), in); err != nil {
		return fmt.Errorf("cannot copy the plugin: %w", err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != sum {
		return &checksumError{Path: path, Want: sum, Got: got}
	}
	if err := errors.Join(out.Chmod(0o500), out.CommitUnsynced()); err != nil {
		return fmt.Errorf("cannot copy the plugin: %w", err)
	}
	return nil
}

// checksumError reports that a plugin's file is not the one that was locked.
type checksumError struct{ Path, Want, Got string }

func (e *checksumError) Error() string {
	return fmt.Sprintf("%s has sha256 %s, not %s: it was changed or replaced; if you trust it, `nat-go plugins lock` writes the new checksum into nat-go.lock; a sha256 in the configuration has to be corrected by hand", e.Path, e.Got, e.Want)
}
