package finetune

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/write"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/durable"
)

// The work of writing a data set is divided by rows, not by builder. Each shard writes the text rows for a range of the
// merged log, and a range of the token batches, whose rows it reads from the folders of the shards that made them.

// share describes a shard's output. It is stored in the shard's folder, in a file that the shard's manifest lists.
type share struct {
	Rows    *dataset.Share         `json:"rows"`
	Batches map[string]batch.Count `json:"batches"` // by "channel/split"
}

func shareFile(f runfolder.Folder) string  { return filepath.Join(string(f), "share.json") }
func shareLines(f runfolder.Folder) string { return filepath.Join(string(f), "lines.jsonl") }

// summary describes how much a shard wrote.
func (s *share) summary() *Share {
	sum := &Share{Rows: s.Rows.Lines()}
	for _, n := range s.Batches {
		sum.Batches += n.Batches
	}
	return sum
}

// readShare reads a shard's share.json, whose size must match the shard's manifest.
func readShare(f runfolder.Folder, d *shards.Done) (*share, error) {
	path := shareFile(f)
	in, err := shards.OpenBuilt(f, d, path)
	if err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	defer in.Close()
	x := new(share)
	if err := json.NewDecoder(in).Decode(x); err != nil || x.Rows == nil {
		return nil, exit.With(exit.Environment, shards.Damaged(path, "invalid content"))
	}
	return x, nil
}

// leaveWriting is the stage that divides the rows among the shards.
func (r merger) leaveWriting(ctx context.Context) error {
	m, d, t := r.run.plan.merging, r.run.decisions, r.run.tokens
	if err := m.dir.NewCut(); err != nil {
		return exit.Environmentf("can't divide the data set: %w", err)
	}
	c, err := recordlog.ReadCommit(r.run.plan.folder.Records())
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	cut := &shards.Cut{Plan: m.plan.Sum, Log: c.XXH3, Ranges: m.allRanges(c), Warning: d.Warning}
	if cut.Decisions, err = runfolder.ContentSum(r.run.plan.folder.Decisions()); err != nil {
		return exit.With(exit.Environment, err)
	}
	if t != nil && d.Kept() > 0 {
		of := collation{r.run.plan, r.run.env, r.run.out, t, d, &r.run.built.at}
		if cut.Collated, err = of.divideBatches(ctx); err != nil {
			return exit.Default(exit.Environment, fmt.Errorf("can't divide the batches: %w", err))
		}
	}
	if err := m.dir.WriteCut(cut); err != nil {
		return exit.Environmentf("can't divide the data set: %w", err)
	}
	r.reportLeft()
	return nil
}

// divide starts a new range of the merged log at g if the current range has reached its share of the log's bytes.
func (m *merging) divide(g *recordlog.Group, bytes int64) {
	if m == nil || !m.leave {
		return
	}
	for n := len(m.plan.Shards); len(m.ranges) < n && g.Offset >= bytes/int64(n)*int64(len(m.ranges)); {
		m.ranges = append(m.ranges, recordlog.Range{Offset: g.Offset, First: g.First})
	}
}

// allRanges returns the ranges of the merged log, once divide has been called for all groups. The last ones may be
// empty.
func (m *merging) allRanges(c recordlog.Commit) []recordlog.Range {
	for len(m.ranges) < len(m.plan.Shards) {
		m.ranges = append(m.ranges, recordlog.Range{Offset: c.Bytes, First: c.Records})
	}
	end := c.Bytes
	for i, x := range slices.Backward(m.ranges) {
		m.ranges[i].Bytes, end = end-x.Offset, x.Offset
	}
	return m.ranges
}

// skipIfLeft ends the run if an earlier merge has divided the rows.
func (r merger) skipIfLeft(context.Context) error {
	if r.run.plan.merging.cut == nil {
		return nil
	}
	r.run.out.Warn("the rows are already divided among the shards; nothing was done")
	r.reportLeft()
	return errSealed
}

