package finetune

import (
	"cmp"
	"context"
	"os"
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/compat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/internal/where"
)

// openDivision returns the plan of a run whose inputs will be divided among shards.
func openDivision(ctx context.Context, req Request, env stage.Env) (*plan, error) {
	p, err := newPlan(ctx, req, env)
	if err != nil {
		return nil, err
	}
	how := req.Divide
	p.division = shards.Folder(cmp.Or(how.Dir, string(p.folder)+".shards"))
	switch {
	case how.Dir == "" && p.stored != "":
		err = exit.Usagef("run's output is in object storage: specify the plan's folder with --plan-dir")
	case p.Compat == compat.NAT:
		err = exit.Usagef("--compat nat: NAT treats a collection run as one group, which can't be divided: " +
			"run it on one machine")
	case runfolder.Has(p.division.Plan()):
		err = exit.Usagef("%s already has a plan: run its shards, or choose another folder with "+
			"--plan-dir", p.division)
	case how.Number < 0 || how.Bytes < 0:
		err = exit.Usagef("--shards and --shard-bytes must be at least 1")
	case how.Number > 0 && how.Bytes > 0:
		err = exit.Usagef("--shards and --shard-bytes both set the number of shards: use one of them")
	case how.Number == 0 && how.Bytes == 0:
		err = exit.Usagef("missing number of shards: set --shards, or --shard-bytes for the bytes of input per shard")
	case how.Number > shards.MaxShards:
		err = exit.Usagef("--shards %d: a plan has at most %d", how.Number, shards.MaxShards)
	}
	return p, err
}

// divide is the stage that divides the inputs among shards and writes the plan.
func (r *run) divide(ctx context.Context) error {
	if err := r.in.CheckDivisible(); err != nil {
		return err
	}
	made := &shards.Plan{
		Version: shards.Version, NatGo: Version(), RunID: r.RunID, Tasks: r.where.Names(where.GroupFields),
	}
	for _, b := range r.plugins.Builders {
		if b.Unit == builders.UnitRun {
			return exit.Usagef("builder %s processes all examples of a collection run together, so there is nothing "+
				"to divide: run it on one machine", b.Name)
		}
		made.Tasks = made.Tasks || b.Unit == builders.UnitTask
	}
	var err error
	if made.Decided, err = r.decided(""); err != nil {
		return err
	}
	notes, err := r.in.Divide(ctx, r.Divide.Number, r.Divide.Bytes, made, r.division, r.Tell)
	if err != nil {
		return err
	}
	if made.Request, err = r.request(); err != nil {
		return err
	}
	r.sum.Planned = &Planned{Dir: r.division, Plan: made, Notes: slices.Concat(r.Warnings, notes)}
	err = os.MkdirAll(string(r.division), 0o755)
	if err == nil {
		err = r.writeConfig(r.division.Config())
	}
	if err == nil {
		err = r.division.Write(made)
	}
	return exit.Cant("write the plan", err)
}
