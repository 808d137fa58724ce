package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/ttc/group"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// Parts reads the shards of a plan, with their manifests and results.
type Parts struct {
	Dir  Folder
	Plan *Plan
	home runfolder.Stored  // the original of Dir in object storage; empty for a plan on a disk
	done map[Stage][]*Done // manifests by stage and shard; only for the stages read so far

	mu   sync.Mutex
	rows map[int]*os.File // open files with token rows, by shard
}

// Open reads the plan.
func (f Folder) Open() (*Parts, error) {
	p, err := f.Read()
	return &Parts{Dir: f, Plan: p, done: map[Stage][]*Done{}, rows: map[int]*os.File{}}, err
}

// Read reads the manifests of a stage into p.done, and returns the shards that lack one.
func (p *Parts) Read(stage Stage) (missing []int, err error) {
	all := make([]*Done, len(p.Plan.Shards))
	for i := range all {
		if all[i], err = p.ReadDone(stage, i); err != nil {
			return nil, err
		}
		if all[i] == nil {
			missing = append(missing, i)
		}
	}
	p.done[stage] = all
	return missing, nil
}

// CheckComplete reads the manifests of the stages before the merge. It returns an error that names the shards that have
// not completed a stage, if there are any.
func (p *Parts) CheckComplete() error {
	for _, stage := range p.Plan.Stages() {
		if missing, err := p.Read(stage); err != nil || len(missing) > 0 {
			return cmp.Or(err, p.incomplete(stage, missing, "built", "builds"))
		}
	}
	return nil
}

// incomplete returns the error for a stage that some shards haven't completed.
func (p *Parts) incomplete(stage Stage, missing []int, done, does string) error {
	are := "are"
	if len(missing) == 1 {
		are = "is"
	}
	return exit.Failedf("%d of the %s %s not %s yet: %s. `nat-go shard run %s --stage %s --index I` %s one",
		len(missing), ledger.Quantity(int64(len(p.Plan.Shards)), "shard"), are, done, Array(missing), p.Dir, stage,
		does)
}

// Seen returns the sum of all shards' statistics on reading.
func (p *Parts) Seen() (all source.Stats) {
	for _, done := range p.done[Build] {
		all.Add(&done.Seen)
	}
	return all
}

// Count returns the numbers of groups and records that the shards built in a stage.
func (p *Parts) Count(stage Stage) (groups, records uint64) {
	for _, done := range p.done[stage] {
		groups, records = groups+done.Groups, records+done.Records
	}
	return groups, records
}

// RowStage returns the stage that makes token rows.
func (p *Parts) RowStage() Stage {
	stages := p.Plan.Stages()
	return stages[len(stages)-1]
}

// Done returns the manifest of a shard's stage. The stage must have been read.
func (p *Parts) Done(stage Stage, shard int) *Done { return p.done[stage][shard] }

