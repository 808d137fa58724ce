package host

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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
	"time"

	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/process"
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

// execError explains why the system can't run a file that exists and is executable.
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

// folderKey returns the folder name for a program and its accompanying files. Different contents get different
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

// checksumError reports that a plugin's file differs from the locked one.
type checksumError struct{ Path, Want, Got string }

func (e *checksumError) Error() string {
	return fmt.Sprintf("%s has sha256 %s, not %s: it was changed or replaced; if you trust it, `nat-go plugins lock` writes the new checksum into nat-go.lock; a sha256 in the configuration has to be corrected by hand", e.Path, e.Got, e.Want)
}

// serveModule is the module in the Python package natgo that serves another module's builders.
const serveModule = "natgo.builder"

// Limits on a locked Python package, and on the interpreter's output about its location.
const (
	maxModuleFiles = 2000
	maxModuleBytes = 64 << 20
	maxWhere       = 64 << 10
)

// ModuleArgs returns the interpreter arguments for serving the builders of a Python module that the interpreter locates
// itself.
func ModuleArgs(module string) []string { return []string{"-m", serveModule, module} }

// module returns the interpreter and arguments that serve the spec's module. With a checksum, the module's package is
// located without running it and then checked, and a private copy is run.
func (s *Spec) module(ctx context.Context, runDir string) (interpreter string, args []string, err error) {
	if interpreter, err = s.executable(); err != nil || s.SHA256 == "" {
		return interpreter, append(ModuleArgs(s.Module), s.Args...), err
	}
	folder, files, err := s.locateModule(ctx, interpreter)
	if err != nil {
		return "", nil, err
	}
	if sum := moduleSum(files); sum != strings.ToLower(s.SHA256) {
		return "", nil, s.moduleChanged(folder, files, sum)
	}
	dir := copiesFolder(strings.ToLower(s.SHA256), runDir)
	args = append([]string{"-m", serveModule, "--from", dir, s.Module}, s.Args...)
	return interpreter, args, copyFiles(folder, dir, files)
}

// moduleChanged returns an error that names the package file that differs from the locked one.
func (s *Spec) moduleChanged(folder string, files map[string]string, sum string) error {
	for _, name := range slices.Sorted(maps.Keys(s.Beside)) {
		switch got := files[name]; got {
		case s.Beside[name]:
		case "":
			return fmt.Errorf("missing %s, which nat-go.lock lists: if that is intended, run `nat-go plugins lock`",
				filepath.Join(folder, filepath.FromSlash(name)))
		default:
			return &checksumError{Path: filepath.Join(folder, filepath.FromSlash(name)), Want: s.Beside[name], Got: got}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if s.Beside[name] == "" && len(s.Beside) > 0 {
			return fmt.Errorf("unknown file %s, which nat-go.lock doesn't list: if that is intended, run `nat-go "+
				"plugins lock`", filepath.Join(folder, filepath.FromSlash(name)))
		}
	}
	return &checksumError{Path: "the package of " + s.Module, Want: s.SHA256, Got: sum}
}

// ModuleFiles returns the SHA-256 of the Python package that contains the spec's module, and of each of its files by
// name. It asks the interpreter for the package's location, without running the package's code.
func (s *Spec) ModuleFiles(ctx context.Context) (sum string, files map[string]string, err error) {
	interpreter, err := s.executable()
	if err != nil {
		return "", nil, err
	}
	_, files, err = s.locateModule(ctx, interpreter)
	return moduleSum(files), files, err
}

func moduleSum(files map[string]string) string { return folderKey(serveModule, files) }

// locateModule returns the folder containing a module's package, and the package's files, by path relative to that
// folder.
func (s *Spec) locateModule(
	ctx context.Context, interpreter string,
) (folder string, files map[string]string, err error) {
	path, err := s.findPackage(ctx, interpreter)
	if err != nil {
		return "", nil, err
	}
	folder, files = filepath.Dir(path), map[string]string{}
	var size int64
	err = filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "__pycache__":
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) == ".pyc":
			return nil
		}
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			return fmt.Errorf("unsupported %s: a locked package may hold only files and folders", path)
		}
		if size += info.Size(); size > maxModuleBytes || len(files) == maxModuleFiles {
			return fmt.Errorf("%s has more than %d files or %d MiB: give the builders a package of their own",
				filepath.Dir(path), maxModuleFiles, maxModuleBytes>>20)
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(name)], err = durable.Sum(path)
		return err
	})
	return folder, files, err
}

// findPackage asks the interpreter for the path of the module's package, which may be a folder or a file.
func (s *Spec) findPackage(ctx context.Context, interpreter string) (string, error) {
	var out, stderr []byte
	read := func(into *[]byte) func(io.Reader) {
		return func(r io.Reader) { *into, _ = io.ReadAll(io.LimitReader(r, maxWhere)) }
	}
	c := s.command(interpreter, []string{"-m", serveModule, "--where", s.Module}, nil)
	c.Stdout, c.Stderr = read(&out), read(&stderr)
	p, err := process.Start(c)
	if err != nil {
		return "", execError(interpreter, err)
	}
	limit := cmp.Or(s.StartTimeout, time.Minute)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = p.Run(ctx, 0)
	var where struct{ Path string }
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s did not say where the module %[3]s is within %[2]s", interpreter, limit, s.Module)
	case err != nil && strings.Contains(string(stderr), "No module named 'natgo"):
		return "", fmt.Errorf("%s has no module %s, which serves the module %s. It is in nat-go's wheel, which `make "+
			"wheel` writes to dist: `%s -m pip install WHEEL grpcio "+
			"protobuf`", interpreter, serveModule, s.Module, interpreter)
	case err != nil:
		said := bytes.TrimSpace(stderr)
		last := said[bytes.LastIndexByte(said, '\n')+1:]
		return "", fmt.Errorf("%s cannot locate the module %s: %s", interpreter, s.Module, last)
	case json.Unmarshal(out, &where) != nil || !filepath.IsAbs(where.Path):
		return "", fmt.Errorf("%s says that the module %s is at %q", interpreter, s.Module, out)
	}
	return where.Path, nil
}
