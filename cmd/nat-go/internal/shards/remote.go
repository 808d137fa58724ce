package shards

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/zeebo/xxh3"
	"golang.org/x/sync/errgroup"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/objects"
	"github.com/nat-go/nat-go/ttc/group"
)

// Remote is the folder of a plan in object storage, with the same names as on disk. Work is done on a copy on this
// machine: needed files are downloaded, and built ones are uploaded, the manifest last.
type Remote struct {
	folder  Folder // s3://...
	storage *objects.Storage
}

// Remote returns the folder in object storage; nil means it is on disk.
func (f Folder) Remote() *Remote {
	if !objects.Is(string(f)) {
		return nil
	}
	return &Remote{folder: f, storage: objects.OfProcess()}
}

// orEnvironment turns an error into one of the environment, unless it already has a kind, or is nil.
func orEnvironment(err error) error {
	if err == nil {
		return nil
	}
	return exit.Default(exit.Environment, err)
}

// maxTransfers is how many objects are downloaded concurrently.
const maxTransfers = 8

// object returns where a file of a copy is in the storage.
func (r *Remote) object(dir Folder, path string) (string, error) {
	rel, err := filepath.Rel(string(dir), path)
	return objects.Join(string(r.folder), filepath.ToSlash(rel)), err
}

// Free refuses a place for a plan if there already is one, or if two might be written.
func (r *Remote) Free(ctx context.Context) error {
	path := objects.Join(string(r.folder), planName)
	_, err := r.storage.Stat(ctx, path)
	switch {
	case err == nil:
		return exit.Usagef("%s has a plan already: run its shards, or choose another folder with --plan-dir",
			r.folder)
	case errors.Is(err, fs.ErrNotExist):
		err = r.storage.CanCreate(ctx, path)
	}
	return orEnvironment(err)
}

// SendPlan uploads a plan, after everything that it names.
func (r *Remote) SendPlan(ctx context.Context, dir Folder, p *Plan) error {
	paths := []string{dir.Config()}
	for i, s := range p.Shards {
		if s.Named != nil {
			paths = append(paths, dir.Named(i))
		}
	}
	if err := r.sendAll(ctx, dir, paths); err != nil {
		return err
	}
	return r.sendLast(ctx, dir, dir.Plan())
}

func (r *Remote) sendAll(ctx context.Context, dir Folder, paths []string) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxTransfers / 2) // each holds part of its upload
	for _, path := range paths {
		g.Go(func() error { return r.send(ctx, dir, path) })
	}
	return orEnvironment(g.Wait()) // wait: each request ends with ctx, or when nothing moves
}

func (r *Remote) send(ctx context.Context, dir Folder, path string) error {
	return r.sendAs(ctx, dir, path, path)
}

// sendAs uploads a file to where another path of the copy is in the storage.
func (r *Remote) sendAs(ctx context.Context, dir Folder, path, as string) error {
	to, err := r.object(dir, as)
	if err != nil {
		return err
	}
	f, err := durable.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return r.storage.Write(ctx, to, f, info.Size())
}

// sendLast uploads a manifest, which names the files uploaded before.
func (r *Remote) sendLast(ctx context.Context, dir Folder, path string) error {
	to, err := r.object(dir, path)
	if err != nil {
		return err
	}
	text, err := durable.ReadFile(path, maxPlanBytes)
	if err == nil {
		err = r.storage.Create(ctx, to, text)
	}
	if errors.Is(err, fs.ErrExist) {
		return exit.With(exit.Failed, err)
	}
	return orEnvironment(err)
}

