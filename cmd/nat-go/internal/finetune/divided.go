package finetune

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
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
func openPlan(ctx context.Context, dir shards.Folder, env Env) (*plan, error) {
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
