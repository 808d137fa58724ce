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
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/objects"
	"github.com/nat-go/nat-go/ttc/group"
)

// Remote is a plan's folder in object storage, where files have the same names as on disk. A process works on a local
// copy. It downloads the files that it needs, and uploads its results, with the manifest last.
type Remote struct {
	runfolder.Stored
	*Parts // the local copy; nil until Copy sets it
}

// Remote returns the folder as a Remote if it is in object storage, or nil if it is on disk.
func (f Folder) Remote() *Remote {
	if !objects.Is(string(f)) {
		return nil
	}
	return &Remote{Stored: runfolder.Stored(f)}
}

// maxTransfers is the maximum number of concurrent downloads. At most half as many uploads are concurrent, because each
// upload keeps part of its content in memory.
const maxTransfers = 8

// stored returns the name in object storage of a file in the local copy.
func (r *Remote) stored(path string) string { return runfolder.Folder(r.Dir).Rel(path) }

// coded gives an error the exit code for the environment, unless it has an exit code.
func coded(err *error) { *err = exit.Default(exit.Environment, *err) }

// Free returns an error if a plan already exists, or if the storage can't prevent two plans from being written
// concurrently.
func (r *Remote) Free(ctx context.Context) error {
	return r.Lacks(ctx, planName, exit.Usagef("%s already has a plan: run its shards, or choose another folder with "+
		"--plan-dir", r.Stored))
}

// SendPlan uploads a plan's configuration and files of ids, and then the plan.
func (r *Remote) SendPlan(ctx context.Context) error {
	paths := []string{r.Dir.Config()}
	for i, s := range r.Plan.Shards {
		if s.Named != nil {
			paths = append(paths, r.Dir.Named(i))
		}
	}
	return r.sendAll(ctx, paths, paths, r.Dir.Plan())
}

// sendAll uploads the files at paths, followed by the manifest that lists them. Each file is stored under the name of
// the corresponding path in as, which is a path in the local copy.
func (r *Remote) sendAll(ctx context.Context, paths, as []string, manifest string) (err error) {
	defer coded(&err)
	err = runfolder.Transfer(ctx, maxTransfers/2, len(paths), func(ctx context.Context, i int) error {
		return r.Send(ctx, paths[i], r.stored(as[i]))
	})
	if err != nil {
		return err
	}
	text, err := durable.ReadFile(manifest, maxPlanBytes)
	if err == nil {
		err = objects.OfProcess().Create(ctx, r.Object(r.stored(manifest)), text)
	}
	if errors.Is(err, fs.ErrExist) {
		return exit.With(exit.Failed, err)
	}
	return err
}

// Copy makes a local copy of the plan and the configuration in a folder below work. If a copy of the same plan already
// exists, its other files are kept.
func (r *Remote) Copy(ctx context.Context, work string) error {
	text, err := objects.OfProcess().ReadAll(ctx, r.Object(planName), maxPlanBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return exit.Environmentf("no plan in %s: `nat-go shard plan` makes one", r.Stored)
	}
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	h := xxh3.New()
	fmt.Fprintf(h, "%q %s", r.Stored, text)
	r.Parts = &Parts{Dir: Folder(filepath.Join(work, runfolder.Digest(h)))}
	if err = os.MkdirAll(string(r.Dir), 0o700); err == nil {
		err = durable.WriteFile(r.Dir.Plan(), text)
	}
	if err == nil {
		err = r.fetchFile(ctx, r.Dir.Config(), MaxConfig)
	}
	if err != nil {
		return exit.Default(exit.Environment, fmt.Errorf("cannot copy the plan: %w", err))
	}
	r.Parts, err = r.Dir.Open()
	return err
}

// fetch downloads a file. It returns an error if the file's size or checksum differs from the expected one.
func (r *Remote) fetch(ctx context.Context, path string, is runfolder.File) error {
	name := r.stored(path)
	return r.Get(ctx, name, path, is.Bytes, func(got runfolder.File) error {
		if got.Bytes != is.Bytes || got.XXH3 != is.XXH3 {
			return exit.Failedf("%s doesn't match its manifest: remove it and the manifest, and run the shard "+
				"again", r.Object(name))
		}
		return nil
	})
}

// fetchFile downloads a file of at most maxBytes, whose checksum isn't known.
func (r *Remote) fetchFile(ctx context.Context, path string, maxBytes int64) error {
	return r.Get(ctx, r.stored(path), path, maxBytes, nil)
}

