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

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/objects"
)

// SendCut uploads the cut, if there is one. It first uploads the files that the shards need for writing, which are the
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

// maxDecisions is the maximum size of each file that accompanies the merged log: its commit, the decisions, and the
// list of overlaps with benchmarks.
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
		if err == nil && (row.File < 0 || row.File >= len(p.Shards)) {
			err = fmt.Errorf("unknown shard %d: the plan has %d shards", row.File, len(p.Shards))
		}
		if err != nil {
			return exit.Failedf("%s: %w", in.Name(), err)
		}
		ranges[row.File] = append(ranges[row.File], span{row.Offset, int64(row.Bytes)})
	}
	stages, shards := p.Stages(), slices.Collect(maps.Keys(ranges))
	err = runfolder.Transfer(ctx, maxTransfers, len(shards), func(ctx context.Context, i int) error {
		path := RowsPath(dir.Shard(stages[len(stages)-1], shards[i]))
		return r.fetchRanges(ctx, dir, path, ranges[shards[i]], r.divideAgain())
	})
	return exit.Default(exit.Environment, err)
}

// span is a range of bytes in a file.
type span struct{ offset, bytes int64 }

// maxGap is the maximum number of unneeded bytes downloaded to avoid another request.
const maxGap = 256 << 10

// joinSpans sorts spans by offset, and joins neighbours separated by at most maxGap.
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

// fetchRanges downloads parts of a file into a local file with holes in place of the other parts. If the object ends
// too early, the error is "<object> is shorter than <short>", where short includes the remedy.
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
