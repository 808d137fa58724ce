package objects

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nat-go/nat-go/internal/durable"
)

// sumsName is the name of the file in a copy that holds the hashes of the copy's files. It is written last.
const sumsName = "copied.json"

// Copy copies the named objects below a prefix to a folder in cache, and returns the folder. It skips objects that
// don't exist, but requires at least one, and refuses objects larger than "most" bytes. An earlier copy of the same
// state of the objects is reused if its files are undamaged.
func (s *Storage) Copy(ctx context.Context, prefix string, names []string, most int64, cache string) (string, error) {
	states, key := map[string]Info{}, sha256.New()
	fmt.Fprintf(key, "%q\n", prefix)
	for _, name := range names {
		info, err := s.Stat(ctx, Join(prefix, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if info.Size > most {
			what := fmt.Sprintf("the object has %d bytes; at most %d can be copied", info.Size, most)
			return "", refuse(Join(prefix, name), what, "")
		}
		states[name] = info
		fmt.Fprintf(key, "%q %d %q %d\n", name, info.Size, info.ETag, info.ModTime.UnixNano())
	}
	if len(states) == 0 {
		return "", &Error{
			Path: prefix, What: "the folder has none of " + strings.Join(names, ", "), Err: fs.ErrNotExist, final: true,
			Help: "Check the bucket and the key",
		}
	}
	dir := filepath.Join(cache, hex.EncodeToString(key.Sum(nil)[:16]))
	if copied(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", err
	}
	making, err := sweep(cache)
	if err != nil {
		return "", err
	}
	defer making.Close()
	own, err := os.MkdirTemp(cache, unfinished)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(own)
	sums := map[string]string{}
	for name, info := range states {
		if sums[name], err = s.copyTo(ctx, filepath.Join(own, name), Join(prefix, name), info); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(sums)
	if err == nil {
		err = durable.WriteFile(filepath.Join(own, sumsName), text)
	}
	if err != nil {
		return "", err
	}
	return dir, replace(dir, own)
}

// unfinished is the prefix of the names of copies being made; lockName is the file that is locked during a copy.
const (
	unfinished = "new-"
	lockName   = "making.lock"
)

// sweep removes unfinished copies left by killed processes, but nothing while another process is making a copy, or on
// a file system without locks. The lock that it returns keeps other processes from sweeping.
func sweep(cache string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(cache, lockName), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		entries, _ := os.ReadDir(cache)
		for _, e := range entries {
			if e.IsDir() && strings.HasPrefix(e.Name(), unfinished) {
				_ = os.RemoveAll(filepath.Join(cache, e.Name())) // if this fails, the next copy tries again
			}
		}
	}
	_ = durable.Lock(lock, unix.LOCK_SH)
	return lock, nil
}

// copyTo copies an object in the given state to a file, and returns the hash of its content.
func (s *Storage) copyTo(ctx context.Context, path, from string, is Info) (string, error) {
	in, err := s.Open(ctx, from)
	if err != nil {
		return "", err
	}
	defer in.Close()
	if !in.same(is) {
		return "", &Error{Path: from, What: "the object changed while it was copied", Err: errChanged, final: true}
	}
	out, err := durable.Create(path)
	if err != nil {
		return "", err
	}
	defer out.Abort()
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(out, sum), in); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), out.Commit()
}

// copied reports whether a folder contains a complete, undamaged copy.
func copied(dir string) bool {
	text, err := durable.ReadFile(filepath.Join(dir, sumsName), 1<<20)
	sums := map[string]string{}
	if err != nil || json.Unmarshal(text, &sums) != nil {
		return false
	}
	for name, want := range sums {
		if got, err := durable.Sum(filepath.Join(dir, name)); err != nil || got != want {
			return false
		}
	}
	return true
}

// replace renames a new copy to its final name, replacing a damaged one. Another process may already have made the same
// copy.
func replace(dir, own string) error {
	if durable.Move(own, dir) == nil || copied(dir) {
		return nil
	}
	if err := durable.Move(dir, own+"-damaged"); err != nil {
		return err
	}
	defer os.RemoveAll(own + "-damaged")
	return durable.Move(own, dir)
}