// Copy starts a copy below work, with the plan and the configuration. An existing copy of the same plan is continued.
func (r *Remote) Copy(ctx context.Context, work string) (Folder, *Plan, error) {
	text, err := r.storage.ReadAll(ctx, objects.Join(string(r.folder), planName), maxPlanBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, exit.Environmentf("no plan in %s: `nat-go shard plan` makes one", r.folder)
	}
	if err != nil {
		return "", nil, exit.With(exit.Environment, err)
	}
	h := xxh3.New()
	fmt.Fprintf(h, "%q %s", r.folder, text)
	dir := Folder(filepath.Join(work, runfolder.Digest(h)))
	if err = os.MkdirAll(string(dir), 0o700); err == nil {
		err = durable.WriteFile(dir.Plan(), text)
	}
	if err == nil {
		err = r.fetchFile(ctx, dir, dir.Config(), MaxConfig, nil)
	}
	if err != nil {
		return "", nil, orEnvironment(fmt.Errorf("can't copy the plan: %w", err))
	}
	p, err := dir.Read()
	return dir, p, err
}

// fetch fetches a file, which must be what its manifest says.
func (r *Remote) fetch(ctx context.Context, dir Folder, path string, is *runfolder.File) error {
	return r.fetchFile(ctx, dir, path, is.Bytes, is)
}

// fetchFile fetches a file of at most this many bytes; is holds what its manifest says, or nil if no manifest mentions
// it.
func (r *Remote) fetchFile(ctx context.Context, dir Folder, path string, most int64, is *runfolder.File) error {
	from, err := r.object(dir, path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	in, err := r.storage.Open(ctx, from)
	if err != nil {
		return err
	}
	defer in.Close()
	if in.Size > most {
		return exit.Failedf("%s has %d bytes; at most %d are fetched", from, in.Size, most)
	}
	out, err := durable.Create(path)
	if err != nil {
		return err
	}
	defer out.Abort()
	h := xxh3.New()
	n, err := io.Copy(io.MultiWriter(out, h), in)
	if err != nil {
		return err
	}
	if is != nil && (n != is.Bytes || runfolder.Digest(h) != is.XXH3) {
		return exit.Failedf(
			"%s is not what its manifest names: remove it and the manifest, and run the shard again", from)
	}
	return out.CommitUnsynced()
}

// fetchDone downloads the manifest of a shard; false means it has none.
func (r *Remote) fetchDone(ctx context.Context, dir Folder, stage Stage, shard int) (bool, error) {
	path := donePath(dir.Shard(stage, shard))
	err := r.fetchFile(ctx, dir, path, maxDoneBytes, nil)
	if !errors.Is(err, fs.ErrNotExist) {
		return err == nil, orEnvironment(err)
	}
	return false, nil
}

// FetchDone downloads the manifests of all shards of a stage. Each is requested by name, because a listing may be
// incomplete.
func (r *Remote) FetchDone(ctx context.Context, dir Folder, p *Plan, stage Stage) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxTransfers)
	for i := range p.Shards {
		g.Go(func() error {
			_, err := r.fetchDone(ctx, dir, stage, i)
			return err
		})
	}
	return g.Wait() // wait: each request ends with ctx, or when nothing moves
}

// IsDone reports whether the storage has a shard of the plan.
func (r *Remote) IsDone(ctx context.Context, p *Plan, stage Stage, shard int) (bool, error) {
	var there bool
	err := inTemporary(func(dir Folder) (err error) {
		if there, err = r.fetchDone(ctx, dir, stage, shard); err != nil || !there {
			return err
		}
		if _, err = dir.ReadDone(p, stage, shard); err != nil {
			return r.Told(dir, exit.With(exit.Failed, err))
		}
		return nil
	})
	return there, err
}

func inTemporary(do func(Folder) error) error {
	dir, err := os.MkdirTemp("", "nat-go-shards-")
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	defer os.RemoveAll(dir)
	return do(Folder(dir))
}

