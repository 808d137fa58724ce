package finetune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// divided holds the plan of a run that is divided into shards, and the shards' manifests.
type divided struct {
	dir  shards.Folder
	plan *shards.Plan
	done map[shards.Stage][]*shards.Done // manifests by stage and shard; only for the stages read so far

	mu   sync.Mutex
	rows map[int]*os.File // open files with token rows, by shard
}

// openPlan reads the plan in dir and returns the run that the plan divides into shards.
func openPlan(ctx context.Context, dir shards.Folder, env stage.Env) (*plan, error) {
	of, err := dir.Read()
	if err != nil {
		return nil, err
	}
	if of.NatGo != Version() {
		return nil, exit.Failedf("plan was made by nat-go %s; this is nat-go %s, and a data set is never "+
			"made by two versions: make a new plan, or run its shards with the version that made it", of.NatGo,
			Version())
	}
	var req Request
	if err := json.Unmarshal(of.Request, &req); err != nil {
		return nil, exit.Failedf("%s: %w", dir.Plan(), err)
	}
	config, err := durable.Open(dir.Config()) // unlike other configurations, a plan's can't be a pipe
	if err != nil {
		return nil, exit.Environmentf("can't read the plan: %w", err)
	}
	config.Close()
	req.RunID, req.ConfigFile, req.Builders, req.Overrides = of.RunID, dir.Config(), nil, nil
	p, err := newPlan(ctx, req, env)
	if err == nil {
		p.divided = &divided{
			dir: dir, plan: of, done: map[shards.Stage][]*shards.Done{}, rows: map[int]*os.File{},
		}
	}
	return p, err
}

// read reads the manifests of a stage into d.done, and returns the shards that lack one.
func (d *divided) read(stage shards.Stage) (missing []int, err error) {
	d.done[stage], missing, err = d.dir.ReadStage(d.plan, stage)
	return missing, err
}

// checkComplete reads the manifests of the stages before the merge. It returns an error that names the shards that have
// not completed a stage, if there are any.
func (d *divided) checkComplete() error {
	for _, stage := range d.plan.Stages() {
		missing, err := d.read(stage)
		if err != nil {
			return err
		}
		if len(missing) > 0 {
			return exit.Failedf("%s not built yet: %s. `nat-go shard run %s --stage %s --index I` builds one",
				shardsHave(len(missing), len(d.plan.Shards)), shards.Array(missing), d.dir, stage)
		}
	}
	return nil
}

// shardsHave returns the beginning of a sentence about n of the shards, such as "2 of the 5 shards are".
func shardsHave(n, all int) string {
	are := "are"
	if n == 1 {
		are = "is"
	}
	return fmt.Sprintf("%d of the %s %s", n, ledger.Quantity(int64(all), "shard"), are)
}

// seen returns the sum of all shards' statistics on reading.
func (d *divided) seen() (all source.Stats) {
	for _, done := range d.done[shards.Build] {
		all.Add(&done.Seen)
	}
	return all
}

// rowStage returns the stage that makes token rows.
func (d *divided) rowStage() shards.Stage {
	stages := d.plan.Stages()
	return stages[len(stages)-1]
}

// built returns the folder of a shard's stage, and its manifest.
func (d *divided) built(stage shards.Stage, shard int) (runfolder.Folder, *shards.Done) {
	return d.dir.Shard(stage, shard), d.done[stage][shard]
}

// readRow reads a token row that a shard made.
func (d *divided) readRow(row *batch.Encoded) ([]byte, error) {
	f, err := d.openRows(row.File)
	if err != nil {
		return nil, err
	}
	b := make([]byte, row.Bytes)
	if _, err := f.ReadAt(b, row.Offset); err != nil {
		return nil, shards.Damaged(f.Name(), err.Error())
	}
	if xxh3.Hash(b) != row.Sum {
		return nil, shards.Damaged(f.Name(), "invalid checksum")
	}
	return b, nil
}

// openRows opens a shard's token rows, unless they are already open.
func (d *divided) openRows(shard int) (f *os.File, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f = d.rows[shard]; f != nil {
		return f, nil
	}
	if shard < 0 || shard >= len(d.plan.Shards) {
		return nil, fmt.Errorf("unknown shard %d: the plan has %d shards", shard, len(d.plan.Shards))
	}
	folder, done := d.built(d.rowStage(), shard)
	if f, err = shards.OpenBuilt(folder, done, shards.RowsPath(folder)); err == nil {
		d.rows[shard] = f
	}
	return f, err
}

// close closes the token rows.
func (d *divided) close() {
	if d != nil {
		for _, f := range d.rows {
			f.Close()
		}
	}
}