// reportLeft sets the summary's next step: the shards must write their rows.
func (r merger) reportLeft() {
	r.run.out.sum.Status, r.run.out.sum.RunDir = runfolder.Completed, string(r.run.plan.folder)
	r.run.out.sum.NotStarted = false
	r.run.out.sum.Next = fmt.Sprintf("`nat-go shard run %s --stage write --index I` writes a shard's share; then "+
		"merge again", r.run.plan.merging.dir)
}

// divideBatches cuts the batches, divides them among the shards, and returns the collator's result as JSON.
func (r collation) divideBatches(ctx context.Context) (json.RawMessage, error) {
	m := r.plan.merging
	drops, err := r.out.NewList(m.dir.CutDrops())
	if err != nil {
		return nil, err
	}
	defer drops.Abort()
	cut, err := r.cutBatches(ctx, drops.List)
	if err != nil {
		return nil, err
	}
	defer cut.Close()
	res, scores, err := cut.Divide(len(m.plan.Shards), func(i int) (io.WriteCloser, error) {
		f, err := durable.Create(m.dir.CutBatches(i))
		return committed{f}, err
	})
	if err == nil {
		err = durable.WriteFile(m.dir.CutScores(), scores)
	}
	if err == nil {
		err = drops.Close()
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(res)
}

// committed is a file that Close commits.
type committed struct{ *durable.File }

func (f committed) Close() error { return f.Commit() }

// writeShard writes the shard's share of the data set.
func (r sharding) writeShard(ctx context.Context) error {
	s, t := r.run.plan.shard, r.run.tokens
	cut, err := s.dir.ReadCut(s.plan)
	if err != nil {
		return err
	}
	if cut == nil {
		return exit.Environmentf("the data set is not divided yet: `nat-go shard merge %s --leave-writing` divides "+
			"it, once all shards are built", s.dir)
	}
	if r.run.decisions, err = cutDecisions(s.dir, cut, s.run); err != nil {
		return err
	}
	if c := r.run.plan.config.Dataset.Contamination; c != nil {
		if _, r.run.plan.overlaps, err = readOverlaps(s.run); err != nil {
			return err
		}
	}
	made := &share{}
	if made.Rows, err = r.writeRows(ctx, cut.Ranges[s.number]); err != nil {
		return exit.Default(exit.Environment, fmt.Errorf("can't write the rows: %w", err))
	}
	if cut.Collated != nil {
		if made.Batches, err = r.writeBatches(ctx, t); err != nil {
			return exit.Default(exit.Environment, fmt.Errorf("can't make the batches: %w", err))
		}
	}
	text, err := json.Marshal(made)
	if err == nil {
		err = durable.WriteFile(shareFile(r.run.plan.folder), text)
	}
	if err != nil {
		return exit.Environmentf("can't write the shard's share: %w", err)
	}
	r.run.out.sum.Share = made.summary()
	return r.seal(ctx, &shards.Done{})
}

// cutDecisions reads the decisions on which a cut was based. It returns an error if the log or the decisions have
// changed since.
func cutDecisions(dir shards.Folder, cut *shards.Cut, run runfolder.Folder) (*curate.Decisions, error) {
	c, err := recordlog.ReadCommit(run.Records())
	if err != nil {
		return nil, exit.Environmentf("can't read the merged log: %w", err)
	}
	sum, err := runfolder.ContentSum(run.Decisions())
	if err != nil {
		return nil, exit.Environmentf("can't read the decisions: %w", err)
	}
	if c.XXH3 != cut.Log || sum != cut.Decisions {
		return nil, exit.Failedf("%s is not the run that was divided: remove %s, and merge again", run,
			filepath.Dir(dir.CutPath()))
	}
	d, err := (&dataset.Place{Run: run}).Decisions()
	if err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	d.Warning = cut.Warning
	return d, nil
}

// writeRows writes the rows of a range of the merged log.
func (r sharding) writeRows(ctx context.Context, x recordlog.Range) (*dataset.Share, error) {
	folder, s := r.run.plan.folder, r.run.plan.shard
	for _, dir := range []string{folder.Dataset(), folder.Batches()} { // remove the output of an interrupted attempt
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	return r.run.plan.writing(r.run.out, s.run, r.run.decisions).RunPart(ctx, x)
}

// maxScores is the maximum size of the file with the rollout rows' scores.
const maxScores = 16 << 30

// writeBatches writes the shard's share of the batches.
func (r sharding) writeBatches(ctx context.Context, t *tokens) (counts map[string]batch.Count, err error) {
	s, folder := r.run.plan.shard, r.run.plan.folder
	if err := s.checkComplete(); err != nil {
		return nil, err
	}
	scores, err := durable.ReadFile(s.dir.CutScores(), maxScores)
	if err != nil {
		return nil, err
	}
	in, err := durable.Open(s.dir.CutBatches(s.number))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	counts = map[string]batch.Count{}
	return counts, durable.Save(shareLines(folder), func(lines io.Writer) error {
		return t.collator.WriteKept(ctx, bufio.NewReader(in), scores, s.readRow, string(folder),
			func(line []byte, key string, n batch.Count) error {
				counts[key] = counts[key].Plus(n)
				_, err := lines.Write(line)
				return err
			})
	})
}

// parts returns the rows that the shards wrote, or nil if writing wasn't left to them.
func (m *merging) parts() (parts []write.Part) {
	for i, x := range m.shares {
		parts = append(parts, write.Part{Share: x.Rows, Folder: m.dir.Shard(shards.Write, i)})
	}
	return parts
}

// joinRows joins the text rows that the shards wrote, if writing was left to them, into m.rows.
func (r merger) joinRows(ctx context.Context) (err error) {
	m := r.run.plan.merging
	if m.cut == nil {
		return nil
	}
	w := r.run.plan.writing(r.run.out, m.run, nil)
	w.Parts = m.parts()
	m.rows, err = w.Join(ctx)
	return err
}

// joinBatches joins the batches that the shards wrote, and replays the drops of divideBatches.
func (r collation) joinBatches(ctx context.Context) (*collator.Result, error) {
	m, folder := r.plan.merging, r.plan.folder
	res := new(collator.Result)
	if err := json.Unmarshal(m.cut.Collated, res); err != nil {
		return nil, err
	}
	if err := r.out.Replay(m.dir.CutDrops()); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder.Batches(), 0o755); err != nil {
		return nil, err
	}
	res.Counts = map[string]batch.Count{}
	err := durable.Save(filepath.Join(folder.Batches(), batch.IndexName), func(index io.Writer) error {
		for i, x := range m.shares {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			from, done := m.built(shards.Write, i)
			for key, n := range x.Batches {
				res.Counts[key] = res.Counts[key].Plus(n)
			}
			lines, err := shards.OpenBuilt(from, done, shareLines(from))
			if err != nil {
				return err
			}
			_, err = io.Copy(index, lines)
			if err = errors.Join(err, lines.Close()); err != nil {
				return err
			}
			if err := r.takeBatches(from, done); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if c := r.plan.config.Collator.Composer; c.Steps() {
		res.Steps, res.Apart, err = batch.WriteSteps(folder.Batches(), c.ByExample())
	}
	return res, err
}

// takeBatches puts the batches that a shard wrote into the run folder, as hard links if possible, otherwise as copies.
func (r collation) takeBatches(from runfolder.Folder, d *shards.Done) error {
	in := from.Rel(from.Batches()) + "/"
	for _, f := range d.Files {
		if !strings.HasPrefix(f.Path, in) {
			continue
		}
		old, path := filepath.Join(string(from), f.Path), filepath.Join(string(r.plan.folder), f.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if os.Link(old, path) != nil {
			if err := durable.CopyFile(path, old); err != nil {
				return err
			}
		}
		if r.plan.config.Collator.Teacher == nil { // with a teacher, the files are rewritten, so the hashes change
			r.out.Files = append(r.out.Files, f)
		}
	}
	return nil
}