// fetchIf downloads a file of at most maxBytes, and returns false if it doesn't exist.
func (r *Remote) fetchIf(ctx context.Context, path string, maxBytes int64) (there bool, err error) {
	defer coded(&err)
	err = r.Get(ctx, r.stored(path), path, maxBytes, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// fetchDone downloads a shard's manifest. It returns false if the manifest doesn't exist.
func (r *Remote) fetchDone(ctx context.Context, stage Stage, shard int) (bool, error) {
	return r.fetchIf(ctx, donePath(r.Dir.Shard(stage, shard)), maxDoneBytes)
}

// FetchDone downloads the manifests of the shards that are done with a stage. Each manifest is requested by name,
// because a listing may be incomplete.
func (r *Remote) FetchDone(ctx context.Context, stage Stage) error {
	return runfolder.Transfer(ctx, maxTransfers, len(r.Plan.Shards), func(ctx context.Context, i int) error {
		_, err := r.fetchDone(ctx, stage, i)
		return err
	})
}

// IsDone reports whether the storage contains the manifest for a shard's stage. It returns an error if the manifest is
// invalid.
func (r *Remote) IsDone(ctx context.Context, stage Stage, shard int) (bool, error) {
	tmp, err := os.MkdirTemp("", "nat-go-shards-")
	if err != nil {
		return false, exit.With(exit.Environment, err)
	}
	defer os.RemoveAll(tmp)
	apart := &Remote{r.Stored, &Parts{Dir: Folder(tmp), Plan: r.Plan}} // the shard may be in progress in r.Dir
	there, err := apart.fetchDone(ctx, stage, shard)
	if err == nil && there {
		_, err = apart.ReadDone(stage, shard)
	}
	return there, apart.RewriteError(err)
}

// FetchFor downloads the files that a shard reads in a stage, except the run's inputs.
func (r *Remote) FetchFor(ctx context.Context, stage Stage, shard int) (err error) {
	defer coded(&err)
	if shard >= len(r.Plan.Shards) {
		return nil // the invalid number is reported when the shard is run
	}
	if is := r.Plan.Shards[shard].Named; is != nil {
		if err := r.fetch(ctx, r.Dir.Named(shard), *is); err != nil {
			return err
		}
	}
	if stage == Write {
		return r.fetchForWriting(ctx, shard)
	}
	if stage != Group || !r.Plan.Tasks {
		return nil
	}
	if err := r.FetchDone(ctx, Build); err != nil {
		return err
	}
	missing, err := r.Read(Build)
	if err != nil || len(missing) > 0 {
		return err // missing manifests are reported when the shard is run
	}
	for _, d := range r.done[Build] {
		if err := r.fetchSpilled(ctx, d, shard); err != nil {
			return err
		}
	}
	return nil
}

// fetchSpilled downloads from a shard's spill the examples for the shard numbered part. d is the manifest of the
// shard that wrote the spill. The downloaded file is sparse, with holes in place of the other parts.
func (r *Remote) fetchSpilled(ctx context.Context, d *Done, part int) error {
	path := r.Dir.Spill(d.Shard)
	list := group.SpillList(path)
	if is := d.File(list); is.Path != "" {
		if err := r.fetch(ctx, list, is); err != nil {
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
	return r.fetchRanges(ctx, path, own, fmt.Sprintf("its list says: rerun shard %d", d.Shard))
}

// SendShard uploads a shard's files if it is done, with the manifest last.
func (r *Remote) SendShard(ctx context.Context, stage Stage, shard int) error {
	d, err := r.ReadDone(stage, shard)
	if err != nil || d == nil {
		return err
	}
	paths := lists.Map(d.Files, d.Path)
	return r.sendAll(ctx, paths, paths, donePath(d.Folder))
}

// FetchBuilt downloads the shards' files that a merge needs. If the data set was divided, they include the rows that
// the shards wrote. If a stage isn't done for all shards, it downloads the shards' manifests up to that stage, but none
// of their other files.
func (r *Remote) FetchBuilt(ctx context.Context) (err error) {
	defer coded(&err)
	cut, err := r.FetchCut(ctx)
	if err != nil {
		return err
	}
	stages := r.Plan.Stages()
	if cut != nil {
		stages = append(stages, Write)
		if err := r.fetchCutFile(ctx, cut, r.Dir.CutDrops()); err != nil {
			return err
		}
	}
	var paths []string
	var are []runfolder.File
	for _, stage := range stages {
		if err := r.FetchDone(ctx, stage); err != nil {
			return err
		}
		missing, err := r.Read(stage)
		if err != nil || len(missing) > 0 {
			return err // the merge reports missing manifests
		}
		for i, d := range r.done[stage] {
			for _, is := range d.Files {
				path := d.Path(is)
				if path != r.Dir.Spill(i) && path != group.SpillList(r.Dir.Spill(i)) &&
					(cut == nil || path != rowsPath(d.Folder)) {
					paths, are = append(paths, path), append(are, is)
				}
			}
		}
	}
	return runfolder.Transfer(ctx, maxTransfers, len(paths), func(ctx context.Context, i int) error {
		return r.fetch(ctx, paths[i], are[i])
	})
}

// RewriteError replaces the local copy's path in an error's text with the address of the stored folder.
func (r *Remote) RewriteError(err error) error { return exit.Reworded(err, r.RewritePaths) }

// RewritePaths replaces the path of the plan's local copy in text with the address of the stored folder.
func (r *Remote) RewritePaths(text string) string {
	return strings.ReplaceAll(text, string(r.Dir), string(r.Stored))
}

// SendCut uploads the cut, if there is one. It first uploads the files that the shards need for writing, namely the
// run's merged log and decisions, and the other files in the cut's folder.
func (r *Remote) SendCut(ctx context.Context, run runfolder.Folder) error {
	c, err := r.ReadCut()
	if err != nil || c == nil {
		return err
	}
	paths, as := mergedFiles(run), mergedFiles(r.Dir.Cut())
	if _, err := os.Stat(run.Contamination()); err == nil {
		paths, as = append(paths, run.Contamination()), append(as, r.Dir.Cut().Contamination())
	}
	for _, f := range c.Files {
		at := filepath.Join(string(r.Dir.Cut()), f.Path)
		paths, as = append(paths, at), append(as, at)
	}
	return r.sendAll(ctx, paths, as, r.Dir.CutPath())
}

// mergedFiles returns the paths of the merged run's files that shards need for writing.
func mergedFiles(f runfolder.Folder) []string {
	return []string{
		filepath.Join(f.Records(), recordlog.LogName), filepath.Join(f.Records(), recordlog.CommitName), f.Decisions(),
	}
}

// FetchCut downloads the cut, if there is one, but not the files that it names.
func (r *Remote) FetchCut(ctx context.Context) (*Cut, error) {
	if there, err := r.fetchIf(ctx, r.Dir.CutPath(), maxPlanBytes); err != nil || !there {
		return nil, err
	}
	return r.ReadCut()
}

// fetchCutFile downloads one of the cut's files to a path. It does nothing if the cut doesn't list the file.
func (r *Remote) fetchCutFile(ctx context.Context, c *Cut, at string) error {
	if is := runfolder.Lookup(c.Files, filepath.Base(at)); is.Path != "" {
		return r.fetch(ctx, at, is)
	}
	return nil
}

// fetchForWriting downloads the files that a shard needs for writing, if there is a cut. These files are the shard's
// range of the merged log, the decisions, the shard's list of batches, the scores, and the token rows in these batches.
func (r *Remote) fetchForWriting(ctx context.Context, shard int) error {
	c, err := r.FetchCut(ctx)
	if err != nil || c == nil {
		return err // without a cut, writing the shard fails
	}
	merged := mergedFiles(r.Dir.Cut())
	for _, at := range merged[1:] {
		if err := r.fetchFile(ctx, at, maxDecisions); err != nil {
			return err
		}
	}
	if _, err = r.fetchIf(ctx, r.Dir.Cut().Contamination(), maxDecisions); err != nil {
		return err
	}
	x := c.Ranges[shard]
	ranges := []span{{0, int64(recordlog.HeaderSize)}, {x.Offset, x.Bytes}}
	if err := r.fetchRanges(ctx, merged[0], ranges, r.divideAgain()); err != nil || c.Collated == nil {
		return err
	}
	for _, at := range []string{r.Dir.CutBatches(shard), r.Dir.CutScores()} {
		if err := r.fetchCutFile(ctx, c, at); err != nil {
			return err
		}
	}
	for _, stage := range r.Plan.Stages() {
		if err := r.FetchDone(ctx, stage); err != nil {
			return err
		}
	}
	return r.fetchRows(ctx, shard)
}

// maxDecisions is the maximum size of each file that accompanies the merged log. These files are the commit, the
// decisions, and the list of overlaps with benchmarks.
const maxDecisions = 64 << 30

// fetchRows downloads the token rows in a shard's batches, each row from the shard that made it.
func (r *Remote) fetchRows(ctx context.Context, shard int) error {
	in, err := durable.Open(r.Dir.CutBatches(shard))
	if err != nil {
		return err
	}
	defer in.Close()
	ranges := map[int][]span{}
	for row, err := range (batch.Spec{}).KeptIn(in) {
		if err == nil {
			err = r.Plan.has(int(row.File))
		}
		if err != nil {
			return exit.Failedf("%s: %w", in.Name(), err)
		}
		ranges[int(row.File)] = append(ranges[int(row.File)], span{row.Offset, int64(row.Bytes)})
	}
	shards := slices.Collect(maps.Keys(ranges))
	return runfolder.Transfer(ctx, maxTransfers, len(shards), func(ctx context.Context, i int) error {
		path := rowsPath(r.Dir.Shard(r.RowStage(), shards[i]))
		return r.fetchRanges(ctx, path, ranges[shards[i]], r.divideAgain())
	})
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
func (r *Remote) fetchRanges(ctx context.Context, at string, all []span, short string) error {
	from := r.Object(r.stored(at))
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
