package finetune

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// divided is a run that is made in shards: its plan, and what they have built.
type divided struct {
	dir  shards.Folder
	plan *shards.Plan
	done map[shards.Stage][]*shards.Done // by shard, for the stages that were read
}

// openPlan reads a plan and its description of the run.
func openPlan(ctx context.Context, dir shards.Folder, env Env) (*plan, error) {
	of, err := dir.Read()
	if err != nil {
		return nil, err
	}
	if of.NatGo != Version() {
		return nil, exit.Failedf("plan was made by nat-go %s; this is nat-go %s, and a data set is never "+
			"made by two versions: make the plan again, or run its shards with the version that made it", of.NatGo,
			Version())
	}
	var req Request
	if err := json.Unmarshal(of.Request, &req); err != nil {
		return nil, exit.Failedf("%s: %w", dir.Plan(), err)
	}
	config, err := durable.Open(dir.Config()) // a configuration may come through a pipe, but a plan's may not
	if err != nil {
		return nil, exit.Environmentf("can't read the plan: %w", err)
	}
	config.Close()
	req.RunID, req.ConfigFile, req.Builders, req.Overrides = of.RunID, dir.Config(), nil, nil
	p, err := newPlan(ctx, req, env)
	if err == nil {
		p.divided = &divided{dir: dir, plan: of, done: map[shards.Stage][]*shards.Done{}}
	}
	return p, err
}

// read reads the manifests of a stage, and returns the shards that have none.
func (d *divided) read(stage shards.Stage) (missing []int, err error) {
	d.done[stage] = nil
	for i := range d.plan.Shards {
		done, err := d.dir.ReadDone(d.plan, stage, i)
		if err != nil {
			return nil, exit.With(exit.Failed, err)
		}
		if done == nil {
			missing = append(missing, i)
		}
		d.done[stage] = append(d.done[stage], done)
	}
	return missing, nil
}

// complete refuses to continue while shards are missing, naming them.
func (d *divided) complete() error {
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

// shardsHave returns the subject and verb of a sentence about n of the shards.
func shardsHave(n, all int) string {
	are := "are"
	if n == 1 {
		are = "is"
	}
	return fmt.Sprintf("%d of the %s %s", n, ledger.Quantity(int64(all), "shard"), are)
}

// seen returns the combined statistics of what all shards have read.
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
