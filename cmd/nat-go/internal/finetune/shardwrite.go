package finetune

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/decide"
)

// The work of writing a data set is divided by rows, not by builder. Each shard writes the text rows for a range of the
// merged log, and a range of the token batches, whose rows it reads from the folders of the shards that made them.

// leaveWriting is the stage that divides the rows among the shards.
func (r merger) leaveWriting(ctx context.Context) error {
	m, d := r.run.plan.merging, r.run.decisions
	if err := m.Dir.NewCut(); err != nil {
		return exit.Environmentf("can't divide the data set: %w", err)
	}
	c, err := recordlog.ReadCommit(r.run.plan.folder.Records())
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	cut := &shards.Cut{Plan: m.Plan.Sum, Log: c.XXH3, Ranges: m.allRanges(c), Warning: d.Warning}
	if cut.Decisions, err = runfolder.ContentSum(r.run.plan.folder.Decisions()); err != nil {
		return exit.With(exit.Environment, err)
	}
	if r.run.tokens != nil && d.Kept() > 0 {
		if cut.Collated, err = r.run.collation().Divide(ctx); err != nil {
			return exit.Default(exit.Environment, fmt.Errorf("can't divide the batches: %w", err))
		}
	}
	if err := m.Dir.WriteCut(cut); err != nil {
		return exit.Environmentf("can't divide the data set: %w", err)
	}
	r.reportLeft()
	return nil
}

// divide starts a new range of the merged log at g if the current range has reached its share of the log's bytes.
func (m *merging) divide(g *recordlog.Group, c recordlog.Commit) {
	for n := len(m.Plan.Shards); len(m.ranges) < n && g.Offset >= c.Bytes/int64(n)*int64(len(m.ranges)); {
		m.ranges = append(m.ranges, recordlog.Range{Offset: g.Offset, First: g.First})
	}
}

// allRanges returns the ranges of the merged log, once divide has been called for all groups. The last ones may be
// empty.
func (m *merging) allRanges(c recordlog.Commit) []recordlog.Range {
	for len(m.ranges) < len(m.Plan.Shards) {
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
		"merge again", r.run.plan.merging.Dir)
}

// writeShard writes the shard's share of the data set.
func (r sharding) writeShard(ctx context.Context) error {
	s := r.run.plan.shard
	cut, err := s.Dir.ReadCut(s.Plan)
	if err != nil {
		return err
	}
	if cut == nil {
		return exit.Environmentf("the data set is not divided yet: `nat-go shard merge %s --leave-writing` divides "+
			"it, once all shards are built", s.Dir)
	}
	if r.run.decisions, err = s.Dir.Decisions(cut, s.run); err != nil {
		return err
	}
	if c := r.run.plan.config.Dataset.Contamination; c != nil {
		if _, r.run.plan.overlaps, err = decide.ReadOverlaps(s.run); err != nil {
			return err
		}
	}
	folder, made := r.run.plan.folder, &shards.Output{}
	err = cmp.Or(os.RemoveAll(folder.Dataset()), os.RemoveAll(folder.Batches())) // the output of an interrupted attempt
	if err == nil {
		made.Rows, err = r.run.writing(s.run).RunPart(ctx, cut.Ranges[s.number])
	}
	if err != nil {
		return exit.Default(exit.Environment, fmt.Errorf("can't write the rows: %w", err))
	}
	if cut.Collated != nil {
		if made.Batches, err = r.run.collation().RunPart(ctx, s.number); err != nil {
			return exit.Default(exit.Environment, fmt.Errorf("can't make the batches: %w", err))
		}
	}
	if err := made.Write(folder); err != nil {
		return err
	}
	r.run.out.sum.Share = shareOf(made)
	return r.seal(ctx, &shards.Done{})
}

// shareOf describes how much a shard wrote.
func shareOf(o *shards.Output) *Share {
	sum := &Share{Rows: o.Rows.Lines()}
	for _, n := range o.Batches {
		sum.Batches += n.Batches
	}
	return sum
}