// prepareRows renders and tokenises the shard's records, one frame for each group in its log, so that the merge doesn't
// have to. It continues after the groups that an earlier attempt prepared.
func (r sharding) prepareRows(ctx context.Context) error {
	t := r.run.tokens
	if t == nil {
		return nil
	}
	if s := r.run.plan.shard; s.stage == shards.Group {
		seen := s.seen()
		t.takePolicy(r.run.plan, &seen, true)
	}
	rows, before, err := shards.OpenPrepared(r.run.plan.folder)
	if err != nil {
		return exit.Environmentf("can't keep the token rows: %w", err)
	}
	records := make(chan int, groupsInFlight) // record counts of the groups that the collator is preparing
	err = t.collator.Prepare(ctx, r.unprepared(t, before, records), func(p collator.Prepared) error {
		return rows.Add(<-records, p.Head, p.Rows) // wait: the number of records is sent before the group
	})
	if err = errors.Join(err, rows.Close()); err != nil && ctx.Err() == nil {
		return exit.Default(exit.Environment, fmt.Errorf("can't make the token rows: %w", err))
	}
	return ctx.Err()
}

// unprepared yields the records of each group in the shard's log, except for the groups at its beginning that are
// prepared already; before is their number. Before a group's records, it sends their number to the channel records.
func (r sharding) unprepared(t *tokens, before uint64, records chan<- int) iter.Seq2[[]collator.Item, error] {
	return func(yield func([]collator.Item, error) bool) {
		c, err := recordlog.ReadCommit(r.run.plan.folder.Records())
		if err != nil {
			yield(nil, err)
			return
		}
		at := uint64(0)
		for g, err := range recordlog.Groups(r.run.plan.folder.Records()) {
			if err != nil {
				yield(nil, err)
				return
			}
			if at++; at <= before {
				continue
			}
			records <- len(g.Records) // wait: the channel has capacity for all groups that the collator accepts at once
			if !yield(t.items(g, nil), nil) {
				return
			}
			done := int64(g.First) + int64(len(g.Records))
			r.run.out.Tell(stage.Progress{Step: "tokenise", Done: done, Total: int64(c.Records), Unit: stage.UnitRecord})
		}
	}
}

// eachHead calls take for each group, in merged-log order. It passes the shard that made the group's token rows, and
// the frame that describes them.
func (m *merging) eachHead(ctx context.Context, take func(shard int, frame []byte) error) error {
	walk := m.inOrder
	if m.plan.Tasks {
		walk = m.interleave
	}
	return walk(ctx, func(i int) (groups, error) {
		folder, done := m.built(m.rowStage(), i)
		in, err := shards.ReadFrames(folder, done, shards.HeadsPath(folder))
		return &frameGroups{in, func(frame []byte) error { return take(i, frame) }}, err
	})
}

// frameGroups reads the frames that describe a shard's token rows, one per group, and passes them to take.
type frameGroups struct {
	*shards.FrameReader
	take func([]byte) error
}

// Next passes the next frame to take. It returns io.EOF at the end.
func (p *frameGroups) Next() error {
	frame, err := p.FrameReader.Next()
	if err != nil {
		return err
	}
	return p.take(frame)
}

// errEnough stops reading frames once no more are needed.
var errEnough = errors.New("enough")

// kept yields the groups of the merged log that the shards tokenised, with the decisions on their records.
func (m *merging) kept(ctx context.Context, d *curate.Decisions) iter.Seq2[collator.KeptGroup, error] {
	return func(yield func(collator.KeptGroup, error) bool) {
		first := uint64(0)
		if m.plan.Tasks { // the merged log begins with the groups of stage Build, which weren't tokenised
			for _, done := range m.done[shards.Build] {
				first += done.Records
			}
		}
		ends := make([]int64, len(m.plan.Shards))
		err := m.eachHead(ctx, func(shard int, frame []byte) error {
			h, err := shards.ReadHead(frame)
			if err != nil {
				return err
			}
			from := first
			g := collator.KeptGroup{
				Head: h.Head, File: shard, Offset: ends[shard],
				Decide: func(i int) (bool, batch.Split) { return decided(d, from+uint64(i)) },
			}
			ends[shard] += h.Rows
			first += uint64(h.Records)
			if first > d.Len() {
				return errors.New("too many records in the token rows that the shards prepared")
			}
			if !yield(g, nil) {
				return errEnough
			}
			return nil
		})
		if err == nil && first != d.Len() {
			err = errors.New("shard prepared fewer token rows than its log has records: rerun it")
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(collator.KeptGroup{}, err)
		}
	}
}

// decided converts the decision on a record for use in token batches.
func decided(d *curate.Decisions, ordinal uint64) (dropped bool, split batch.Split) {
	x := d.At(ordinal)
	if x.Validates() && !x.Trains() {
		split = batch.Validation
	}
	return !x.Kept(), split
}
