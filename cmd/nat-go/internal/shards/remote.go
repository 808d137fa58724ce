package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/objects"
	"github.com/nat-go/nat-go/ttc/group"
)

// Remote is a plan's folder in object storage, where files have the same names as on disk. A process works on a local
// copy. It downloads the files that it needs, and uploads its results, with the manifest last.
type Remote struct{ runfolder.Stored }

// Remote returns the folder as a Remote if it is in object storage, or nil if it is on disk.
func (f Folder) Remote() *Remote {
	if !objects.Is(string(f)) {
		return nil
	}
	return &Remote{runfolder.Stored(f)}
}

// maxTransfers is the maximum number of concurrent downloads. At most half as many uploads are concurrent, because each
// upload keeps part of its content in memory.
const maxTransfers = 8

// stored returns the name in object storage of a file in a local copy.
func (f Folder) stored(path string) string { return runfolder.Folder(f).Rel(path) }

// Free returns an error if a plan already exists, or if the storage can't prevent two plans from being written
// concurrently.
func (r *Remote) Free(ctx context.Context) error {
	return r.Lacks(ctx, planName, exit.Usagef("%s already has a plan: run its shards, or choose another folder with "+
		"--plan-dir", r.Stored))
}

// SendPlan uploads a plan's configuration and files of ids, and then the plan.
func (r *Remote) SendPlan(ctx context.Context, dir Folder, p *Plan) error {
	paths := []string{dir.Config()}
	for i, s := range p.Shards {
		if s.Named != nil {
			paths = append(paths, dir.Named(i))
		}
	}
	return r.sendAll(ctx, dir, paths, paths, dir.Plan())
}

// sendAll uploads the files at paths, followed by the manifest that lists them. Each file is stored under the name of
// the corresponding path in as, which is a path in the local copy.
func (r *Remote) sendAll(ctx context.Context, dir Folder, paths, as []string, manifest string) error {
	err := runfolder.Transfer(ctx, maxTransfers/2, len(paths), func(ctx context.Context, i int) error {
		return r.Send(ctx, paths[i], dir.stored(as[i]))
	})
	if err != nil {
		return exit.Default(exit.Environment, err)
	}
	text, err := durable.ReadFile(manifest, maxPlanBytes)
	if err == nil {
		err = objects.OfProcess().Create(ctx, r.Object(dir.stored(manifest)), text)
	}
	if errors.Is(err, fs.ErrExist) {
		return exit.With(exit.Failed, err)
	}
	return exit.Default(exit.Environment, err)
}

// Copy makes a local copy of the plan and the configuration in a folder below work. If a copy of the same plan already
// exists, its other files are kept.
func (r *Remote) Copy(ctx context.Context, work string) (Folder, *Plan, error) {
	text, err := objects.OfProcess().ReadAll(ctx, r.Object(planName), maxPlanBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, exit.Environmentf("no plan in %s: `nat-go shard plan` makes one", r.Stored)
	}
	if err != nil {
		return "", nil, exit.With(exit.Environment, err)
	}
	h := xxh3.New()
	fmt.Fprintf(h, "%q %s", r.Stored, text)
	dir := Folder(filepath.Join(work, runfolder.Digest(h)))
	if err = os.MkdirAll(string(dir), 0o700); err == nil {
		err = durable.WriteFile(dir.Plan(), text)
	}
	if err == nil {
		err = r.fetchFile(ctx, dir, dir.Config(), MaxConfig)
	}
	if err != nil {
		return "", nil, exit.Default(exit.Environment, fmt.Errorf("cannot copy the plan: %w", err))
	}
	p, err := dir.Read()
	return dir, p, err
}

// fetch downloads a file. It returns an error if the file's size or checksum differs from the expected one.
func (r *Remote) fetch(ctx context.Context, dir Folder, path string, is runfolder.File) error {
	name := dir.stored(path)
	return r.Get(ctx, name, path, is.Bytes, func(got runfolder.File) error {
		if got.Bytes != is.Bytes || got.XXH3 != is.XXH3 {
			return exit.Failedf("%s doesn't match its manifest: remove it and the manifest, and run the shard "+
				"again", r.Object(name))
		}
		return nil
	})
}

