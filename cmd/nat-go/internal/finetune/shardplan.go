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
	tasks := r.where.Names(where.GroupFields)
	for _, b := range r.plugins.Builders {
		if b.Unit == builders.UnitRun {
			return exit.Usagef("builder %s processes all examples of a collection run together, so there is nothing "+
				"to divide: run it on one machine", b.Name)
		}
		tasks = tasks || b.Unit == builders.UnitTask
	}
	decided, err := r.decided("")
	if err != nil {
		return err
	}
	shares, err := r.in.Divide(ctx, r.Divide.Number, r.Divide.Bytes, r.division, r.Tell)
	if err != nil {
		return err
	}
	request, err := r.request()
	if err != nil {
		return err
	}
	out := &Planned{Dir: r.division, Notes: slices.Concat(r.Warnings, shares.Notes), Plan: &shards.Plan{
		Version: shards.Version, NatGo: Version(), RunID: r.RunID, Request: request, Inputs: shares.Inputs,
		Decided: decided, Tasks: tasks, Shards: shares.Shards,
	}}
	r.sum.Planned = out
	err = os.MkdirAll(string(out.Dir), 0o755)
	if err == nil {
		err = r.writeConfig(out.Dir.Config())
	}
	if err == nil {
		err = out.Dir.Write(out.Plan)
	}
	return exit.Cant("write the plan", err)
}