// FetchFor downloads the files that a shard is built from, besides its inputs.
func (r *Remote) FetchFor(ctx context.Context, dir Folder, p *Plan, stage Stage, shard int) error {
	if shard >= len(p.Shards) {
		return nil // RunShard refuses the number
	}
	if is := p.Shards[shard].Named; is != nil {
		if err := r.fetch(ctx, dir, dir.Named(shard), is); err != nil {
			return orEnvironment(err)
		}
	}
	if stage == Write {
		return r.fetchForWriting(ctx, dir, p, shard)
	}
	if stage != Group || !p.Tasks {
		return nil
	}
	if err := r.FetchDone(ctx, dir, p, Build); err != nil {
		return err
	}
	for i := range p.Shards {
		d, err := dir.ReadDone(p, Build, i)
		if err != nil {
			return exit.With(exit.Failed, err)
		}
		if d == nil {
			return nil // RunShard refuses it
		}
		if err := r.fetchSpilled(ctx, dir, d, shard); err != nil {
			return orEnvironment(err)
		}
	}
	return nil
}

// fetchSpilled downloads what another shard stored for this one: its part of the spill, in a file that has holes in
// place of the others.
func (r *Remote) fetchSpilled(ctx context.Context, dir Folder, d *Done, part int) error {
	path, folder := dir.Spill(d.Shard), dir.Shard(Build, d.Shard)
	list := group.SpillList(path)
	for i := range d.Files {
		if d.Files[i].Path == folder.Rel(list) {
			if err := r.fetch(ctx, dir, list, &d.Files[i]); err != nil {
				return err
			}
		}
	}
	var own []span
	if err := group.SpilledAt(path, part, func(offset, n int64) error {
		own = append(own, span{offset, n})
		return nil
	}); err != nil {
		return err
	}
	return r.fetchRanges(ctx, dir, path, own, fmt.Sprintf("its list says: run shard %d again", d.Shard))
}

// SendShard uploads the files of a shard, if it is complete: its manifest last.
func (r *Remote) SendShard(ctx context.Context, dir Folder, p *Plan, stage Stage, shard int) error {
	d, err := dir.ReadDone(p, stage, shard)
	if err != nil || d == nil {
		return err
	}
	folder := dir.Shard(stage, shard)
	var paths []string
	for _, f := range d.Files {
		paths = append(paths, filepath.Join(string(folder), filepath.FromSlash(f.Path)))
	}
	if err := r.sendAll(ctx, dir, paths); err != nil {
		return err
	}
	return r.sendLast(ctx, dir, donePath(folder))
}

// FetchBuilt downloads the files that a merge needs of the shards, and their rows if the writing was left to them, if
// all are done.
func (r *Remote) FetchBuilt(ctx context.Context, dir Folder, p *Plan) error {
	cut, err := r.FetchCut(ctx, dir, p)
	if err != nil {
		return err
	}
	stages := p.Stages()
	if cut != nil {
		stages = append(stages, Write)
		if err := r.fetchCutFile(ctx, dir, cut, dir.CutDrops()); err != nil {
			return orEnvironment(err)
		}
	}
	var all []*Done
	for _, stage := range stages {
		if err := r.FetchDone(ctx, dir, p, stage); err != nil {
			return err
		}
		for i := range p.Shards {
			d, err := dir.ReadDone(p, stage, i)
			if err != nil {
				return exit.With(exit.Failed, err)
			}
			if d == nil {
				return nil // MergeShards refuses it
			}
			all = append(all, d)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxTransfers)
	for _, d := range all {
		folder := dir.Shard(d.Stage, d.Shard)
		for i := range d.Files {
			path := filepath.Join(string(folder), filepath.FromSlash(d.Files[i].Path))
			if path == dir.Spill(d.Shard) || path == group.SpillList(dir.Spill(d.Shard)) ||
				cut != nil && path == RowsPath(folder) {
				continue
			}
			g.Go(func() error { return r.fetch(ctx, dir, path, &d.Files[i]) })
		}
	}
	return orEnvironment(g.Wait()) // wait: each request ends with ctx, or when nothing moves
}

// Told makes messages about a copy name the folder instead.
func (r *Remote) Told(dir Folder, err error) error {
	return exit.Reworded(err, func(text string) string { return r.Tell(dir, text) })
}

// Tell replaces a copy's path in a text with the folder's.
func (r *Remote) Tell(dir Folder, text string) string {
	return strings.ReplaceAll(text, string(dir), string(r.folder))
}