// fetchFile downloads a file of at most maxBytes, whose checksum isn't known.
func (r *Remote) fetchFile(ctx context.Context, dir Folder, path string, maxBytes int64) error {
	return r.Get(ctx, dir.stored(path), path, maxBytes, nil)
}

// fetchDone downloads a shard's manifest. It returns false if the manifest doesn't exist.
func (r *Remote) fetchDone(ctx context.Context, dir Folder, stage Stage, shard int) (bool, error) {
	path := donePath(dir.Shard(stage, shard))
	err := r.fetchFile(ctx, dir, path, maxDoneBytes)
	if !errors.Is(err, fs.ErrNotExist) {
		return err == nil, exit.Default(exit.Environment, err)
	}
	return false, nil
}

// FetchDone downloads the manifests of the shards that are done with a stage. Each manifest is requested by name,
// because a listing may be incomplete.
func (r *Remote) FetchDone(ctx context.Context, dir Folder, p *Plan, stage Stage) error {
	return runfolder.Transfer(ctx, maxTransfers, len(p.Shards), func(ctx context.Context, i int) error {
		_, err := r.fetchDone(ctx, dir, stage, i)
		return err
	})
}

// IsDone reports whether the storage contains the manifest for a shard's stage. It returns an error if the manifest is
// invalid.
func (r *Remote) IsDone(ctx context.Context, p *Plan, stage Stage, shard int) (bool, error) {
	tmp, err := os.MkdirTemp("", "nat-go-shards-")
	if err != nil {
		return false, exit.With(exit.Environment, err)
	}
	defer os.RemoveAll(tmp)
	dir := Folder(tmp)
	there, err := r.fetchDone(ctx, dir, stage, shard)
	if err != nil || !there {
		return there, err
	}
	if _, err = dir.ReadDone(p, stage, shard); err != nil {
		err = r.RewriteError(dir, exit.With(exit.Failed, err))
	}
	return there, err
}

