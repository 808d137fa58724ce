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

// Stored is the prefix of a run folder in object storage: the same files under the same names.
type Stored string

// maxTransfers is how many objects are sent or fetched concurrently.
const maxTransfers = 4

func (s Stored) object(name string) string { return objects.Join(string(s), name) }

// Check checks the address.
func (s Stored) Check() error { return objects.Check(s.object(manifestName)) }

// Free refuses a prefix under which there is a run already, and storage in which two could be published at once.
func (s Stored) Free(ctx context.Context) error {
	manifest := s.object(manifestName)
	_, err := objects.OfProcess().Stat(ctx, manifest)
	switch {
	case err == nil:
		return exit.Usagef("%s has a run already: choose another --run-id", s)
	case errors.Is(err, fs.ErrNotExist):
		err = objects.OfProcess().CanCreate(ctx, manifest)
	}
	if err != nil {
		return exit.Default(exit.Environment, err)
	}
	return nil
}

// Publish sends a complete run folder: the files that its manifest names, what there is of its job, and last the
// manifest, which must not exist yet. Sending the same run again is not an error.
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
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(maxTransfers)
	for i, name := range names {
		g.Go(func() error {
			err := s.send(gctx, f, name)
			if i < 2 && errors.Is(err, fs.ErrNotExist) { // not every run has a job
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil { // wait: each request ends with ctx, or when nothing moves
		return err
	}
	return objects.OfProcess().Create(ctx, s.object(manifestName), text)
}

func (s Stored) send(ctx context.Context, f Folder, name string) error {
	file, err := durable.Open(filepath.Join(string(f), filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return objects.OfProcess().Write(ctx, s.object(name), file, info.Size())
}

// IsRun reports whether a complete run is stored under the prefix.
func (s Stored) IsRun(ctx context.Context) (bool, error) {
	_, err := objects.OfProcess().Stat(ctx, s.object(manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Fetch copies a run to a folder of this machine. Each file is requested by name, and refused if it differs from the
// manifest.
func (s Stored) Fetch(ctx context.Context, f Folder) error {
	text, err := objects.OfProcess().ReadAll(ctx, s.object(manifestName), maxBytes)
	if err == nil {
		err = os.MkdirAll(string(f), 0o700)
	}
	if err == nil {
		err = durable.WriteFile(f.Manifest(), text)
	}
	if err != nil {
		return err
	}
	m, err := f.ReadManifest()
	if err != nil {
		return fmt.Errorf("%s: %w", s.object(manifestName), err)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(maxTransfers)
	for i := range m.Files {
		g.Go(func() error { return s.fetch(gctx, f, &m.Files[i]) })
	}
	g.Go(func() error { return s.fetchJob(gctx, f) })
	return g.Wait() // wait: each request ends with ctx, or when nothing moves
}

// fetchJob copies the record of the run's job, which the manifest doesn't name, and not every run has.
func (s Stored) fetchJob(ctx context.Context, f Folder) error {
	text, err := objects.OfProcess().ReadAll(ctx, s.object(f.Rel(f.Job())), maxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return durable.WriteFile(f.Job(), text)
}

func (s Stored) fetch(ctx context.Context, f Folder, is *File) error {
	from := s.object(is.Path)
	if !filepath.IsLocal(filepath.FromSlash(is.Path)) {
		return fmt.Errorf("%s names the file %q, which is outside the run", s.object(manifestName), is.Path)
	}
	path := filepath.Join(string(f), filepath.FromSlash(is.Path))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	in, err := objects.OfProcess().Open(ctx, from)
	if err != nil {
		return err
	}
	defer in.Close()
	if in.Size != is.Bytes {
		return fmt.Errorf("%s has %d bytes, and %d according to the manifest", from, in.Size, is.Bytes)
	}
	out, err := durable.Create(path)
	if err != nil {
		return err
	}
	defer out.Abort()
	h := xxh3.New()
	if _, err := io.Copy(io.MultiWriter(out, h), in); err != nil {
		return err
	}
	if is.XXH3 != "" && Digest(h) != is.XXH3 {
		return fmt.Errorf("%s is not what the manifest says: its checksum differs", from)
	}
	return out.CommitUnsynced()
}
