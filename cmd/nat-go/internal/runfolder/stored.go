package runfolder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/zeebo/xxh3"
	"golang.org/x/sync/errgroup"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/objects"
)

// Stored is a prefix in object storage. A run folder's files are stored under it with the same names as in the folder.
type Stored string

// maxTransfers is the maximum number of a run's files that are sent or fetched concurrently.
const maxTransfers = 4

// Object returns the address of a file.
func (s Stored) Object(name string) string { return objects.Join(string(s), name) }

// Check returns an error if the address is invalid.
func (s Stored) Check() error { return objects.Check(s.Object(manifestName)) }

// Free returns an error if there is a run under the prefix, or if the storage can't prevent two processes from
// publishing one there concurrently.
func (s Stored) Free(ctx context.Context) error {
	return s.Lacks(ctx, manifestName, exit.Usagef("%s already has a run: choose another --run-id", s))
}

// Lacks returns nil if the storage doesn't have a file with the given name, and the given error if it does. It returns
// a different error if a request fails, or if the storage can't prevent two processes from both creating the file.
func (s Stored) Lacks(ctx context.Context, name string, exists error) error {
	_, err := objects.OfProcess().Stat(ctx, s.Object(name))
	switch {
	case err == nil:
		return exists
	case errors.Is(err, fs.ErrNotExist):
		err = objects.OfProcess().CanCreate(ctx, s.Object(name))
	}
	return exit.Default(exit.Environment, err)
}

// Publish sends a complete run folder. It sends the files that the manifest names and job.json, if there is one. It
// sends the manifest last. The manifest must not already exist with different content.
func (s Stored) Publish(ctx context.Context, f Folder) error {
	m, err := f.ReadManifest()
	if err != nil {
		return err
	}
	text, err := read(f.Manifest())
	if err != nil {
		return err
	}
	names := []string{f.Rel(f.Job()), f.Rel(f.Begun())}
	for _, x := range m.Files {
		names = append(names, x.Path)
	}
	err = Transfer(ctx, maxTransfers, len(names), func(ctx context.Context, i int) error {
		err := s.Send(ctx, f.path(filepath.FromSlash(names[i])), names[i])
		if i < 2 && errors.Is(err, fs.ErrNotExist) { // some runs lack the first two files
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return objects.OfProcess().Create(ctx, s.Object(manifestName), text)
}

// Transfer calls do for every i below n, with at most limit calls running at a time.
func Transfer(ctx context.Context, limit, n int, do func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(limit)
	for i := range n {
		g.Go(func() error { return do(ctx, i) })
	}
	return g.Wait() // wait: each request ends if ctx is done or the request stalls
}

// Send uploads the file at path under a name.
func (s Stored) Send(ctx context.Context, path, name string) error {
	file, err := durable.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return objects.OfProcess().Write(ctx, s.Object(name), file, info.Size())
}

// IsRun reports whether a complete run is stored under the prefix.
func (s Stored) IsRun(ctx context.Context) (bool, error) {
	_, err := objects.OfProcess().Stat(ctx, s.Object(manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Fetch downloads a run to a folder on this machine. It requests each file by name, and returns an error if one doesn't
// match the manifest.
func (s Stored) Fetch(ctx context.Context, f Folder) error {
	if err := s.Get(ctx, manifestName, f.Manifest(), maxBytes, nil); err != nil {
		return err
	}
	m, err := f.ReadManifest()
	if err != nil {
		return fmt.Errorf("%s: %w", s.Object(manifestName), err)
	}
	job := f.Rel(f.Job()) // the manifest doesn't list job.json, and not every run has it
	err = s.Get(ctx, job, f.Job(), maxBytes, nil)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return Transfer(ctx, maxTransfers, len(m.Files), func(ctx context.Context, i int) error {
		is := m.Files[i]
		return s.Get(ctx, is.Path, f.path(filepath.FromSlash(is.Path)), is.Bytes, func(got File) error {
			if got.Bytes != is.Bytes || is.XXH3 != "" && got.XXH3 != is.XXH3 {
				return fmt.Errorf("%s doesn't match the manifest: its size or checksum differs", s.Object(is.Path))
			}
			return nil
		})
	})
}

// Get downloads a file of at most maxBytes to a path. check, which may be nil, is called with the file's size and
// checksum before the file is renamed into place.
func (s Stored) Get(ctx context.Context, name, path string, maxBytes int64, check func(File) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	in, err := objects.OfProcess().Open(ctx, s.Object(name))
	if err != nil {
		return err
	}
	defer in.Close()
	if in.Size > maxBytes {
		return exit.Failedf("%s has %d bytes; at most %d are downloaded", s.Object(name), in.Size, maxBytes)
	}
	out, err := durable.Create(path)
	if err != nil {
		return err
	}
	defer out.Abort()
	h := xxh3.New()
	n, err := io.Copy(io.MultiWriter(out, h), in)
	if err == nil && check != nil {
		err = check(File{Path: name, Bytes: n, XXH3: Digest(h)})
	}
	if err != nil {
		return err
	}
	return out.CommitUnsynced()
}
