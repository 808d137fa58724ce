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

// A plan's folder may be in object storage, where files have the same names as on disk. A process then works on a local
// copy. It downloads the files that it needs, and uploads its results, with the manifest last. The methods that
// transfer files do nothing for a plan on a disk.

// IsStored reports whether the folder is in object storage.
func (f Folder) IsStored() bool { return objects.Is(string(f)) }

// IsCopy reports whether the plan's folder on this machine is a copy of one in object storage.
func (p *Parts) IsCopy() bool { return p.home != "" }

// maxTransfers is the maximum number of concurrent downloads. At most half as many uploads are concurrent, because each
// upload keeps part of its content in memory.
const maxTransfers = 8

// stored returns the name in object storage of a file in the local copy.
func (p *Parts) stored(path string) string { return runfolder.Folder(p.Dir).Rel(path) }

// coded gives an error the exit code for the environment, unless it has an exit code.
func coded(err *error) { *err = exit.Default(exit.Environment, *err) }

// Free returns an error if the folder, which is in object storage, already has a plan, or if the storage can't prevent
// two plans from being written concurrently.
func (f Folder) Free(ctx context.Context) error {
	return runfolder.Stored(f).Lacks(ctx, planName, exit.Usagef("%s already has a plan: run its shards, or choose "+
		"another folder with --plan-dir", f))
}

// CopiedTo returns the shards of a plan in object storage whose local copy is, or will be, in dir.
func (f Folder) CopiedTo(dir Folder) *Parts {
	return &Parts{Dir: dir, home: runfolder.Stored(f), done: map[Stage][]*Done{}}
}

// SendPlan uploads a plan's configuration and files of ids, and then the plan.
func (p *Parts) SendPlan(ctx context.Context) error {
	paths := []string{p.Dir.Config()}
	for i, s := range p.Plan.Shards {
		if s.Named != nil {
			paths = append(paths, p.Dir.Named(i))
		}
	}
	return p.sendAll(ctx, paths, paths, p.Dir.Plan())
}

// sendAll uploads the files at paths, followed by the manifest that lists them. Each file is stored under the name of
// the corresponding path in as, which is a path in the local copy.
func (p *Parts) sendAll(ctx context.Context, paths, as []string, manifest string) (err error) {
	defer coded(&err)
	err = runfolder.Transfer(ctx, maxTransfers/2, len(paths), func(ctx context.Context, i int) error {
		return p.home.Send(ctx, paths[i], p.stored(as[i]))
	})
	if err != nil {
		return err
	}
	text, err := durable.ReadFile(manifest, maxPlanBytes)
	if err == nil {
		err = objects.OfProcess().Create(ctx, p.home.Object(p.stored(manifest)), text)
	}
	if errors.Is(err, fs.ErrExist) {
		return exit.With(exit.Failed, err)
	}
	return err
}

// At returns the shards of the plan, without reading it if it is on a disk. If the plan is in object storage, At makes
// a local copy of the plan and the configuration in a folder below work. If a copy of the same plan already exists, its
// other files are kept.
func (f Folder) At(ctx context.Context, work string) (*Parts, error) {
	if !f.IsStored() {
		return &Parts{Dir: f}, nil
	}
	text, err := objects.OfProcess().ReadAll(ctx, runfolder.Stored(f).Object(planName), maxPlanBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Environmentf("no plan in %s: `nat-go shard plan` makes one", f)
	}
	if err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	h := xxh3.New()
	fmt.Fprintf(h, "%q %s", f, text)
	p := f.CopiedTo(Folder(filepath.Join(work, runfolder.Digest(h))))
	if err = os.MkdirAll(string(p.Dir), 0o700); err == nil {
		err = durable.WriteFile(p.Dir.Plan(), text)
	}
	if err == nil {
		err = p.fetchFile(ctx, p.Dir.Config(), MaxConfig)
	}
	if err != nil {
		return nil, exit.Default(exit.Environment, fmt.Errorf("cannot copy the plan: %w", err))
	}
	p.Plan, err = p.Dir.Read()
	return p, err
}