// FetchFor downloads the files that a shard reads in a stage, except the run's inputs.
func (r *Remote) FetchFor(ctx context.Context, dir Folder, p *Plan, stage Stage, shard int) error {
	if shard >= len(p.Shards) {
		return nil // the invalid number is reported when the shard is run
	}
	if is := p.Shards[shard].Named; is != nil {
		if err := r.fetch(ctx, dir, dir.Named(shard), *is); err != nil {
			return exit.Default(exit.Environment, err)
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
	all, missing, err := dir.ReadStage(p, Build)
	if err != nil || len(missing) > 0 {
		return err // missing manifests are reported when the shard is run
	}
	for _, d := range all {
		if err := r.fetchSpilled(ctx, dir, d, shard); err != nil {
			return exit.Default(exit.Environment, err)
		}
	}
	return nil
}

// fetchSpilled downloads from a shard's spill the examples for the shard numbered part. d is the manifest of the
// shard that wrote the spill. The downloaded file is sparse, with holes in place of the other parts.
func (r *Remote) fetchSpilled(ctx context.Context, dir Folder, d *Done, part int) error {
	path, folder := dir.Spill(d.Shard), dir.Shard(Build, d.Shard)
	list := group.SpillList(path)
	if is := runfolder.Lookup(d.Files, folder.Rel(list)); is.Path != "" {
		if err := r.fetch(ctx, dir, list, is); err != nil {
			return err
		}
	}
	var own []span
	if err := group.SpilledAt(path, part, func(offset, n int64) error {
		own = append(own, span{offset, n})
		return nil
	}); err != nil {
		return err
	}
	return r.fetchRanges(ctx, dir, path, own, fmt.Sprintf("its list says: rerun shard %d", d.Shard))
}

// SendShard uploads a shard's files if it is done, with the manifest last.
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
	return r.sendAll(ctx, dir, paths, paths, donePath(folder))
}

// FetchBuilt downloads the shards' files that a merge needs. If the data set was divided, they include the rows that
// the shards wrote. If a stage isn't done for all shards, it downloads the shards' manifests up to that stage, but none
// of their other files.
func (r *Remote) FetchBuilt(ctx context.Context, dir Folder, p *Plan) error {
	cut, err := r.FetchCut(ctx, dir, p)
	if err != nil {
		return err
	}
	stages := p.Stages()
	if cut != nil {
		stages = append(stages, Write)
		if err := r.fetchCutFile(ctx, dir, cut, dir.CutDrops()); err != nil {
			return exit.Default(exit.Environment, err)
		}
	}
	var paths []string
	var are []runfolder.File
	for _, stage := range stages {
		if err := r.FetchDone(ctx, dir, p, stage); err != nil {
			return err
		}
		all, missing, err := dir.ReadStage(p, stage)
		if err != nil || len(missing) > 0 {
			return err // the merge reports missing manifests
		}
		for i, d := range all {
			folder := dir.Shard(stage, i)
			for _, is := range d.Files {
				path := filepath.Join(string(folder), filepath.FromSlash(is.Path))
				if path == dir.Spill(i) || path == group.SpillList(dir.Spill(i)) ||
					cut != nil && path == rowsPath(folder) {
					continue
				}
				paths, are = append(paths, path), append(are, is)
			}
		}
	}
	err = runfolder.Transfer(ctx, maxTransfers, len(paths), func(ctx context.Context, i int) error {
		return r.fetch(ctx, dir, paths[i], are[i])
	})
	return exit.Default(exit.Environment, err)
}

// RewriteError replaces the local copy's path in an error's text with the address of the stored folder.
func (r *Remote) RewriteError(dir Folder, err error) error {
	return exit.Reworded(err, func(text string) string { return r.RewritePaths(dir, text) })
}

// RewritePaths replaces the path of the plan's local copy in text with the address of the stored folder.
func (r *Remote) RewritePaths(dir Folder, text string) string {
	return strings.ReplaceAll(text, string(dir), string(r.Stored))
}

// SendCut uploads the cut, if there is one. It first uploads the files that the shards need for writing, namely the
// run's merged log and decisions, and the other files in the cut's folder.
func (r *Remote) SendCut(ctx context.Context, dir Folder, p *Plan, run runfolder.Folder) error {
	c, err := dir.ReadCut(p)
	if err != nil || c == nil {
		return err
	}
	paths, as := mergedFiles(run), mergedFiles(dir.Cut())
	if _, err := os.Stat(run.Contamination()); err == nil {
		paths, as = append(paths, run.Contamination()), append(as, dir.Cut().Contamination())
	}
	for _, f := range c.Files {
		at := filepath.Join(string(dir.Cut()), f.Path)
		paths, as = append(paths, at), append(as, at)
	}
	return r.sendAll(ctx, dir, paths, as, dir.CutPath())
}

// mergedFiles returns the paths of the merged run's files that shards need for writing.
func mergedFiles(f runfolder.Folder) []string {
	return []string{
		filepath.Join(f.Records(), recordlog.LogName), filepath.Join(f.Records(), recordlog.CommitName), f.Decisions(),
	}
}

// FetchCut downloads the cut, if there is one, but not the files that it names.
func (r *Remote) FetchCut(ctx context.Context, dir Folder, p *Plan) (*Cut, error) {
	err := r.fetchFile(ctx, dir, dir.CutPath(), maxPlanBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, exit.Default(exit.Environment, err)
	}
	return dir.ReadCut(p)
}

// fetchCutFile downloads one of the cut's files to a path. It does nothing if the cut doesn't list the file.
func (r *Remote) fetchCutFile(ctx context.Context, dir Folder, c *Cut, at string) error {
	if is := runfolder.Lookup(c.Files, filepath.Base(at)); is.Path != "" {
		return r.fetch(ctx, dir, at, is)
	}
	return nil
}

// fetchForWriting downloads the files that a shard needs for writing, if there is a cut. These files are the shard's
// range of the merged log, the decisions, the shard's list of batches, the scores, and the token rows in these batches.
func (r *Remote) fetchForWriting(ctx context.Context, dir Folder, p *Plan, shard int) error {
	c, err := r.FetchCut(ctx, dir, p)
	if err != nil || c == nil {
		return err // without a cut, writing the shard fails
	}
	merged := mergedFiles(dir.Cut())
	for _, at := range merged[1:] {
		if err := r.fetchFile(ctx, dir, at, maxDecisions); err != nil {
			return exit.Default(exit.Environment, err)
		}
	}
	err = r.fetchFile(ctx, dir, dir.Cut().Contamination(), maxDecisions)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return exit.Default(exit.Environment, err)
	}
	x := c.Ranges[shard]
	ranges := []span{{0, int64(recordlog.HeaderSize)}, {x.Offset, x.Bytes}}
	if err := r.fetchRanges(ctx, dir, merged[0], ranges, r.divideAgain()); err != nil {
		return exit.Default(exit.Environment, err)
	}
	if c.Collated == nil {
		return nil
	}
	for _, at := range []string{dir.CutBatches(shard), dir.CutScores()} {
		if err := r.fetchCutFile(ctx, dir, c, at); err != nil {
			return exit.Default(exit.Environment, err)
		}
	}
	for _, stage := range p.Stages() {
		if err := r.FetchDone(ctx, dir, p, stage); err != nil {
			return err
		}
	}
	return r.fetchRows(ctx, dir, p, shard)
}

