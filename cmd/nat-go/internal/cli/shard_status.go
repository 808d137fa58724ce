package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/ttc/ledger"
)

func newShardStatusCmd() *cobra.Command {
	var stage string
	var perTask int
	cmd := &cobra.Command{
		Use:   "status [PLAN]",
		Short: "List the shards not built yet, as an array expression",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if perTask < 1 {
				return exit.Usagef("--per-task %d: an array task builds at least one shard", perTask)
			}
			dir := planArg(args)
			plan, states, err := shardStates(cmd.Context(), dir, stage)
			if err != nil {
				return err
			}
			if perTask > 1 {
				missing := states[len(states)-1].Missing
				for i := range missing { // replace the shard's number with the number of the array task that builds it
					missing[i] /= perTask
				}
				fmt.Fprintln(cmd.OutOrStdout(), shards.Array(missing))
				return nil
			}
			return printShards(cmd, dir, plan, states)
		},
	}
	cmd.Flags().StringVar(&stage, "stage", "",
		"list only this stage: build, group or write; default: all up to the first that isn't done")
	cmd.Flags().IntVar(&perTask, "per-task", 1,
		"print the missing array tasks instead of shards, for tasks that build this many shards each; tasks are numbered from 0")
	return cmd
}

// shardStates examines a plan's shards in one stage or, if stage is empty, in all stages up to the first that isn't
// done. For a plan in object storage, it downloads the shards' manifests.
func shardStates(ctx context.Context, dir shards.Folder, stage string) (p *shards.Plan, s []*shards.State, err error) {
	err = withPlan(ctx, dir, "", func(c *shards.Parts) (err error) {
		p, s, err = lookAt(ctx, c, stage)
		return err
	})
	return p, s, err
}

func lookAt(ctx context.Context, c *shards.Parts, stage string) (*shards.Plan, []*shards.State, error) {
	parts, err := c.Dir.Open()
	if err != nil {
		return nil, nil, err
	}
	if _, err := c.FetchCut(ctx); err != nil {
		return nil, nil, err
	}
	stages := parts.Plan.Stages()
	if c.Dir.HasCut() {
		stages = append(stages, shards.Write)
	}
	if stage != "" {
		if err := parts.Plan.CheckStage(shards.Stage(stage)); err != nil {
			return nil, nil, exit.With(exit.Usage, err)
		}
		stages = []shards.Stage{shards.Stage(stage)}
	}
	var states []*shards.State
	for _, x := range stages {
		if err := c.FetchDone(ctx, x); err != nil {
			return nil, nil, err
		}
		s, err := parts.Look(x)
		if err != nil {
			return nil, nil, err
		}
		if states = append(states, s); len(s.Missing) > 0 { // later stages can't start before this one is done
			break
		}
	}
	return parts.Plan, states, nil
}

func printShards(cmd *cobra.Command, dir shards.Folder, plan *shards.Plan, states []*shards.State) error {
	out, last := cmd.OutOrStdout(), states[len(states)-1]
	missing := shards.Array(last.Missing)
	switch {
	case asJSON(cmd):
		return json.NewEncoder(out).Encode(map[string]any{
			"shards": len(plan.Shards), "stage": last.Stage, "missing": missing, "stages": states,
		})
	case isQuiet(cmd):
		fmt.Fprintln(out, missing)
		return nil
	}
	n := ledger.Quantity(int64(len(plan.Shards)), "shard")
	for _, s := range states {
		fmt.Fprintf(out, "run %s, stage %s: %d of %s done\n", plan.RunID, s.Stage, len(s.Done), n)
		if len(s.Running) > 0 {
			fmt.Fprintf(out, "  running  %s\n", shards.Array(s.Running))
		}
	}
	switch stages := plan.Stages(); {
	case missing != "":
		fmt.Fprintf(out, "  missing  %s\n", missing)
	case last.Stage == stages[len(stages)-1] || last.Stage == shards.Write:
		fmt.Fprintf(out, "  next     nat-go shard merge %s\n", dir)
	}
	return nil
}
