package finetune

import (
	"context"
	"fmt"
	"slices"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/ttc/group"
)

// stores reports whether the shard stores its examples for stage Group instead of building records from them.
func (s *shard) stores() bool { return s.stage == shards.Build && s.Plan.Tasks }

// checkGroupable returns an error naming the shards that haven't stored their examples, if there are any.
func (s *shard) checkGroupable() error {
	missing, err := s.Read(shards.Build)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return exit.Environmentf("tasks may have examples in all shards, and these shards have not been read yet: %s. "+
			"`nat-go shard run %s --index I` reads one", shards.Array(missing), s.Dir)
	}
	return nil
}

// addTo adds the examples that all shards stored for this shard to an index.
func (s *shard) addTo(ctx context.Context, index *group.Index) error {
	for i := range s.Plan.Shards {
		if err := s.addSpilled(ctx, index, i); err != nil {
			return err
		}
	}
	return nil
}

// addSpilled adds the examples that the shard with number from stored for this shard. It returns an error if the list
// of these examples doesn't match the manifest.
func (s *shard) addSpilled(ctx context.Context, index *group.Index, from int) error {
	folder, d := s.Built(shards.Build, from)
	path := s.Dir.Spill(from)
	list := group.SpillList(path)
	sum, err := runfolder.ContentSum(list)
	if err == nil && runfolder.Lookup(d.Files, folder.Rel(list)).XXH3 != sum {
		err = fmt.Errorf("content of %s does not match its manifest: remove the shard's folder, and rerun it", list)
	}
	if err == nil {
		err = index.AddSpilled(ctx, path, s.number)
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	return exit.With(exit.Environment, err)
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