// AddSpilled adds the examples that all shards stored for a shard to an index. It returns an error if the list of these
// examples in a shard's folder doesn't match the manifest.
func (p *Parts) AddSpilled(ctx context.Context, index *group.Index, shard int) error {
	for i, d := range p.done[Build] {
		path := p.Dir.Spill(i)
		list := group.SpillList(path)
		sum, err := runfolder.ContentSum(list)
		if err == nil && d.File(list).XXH3 != sum {
			err = fmt.Errorf("content of %s does not match its manifest: remove the shard's folder, and rerun it", list)
		}
		if err == nil {
			err = index.AddSpilled(ctx, path, shard)
		}
		if ctx.Err() == nil && err != nil {
			err = exit.With(exit.Environment, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ReadRow reads a token row that a shard made.
func (p *Parts) ReadRow(row *batch.Encoded) ([]byte, error) {
	f, err := p.openRows(int(row.File))
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if row.Offset < 0 || int64(row.Bytes) > info.Size()-row.Offset {
		return nil, Damaged(f.Name(), "a row lies outside the file")
	}
	b := make([]byte, row.Bytes)
	if _, err := f.ReadAt(b, row.Offset); err != nil {
		return nil, Damaged(f.Name(), err.Error())
	}
	if xxh3.Hash(b) != row.Sum {
		return nil, Damaged(f.Name(), "invalid checksum")
	}
	return b, nil
}

// openRows opens a shard's token rows, unless they are already open.
func (p *Parts) openRows(shard int) (f *os.File, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f = p.rows[shard]; f != nil {
		return f, nil
	}
	if err := p.Plan.has(shard); err != nil {
		return nil, err
	}
	done := p.Done(p.RowStage(), shard)
	if f, err = done.Open(rowsPath(done.Folder)); err == nil {
		p.rows[shard] = f
	}
	return f, err
}

// Close closes the token rows.
func (p *Parts) Close() {
	if p != nil {
		for _, f := range p.rows {
			f.Close()
		}
	}
}

// Outputs reads the descriptions of all shards' outputs. If some shards haven't written their output yet, it returns
// nil, and an error unless that is allowed.
func (p *Parts) Outputs(allowMissing bool) (all []*Output, err error) {
	missing, err := p.Read(Write)
	switch {
	case err != nil || len(missing) > 0 && allowMissing:
		return nil, err
	case len(missing) > 0:
		return nil, p.incomplete(Write, missing, "written", "writes")
	}
	for _, d := range p.done[Write] {
		o, err := ReadOutput(d)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// Heads calls take for each group whose token rows the shards made, in the order of Walk. It passes the number of the
// shard that made the rows.
func (p *Parts) Heads(ctx context.Context, scratch string, take func(shard int, h Head) error) error {
	return p.Walk(ctx, p.RowStage(), scratch, func(i int) (Groups, error) {
		done := p.Done(p.RowStage(), i)
		in, err := readFrames(done, headsPath(done.Folder))
		return &headGroups{in, func(h Head) error { return take(i, h) }}, err
	})
}

// headGroups reads the frames that describe a shard's token rows, one per group, and passes them to take.
type headGroups struct {
	*FrameReader
	take func(Head) error
}

// Next passes the next frame to take. It returns io.EOF at the end.
func (p *headGroups) Next() error {
	frame, err := p.FrameReader.Next()
	if err != nil {
		return err
	}
	h, err := readHead(frame)
	if err != nil {
		return err
	}
	return p.take(h)
}

// Groups iterates over the groups of one of a shard's stages. Each call to Next handles one group, and Next returns
// io.EOF at the end.
type Groups interface {
	Next() error
	Close() error
}

// Walk opens the groups of a stage's shards, and calls Next for each group, in the order that a single run would give
// the groups. scratch is a folder for temporary files.
func (p *Parts) Walk(ctx context.Context, stage Stage, scratch string, open func(shard int) (Groups, error)) error {
	if stage == Group {
		return p.interleave(ctx, scratch, open)
	}
	return p.inOrder(ctx, open)
}

// inOrder calls Next for all groups, shard by shard.
func (p *Parts) inOrder(ctx context.Context, open func(shard int) (Groups, error)) error {
	for i := range p.Plan.Shards {
		g, err := open(i)
		if err != nil {
			return err
		}
		for err == nil {
			err = cmp.Or(ctx.Err(), g.Next())
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if err := cmp.Or(err, g.Close()); err != nil {
			return err
		}
	}
	return nil
}

// interleave opens the groups of all shards, and calls Next for each group, ordered by first member. It returns an
// error if a shard's number of groups differs from its number of positions.
func (p *Parts) interleave(ctx context.Context, scratch string, open func(shard int) (Groups, error)) (err error) {
	var all []Groups
	defer func() {
		for _, g := range all {
			err = errors.Join(err, g.Close())
		}
	}()
	for i := range p.Plan.Shards {
		g, err := open(i)
		if err != nil {
			return err
		}
		all = append(all, g)
	}
	unlike := errors.New("order.bin does not match its log: remove the shard's folder, and rerun the shard")
	for shard, err := range p.sortGroups(scratch) {
		if err = cmp.Or(err, ctx.Err()); err == nil {
			err = all[shard].Next()
		}
		if errors.Is(err, io.EOF) {
			return unlike
		}
		if err != nil {
			return err
		}
	}
	for _, g := range all {
		if err := g.Next(); !errors.Is(err, io.EOF) {
			return cmp.Or(err, unlike)
		}
	}
	return nil
}