// maxDecisions is the maximum size of each file that accompanies the merged log. These files are the commit, the
// decisions, and the list of overlaps with benchmarks.
const maxDecisions = 64 << 30

// fetchRows downloads the token rows in a shard's batches, each row from the shard that made it.
func (r *Remote) fetchRows(ctx context.Context, dir Folder, p *Plan, shard int) error {
	in, err := durable.Open(dir.CutBatches(shard))
	if err != nil {
		return exit.Default(exit.Environment, err)
	}
	defer in.Close()
	ranges := map[int][]span{}
	for row, err := range (batch.Spec{}).KeptIn(in) {
		if err == nil && (row.File < 0 || int(row.File) >= len(p.Shards)) {
			err = fmt.Errorf("unknown shard %d: the plan has %d shards", row.File, len(p.Shards))
		}
		if err != nil {
			return exit.Failedf("%s: %w", in.Name(), err)
		}
		ranges[int(row.File)] = append(ranges[int(row.File)], span{row.Offset, int64(row.Bytes)})
	}
	stages, shards := p.Stages(), slices.Collect(maps.Keys(ranges))
	err = runfolder.Transfer(ctx, maxTransfers, len(shards), func(ctx context.Context, i int) error {
		path := rowsPath(dir.Shard(stages[len(stages)-1], shards[i]))
		return r.fetchRanges(ctx, dir, path, ranges[shards[i]], r.divideAgain())
	})
	return exit.Default(exit.Environment, err)
}

// span is a range of bytes in a file.
type span struct{ offset, bytes int64 }

// maxGap is the maximum number of unneeded bytes downloaded to avoid another request.
const maxGap = 256 << 10

// joinSpans sorts spans by offset, and joins adjacent spans that are at most maxGap bytes apart.
func joinSpans(all []span) []span {
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.offset, b.offset) })
	var out []span
	for _, s := range all {
		if n := len(out) - 1; n >= 0 && s.offset-(out[n].offset+out[n].bytes) <= maxGap {
			out[n].bytes = max(out[n].bytes, s.offset+s.bytes-out[n].offset)
			continue
		}
		out = append(out, s)
	}
	return out
}

// divideAgain returns the end of fetchRanges' error message for an object whose ranges were recorded by a merge.
func (r *Remote) divideAgain() string {
	return fmt.Sprintf("the merge recorded: remove %s, and merge again with --leave-writing",
		r.Object(path.Dir(cutName)))
}

// fetchRanges downloads parts of a file into a sparse local file, with holes in place of the other parts. If the
// object ends too early, the error is "<object> is shorter than <short>", where short includes the remedy.
func (r *Remote) fetchRanges(ctx context.Context, dir Folder, at string, all []span, short string) error {
	from := r.Object(dir.stored(at))
	in, err := objects.OfProcess().Open(ctx, from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		return err
	}
	out, err := durable.Continue(at)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := out.Truncate(in.Size); err != nil {
		return err
	}
	for _, s := range joinSpans(all) {
		if s.bytes == 0 {
			continue
		}
		in.Section(s.offset, s.bytes)
		n, err := io.Copy(io.NewOffsetWriter(out, s.offset), in)
		if err == nil && n != s.bytes {
			err = exit.Failedf("%s is shorter than %s", from, short)
		}
		if err != nil {
			return err
		}
	}
	return out.Close()
}