// fetch downloads a file. It returns an error if the file's size or checksum differs from the expected one.
func (p *Parts) fetch(ctx context.Context, path string, is runfolder.File) error {
	name := p.stored(path)
	return p.home.Get(ctx, name, path, is.Bytes, func(got runfolder.File) error {
		if got.Bytes != is.Bytes || got.XXH3 != is.XXH3 {
			return exit.Failedf("%s doesn't match its manifest: remove it and the manifest, and run the shard "+
				"again", p.home.Object(name))
		}
		return nil
	})
}

// fetchFile downloads a file of at most maxBytes, whose checksum isn't known.
func (p *Parts) fetchFile(ctx context.Context, path string, maxBytes int64) error {
	return p.home.Get(ctx, p.stored(path), path, maxBytes, nil)
}

// fetchIf downloads a file of at most maxBytes, and returns false if it doesn't exist.
func (p *Parts) fetchIf(ctx context.Context, path string, maxBytes int64) (there bool, err error) {
	defer coded(&err)
	err = p.home.Get(ctx, p.stored(path), path, maxBytes, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// fetchDone downloads a shard's manifest. It returns false if the manifest doesn't exist.
func (p *Parts) fetchDone(ctx context.Context, stage Stage, shard int) (bool, error) {
	return p.fetchIf(ctx, donePath(p.Dir.Shard(stage, shard)), maxDoneBytes)
}

// FetchDone downloads the manifests of the shards that are done with a stage. Each manifest is requested by name,
// because a listing may be incomplete.
func (p *Parts) FetchDone(ctx context.Context, stage Stage) error {
	if !p.IsCopy() {
		return nil
	}
	return runfolder.Transfer(ctx, maxTransfers, len(p.Plan.Shards), func(ctx context.Context, i int) error {
		_, err := p.fetchDone(ctx, stage, i)
		return err
	})
}

// IsDone reports whether the storage contains the manifest for a shard's stage. It returns an error if the manifest is
// invalid.
func (p *Parts) IsDone(ctx context.Context, stage Stage, shard int) (bool, error) {
	if !p.IsCopy() {
		return false, nil
	}
	tmp, err := os.MkdirTemp("", "nat-go-shards-")
	if err != nil {
		return false, exit.With(exit.Environment, err)
	}
	defer os.RemoveAll(tmp)
	apart := Folder(p.home).CopiedTo(Folder(tmp)) // the shard may be in progress in p.Dir
	apart.Plan = p.Plan
	there, err := apart.fetchDone(ctx, stage, shard)
	if err == nil && there {
		_, err = apart.ReadDone(stage, shard)
	}
	return there, apart.RewriteError(err)
}

// FetchFor downloads the files that a shard reads in a stage, except the run's inputs.
func (p *Parts) FetchFor(ctx context.Context, stage Stage, shard int) (err error) {
	defer coded(&err)
	if !p.IsCopy() || shard >= len(p.Plan.Shards) {
		return nil // the invalid number is reported when the shard is run
	}
	defer clear(p.done) // the shard reads the manifests again, and a plan may have many
	if is := p.Plan.Shards[shard].Named; is != nil {
		if err := p.fetch(ctx, p.Dir.Named(shard), *is); err != nil {
			return err
		}
	}
	if stage == Write {
		return p.fetchForWriting(ctx, shard)
	}
	if stage != Group || !p.Plan.Tasks {
		return nil
	}
	if err := p.FetchDone(ctx, Build); err != nil {
		return err
	}
	missing, err := p.Read(Build)
	if err != nil || len(missing) > 0 {
		return err // missing manifests are reported when the shard is run
	}
	for _, d := range p.done[Build] {
		if err := p.fetchSpilled(ctx, d, shard); err != nil {
			return err
		}
	}
	return nil
}

// fetchSpilled downloads from a shard's spill the examples for the shard numbered part. d is the manifest of the
// shard that wrote the spill. The downloaded file is sparse, with holes in place of the other parts.
func (p *Parts) fetchSpilled(ctx context.Context, d *Done, part int) error {
	path := p.Dir.Spill(d.Shard)
	list := group.SpillList(path)
	if is := d.File(list); is.Path != "" {
		if err := p.fetch(ctx, list, is); err != nil {
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
	return p.fetchRanges(ctx, path, own, fmt.Sprintf("its list says: rerun shard %d", d.Shard))
}

// SendShard uploads a shard's files if it is done, with the manifest last.
func (p *Parts) SendShard(ctx context.Context, stage Stage, shard int) error {
	if !p.IsCopy() {
		return nil
	}
	d, err := p.ReadDone(stage, shard)
	if err != nil || d == nil {
		return err
	}
	paths := lists.Map(d.Files, d.Path)
	return p.sendAll(ctx, paths, paths, donePath(d.Folder))
}

// FetchBuilt downloads the shards' files that a merge needs. If the data set was divided, they include the rows that
// the shards wrote. If a stage isn't done for all shards, it downloads the shards' manifests up to that stage, but none
// of their other files.
func (p *Parts) FetchBuilt(ctx context.Context) (err error) {
	defer coded(&err)
	cut, err := p.FetchCut(ctx)
	if err != nil || !p.IsCopy() {
		return err
	}
	defer clear(p.done) // the merge reads the manifests again, and a plan may have many
	stages := p.Plan.Stages()
	if cut != nil {
		stages = append(stages, Write)
		if err := p.fetchCutFile(ctx, cut, p.Dir.CutDrops()); err != nil {
			return err
		}
	}
	var paths []string
	var are []runfolder.File
	for _, stage := range stages {
		if err := p.FetchDone(ctx, stage); err != nil {
			return err
		}
		missing, err := p.Read(stage)
		if err != nil || len(missing) > 0 {
			return err // the merge reports missing manifests
		}
		for i, d := range p.done[stage] {
			for _, is := range d.Files {
				path := d.Path(is)
				if path != p.Dir.Spill(i) && path != group.SpillList(p.Dir.Spill(i)) &&
					(cut == nil || path != rowsPath(d.Folder)) {
					paths, are = append(paths, path), append(are, is)
				}
			}
		}
	}
	return runfolder.Transfer(ctx, maxTransfers, len(paths), func(ctx context.Context, i int) error {
		return p.fetch(ctx, paths[i], are[i])
	})
}

// RewriteError replaces the local copy's path in an error's text with the address of the stored folder.
func (p *Parts) RewriteError(err error) error { return exit.Reworded(err, p.RewritePaths) }

// RewritePaths replaces the path of the plan's local copy, if it has one, with the address of the stored folder.
func (p *Parts) RewritePaths(text string) string {
	if !p.IsCopy() {
		return text
	}
	return strings.ReplaceAll(text, string(p.Dir), string(p.home))
}

// SendCut uploads the cut, if there is one. It first uploads the files that the shards need for writing, namely the
// run's merged log and decisions, and the other files in the cut's folder.
func (p *Parts) SendCut(ctx context.Context, run runfolder.Folder) error {
	if !p.IsCopy() {
		return nil
	}
	c, err := p.ReadCut()
	if err != nil || c == nil {
		return err
	}
	paths, as := mergedFiles(run), mergedFiles(p.Dir.Cut())
	if _, err := os.Stat(run.Contamination()); err == nil {
		paths, as = append(paths, run.Contamination()), append(as, p.Dir.Cut().Contamination())
	}
	for _, f := range c.Files {
		at := filepath.Join(string(p.Dir.Cut()), f.Path)
		paths, as = append(paths, at), append(as, at)
	}
	return p.sendAll(ctx, paths, as, p.Dir.CutPath())
}

// mergedFiles returns the paths of the merged run's files that shards need for writing.
func mergedFiles(f runfolder.Folder) []string {
	return []string{
		filepath.Join(f.Records(), recordlog.LogName), filepath.Join(f.Records(), recordlog.CommitName), f.Decisions(),
	}
}

// FetchCut downloads the cut, if there is one, but not the files that it names.
func (p *Parts) FetchCut(ctx context.Context) (*Cut, error) {
	if !p.IsCopy() {
		return nil, nil
	}
	if there, err := p.fetchIf(ctx, p.Dir.CutPath(), maxPlanBytes); err != nil || !there {
		return nil, err
	}
	return p.ReadCut()
}

// fetchCutFile downloads one of the cut's files to a path. It does nothing if the cut doesn't list the file.
func (p *Parts) fetchCutFile(ctx context.Context, c *Cut, at string) error {
	if is := runfolder.Lookup(c.Files, filepath.Base(at)); is.Path != "" {
		return p.fetch(ctx, at, is)
	}
	return nil
}

// fetchForWriting downloads the files that a shard needs for writing, if there is a cut. These files are the shard's
// range of the merged log, the decisions, the shard's list of batches, the scores, and the token rows in these batches.
func (p *Parts) fetchForWriting(ctx context.Context, shard int) error {
	c, err := p.FetchCut(ctx)
	if err != nil || c == nil {
		return err // without a cut, writing the shard fails
	}
	merged := mergedFiles(p.Dir.Cut())
	for _, at := range merged[1:] {
		if err := p.fetchFile(ctx, at, maxDecisions); err != nil {
			return err
		}
	}
	if _, err = p.fetchIf(ctx, p.Dir.Cut().Contamination(), maxDecisions); err != nil {
		return err
	}
	x := c.Ranges[shard]
	ranges := []span{{0, int64(recordlog.HeaderSize)}, {x.Offset, x.Bytes}}
	if err := p.fetchRanges(ctx, merged[0], ranges, p.divideAgain()); err != nil || c.Collated == nil {
		return err
	}
	for _, at := range []string{p.Dir.CutBatches(shard), p.Dir.CutScores()} {
		if err := p.fetchCutFile(ctx, c, at); err != nil {
			return err
		}
	}
	for _, stage := range p.Plan.Stages() {
		if err := p.FetchDone(ctx, stage); err != nil {
			return err
		}
	}
	return p.fetchRows(ctx, shard)
}

// maxDecisions is the maximum size of each file that accompanies the merged log. These files are the commit, the
// decisions, and the list of overlaps with benchmarks.
const maxDecisions = 64 << 30

// fetchRows downloads the token rows in a shard's batches, each row from the shard that made it.
func (p *Parts) fetchRows(ctx context.Context, shard int) error {
	in, err := durable.Open(p.Dir.CutBatches(shard))
	if err != nil {
		return err
	}
	defer in.Close()
	ranges := map[int][]span{}
	for row, err := range (batch.Spec{}).KeptIn(in) {
		if err == nil {
			err = p.Plan.has(int(row.File))
		}
		if err != nil {
			return exit.Failedf("%s: %w", in.Name(), err)
		}
		ranges[int(row.File)] = append(ranges[int(row.File)], span{row.Offset, int64(row.Bytes)})
	}
	shards := slices.Collect(maps.Keys(ranges))
	return runfolder.Transfer(ctx, maxTransfers, len(shards), func(ctx context.Context, i int) error {
		path := rowsPath(p.Dir.Shard(p.RowStage(), shards[i]))
		return p.fetchRanges(ctx, path, ranges[shards[i]], p.divideAgain())
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
func (p *Parts) divideAgain() string {
	return fmt.Sprintf("the merge recorded: remove %s, and merge again with --leave-writing",
		p.home.Object(path.Dir(cutName)))
}

// fetchRanges downloads parts of a file into a sparse local file, with holes in place of the other parts. If the
// object ends too early, the error is "<object> is shorter than <short>", where short includes the remedy.
func (p *Parts) fetchRanges(ctx context.Context, at string, all []span, short string) error {
	from := p.home.Object(p.stored(at))
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
