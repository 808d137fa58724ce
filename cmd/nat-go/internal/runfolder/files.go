package runfolder

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/lists"
)

// File describes one of the run's files as written.
type File struct {
	Path  string `json:"path"` // relative to the run folder, with slashes
	Bytes int64  `json:"bytes"`
	XXH3  string `json:"xxh3"` // 128-bit xxh3 of the content, in hex

	temp string // temporary path of a file that has not been renamed into place; empty otherwise
}

// Lookup returns the file with the given path from a list, or the zero File.
func Lookup(files []File, rel string) File {
	f, _ := lists.Find(files, func(f File) bool { return f.Path == rel })
	return f
}

// Until returns a copy of f whose file is at the path temp until it is renamed into place.
func (f File) Until(temp string) File {
	f.temp = temp
	return f
}

// DatasetFile returns the file at a path in the data set's folder.
func DatasetFile(path string, bytes int64, xxh3 string) File {
	f := Folder("")
	return File{Path: f.Rel(filepath.Join(f.Dataset(), filepath.FromSlash(path))), Bytes: bytes, XXH3: xxh3}
}

// isExcluded reports whether a path isn't covered by the manifest. The excluded paths are the lock, the job's journal
// and the trainer's files, which may change after the run is complete, and the manifest, which can't contain its own
// hash.
func (f Folder) isExcluded(rel string) bool {
	switch f.path(filepath.FromSlash(rel)) {
	case f.Manifest(), f.lockFile(), f.Job(), f.Trainer():
		return true
	}
	return false
}

// Walk calls do for every file in the folder that the manifest covers, with the file's path relative to the folder.
// It doesn't follow links, and skips temporary files. For the teacher's answers, of which there may be millions, Walk
// calls do only once, with the path of their folder followed by a slash.
func (f Folder) Walk(do func(rel string, info fs.FileInfo) error) error {
	return filepath.WalkDir(string(f), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, then := f.Rel(path), error(nil)
		switch {
		case f.isExcluded(rel) && e.IsDir():
			return fs.SkipDir
		case e.IsDir() && path == f.Teacher():
			rel, then = rel+"/", fs.SkipDir
		case e.IsDir(), f.isExcluded(rel), durable.Temporary(e.Name()):
			return nil
		}
		info, err := e.Info()
		if err == nil {
			err = do(rel, info)
		}
		return cmp.Or(err, then)
	})
}

// Temporaries counts the folder's temporary files, which belong to commands that were killed or are still running.
func (f Folder) Temporaries() (n int, err error) {
	err = filepath.WalkDir(string(f), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && durable.Temporary(e.Name()) {
			n++
		}
		return err
	})
	return n, err
}

// Sum reads a file in the folder and returns its size and hash. If the path ends in a slash, it refers to a subfolder.
// The size is then the total size of the subfolder's files, and the hash covers their names and contents.
func (f Folder) Sum(rel string) (File, error) {
	if strings.HasSuffix(rel, "/") {
		return f.sumTree(rel)
	}
	sum, n, err := content(f.path(filepath.FromSlash(rel)))
	return File{Path: rel, Bytes: n, XXH3: sum}, err
}

func (f Folder) sumTree(rel string) (File, error) {
	h := xxh3.New()
	s := File{Path: rel}
	err := filepath.WalkDir(f.path(filepath.FromSlash(rel)), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || durable.Temporary(e.Name()) {
			return err
		}
		if !e.Type().IsRegular() {
			return fmt.Errorf("not a regular file: %s", path)
		}
		sum, n, err := content(path)
		s.Bytes += n
		fmt.Fprintf(h, "%q %d %s\n", f.Rel(path), n, sum)
		return err
	})
	s.XXH3 = Digest(h)
	return s, err
}

// ContentSum returns the hash of a file's content, in hex.
func ContentSum(path string) (string, error) {
	sum, _, err := content(path)
	return sum, err
}

func content(path string) (sum string, n int64, err error) {
	in, err := durable.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer in.Close()
	h := xxh3.New()
	if n, err = io.Copy(h, in); err != nil {
		return "", n, fmt.Errorf("%s: %w", path, err)
	}
	return Digest(h), n, nil
}

// Digest returns the 128-bit hash of the bytes written to h, in hex.
func Digest(h *xxh3.Hasher) string {
	sum := h.Sum128().Bytes()
	return hex.EncodeToString(sum[:])
}

// DigestOf returns the 128-bit hash of b, in hex.
func DigestOf(b []byte) string {
	sum := xxh3.Hash128(b).Bytes()
	return hex.EncodeToString(sum[:])
}

// Sums lists the run's files with their hashes, sorted by path. It doesn't read the files in known, which were hashed
// as they were written, but returns an error if one of these files is missing or has a different size.
func (l *Lock) Sums(known []File) ([]File, error) {
	by := map[string]File{}
	for _, k := range known {
		by[k.Path] = k
	}
	var list []File
	err := l.Folder.Walk(func(rel string, info fs.FileInfo) (err error) {
		// Skip files from other programs; nat-go writes only regular files.
		if !info.IsDir() && !info.Mode().IsRegular() {
			return nil
		}
		s, ok := by[rel]
		if !ok {
			if s, err = l.Folder.Sum(rel); err != nil {
				return err
			}
		}
		if !info.IsDir() && s.Bytes != info.Size() {
			return fmt.Errorf("%s has %d bytes, but %d were written: it was changed during the run", rel, info.Size(), s.Bytes)
		}
		delete(by, rel)
		list = append(list, s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for rel := range by {
		return nil, fmt.Errorf("missing %s: it was removed during the run", rel)
	}
	slices.SortFunc(list, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}
