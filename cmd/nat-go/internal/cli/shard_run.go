package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/ttc/ledger"
)

func newShardRunCmd(commitBytes int64) *cobra.Command {
	index, stage := -1, string(shards.Build)
	var work string
	cmd := &cobra.Command{
		Use:   "run [PLAN] [--index I]",
		Short: "Build or continue one shard",
		Long: `Build one shard of a plan into its own folder, or continue it after the last commit of an earlier
attempt. PLAN is the folder of the plan; without it, the working folder. Run it in the folder where the plan was made,
because inputs are opened by the paths given then.

Without --index, the number comes from the first of these variables that is set; it is an error if two disagree:
NATGO_SHARD (3, or 3/7), SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX, CLOUD_RUN_TASK_INDEX, AWS_BATCH_JOB_ARRAY_INDEX.

Exit code 4 means that the same command would fail again, because the plan, a setting, a plugin or an input is wrong or
has changed. After exit code 3, the next attempt may succeed. SIGTERM stops the work after the current step, which is
kept; the exit code is then 143.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := planArg(args)
			if cmd.Flags().Changed("index") && index < 0 {
				return exit.With(exit.Final, fmt.Errorf("--index %d: shards are numbered from 0", index))
			}
			var sum *finetune.Summary
			var number int
			err := withEnv(cmd, commitBytes, func(ctx context.Context, env finetune.Env) error {
				setHeapGrowth(shardPercent, shardFloor)
				keep, err := workDir(work)
				if err != nil && dir.Remote() != nil {
					return err
				}
				c, err := copyPlan(ctx, dir, keep)
				if err != nil {
					return err
				}
				var from string
				if number, from, err = shardIndex(c.dir, index); err != nil {
					return c.withOriginalPath(err)
				}
				if !isQuiet(cmd) && from != "" {
					fmt.Fprintf(cmd.ErrOrStderr(), "shard %d, from %s\n", number, from)
				}
				sum, err = c.runShard(ctx, finetune.Shard{Plan: c.dir, Stage: shards.Stage(stage), Number: number}, env)
				c.restoreSummary(sum)
				return c.withOriginalPath(err)
			})
			if sum != nil {
				printShard(cmd, number, sum)
			}
			return withFinalCode(err)
		},
	}
	cmd.Flags().IntVar(&index, "index", -1, "number of the shard, from 0; default: from the job array's variables")
	cmd.Flags().StringVar(&stage, "stage", stage, "stage to run: build; group, for builders that need whole "+
		"tasks, once all shards are built; or write, after a merge with --leave-writing")
	workFlag(cmd.Flags(), &work)
	return cmd
}

// runShard builds a shard. If the plan is in object storage, it uploads the result, or does nothing if the shard is
// already there.
func (c *localPlan) runShard(ctx context.Context, of finetune.Shard, env finetune.Env) (*finetune.Summary, error) {
	req := finetune.Request{Shard: &of}
	if c.remote == nil {
		env.Runs = runsOf(c.dir)
		return finetune.Run(ctx, req, env)
	}
	if done, err := c.remote.IsDone(ctx, c.plan, of.Stage, of.Number); err != nil {
		return finetune.Failed(req, err)
	} else if done {
		sum, _ := finetune.Failed(req, errBuilt)
		sum.Status, sum.Error, sum.Warnings = runfolder.Completed, "", []string{finetune.AlreadyBuilt(of.Stage)}
		return sum, nil
	}
	if err := c.remote.FetchFor(ctx, c.dir, c.plan, of.Stage, of.Number); err != nil {
		return finetune.Failed(req, err)
	}
	sum, err := finetune.Run(ctx, req, env)
	if err != nil {
		return sum, err
	}
	if err := c.remote.SendShard(ctx, c.dir, c.plan, of.Stage, of.Number); err != nil {
		sum.Status, sum.Error = runfolder.Failed, err.Error()
		return sum, err
	}
	// If builders need whole tasks, other processes on this machine may be in the group stage and reading the copies of
	// built shards.
	if !c.plan.Tasks || of.Stage == shards.Group {
		err = os.RemoveAll(string(c.dir.Shard(of.Stage, of.Number)))
	}
	return sum, err
}

var errBuilt = errors.New("shard is done")

// shardIndex returns the number of the shard and where it came from. The number is index or, if that is negative, the
// value of an environment variable, whose name is returned as from.
func shardIndex(dir shards.Folder, index int) (number int, from string, err error) {
	if index >= 0 {
		return index, "", nil
	}
	plan, err := dir.Read()
	if err != nil {
		return 0, "", err
	}
	number, from, err = shards.Index(os.LookupEnv, len(plan.Shards))
	return number, from, exit.Default(exit.Usage, err)
}

func printShard(cmd *cobra.Command, number int, s *finetune.Summary) {
	out := cmd.OutOrStdout()
	if asJSON(cmd) {
		about := map[string]any{"shard": number, "status": s.Status, "counts": s.Counts, "error": s.Error}
		if s.Share != nil {
			about["written"] = s.Share
		}
		_ = json.NewEncoder(out).Encode(about)
		return
	}
	if isQuiet(cmd) {
		return
	}
	for _, w := range s.Warnings {
		fmt.Fprintf(out, "  warning  %s\n", w)
	}
	if s.RunID == "" || s.Status != runfolder.Completed { // nothing was built here, or the shard isn't complete
		fmt.Fprintf(out, "shard %d  %s\n", number, s.Status)
		return
	}
	what := ledger.Quantity(s.Counts.Examples, "example") + ", " + ledger.Quantity(s.Counts.Records, "record")
	if w := s.Share; w != nil {
		if what = ledger.Quantity(w.Rows, "row") + " written"; w.Batches > 0 {
			what = ledger.Quantity(w.Rows, "row") + " and " + ledger.Quantity(w.Batches, "token batch") + " written"
		}
	}
	fmt.Fprintf(out, "shard %d  %s: %s\n", number, s.Status, what)
}

func newShardStatusCmd() *cobra.Command {
	var stage string
	var perTask int
	cmd := &cobra.Command{
		Use:   "status [PLAN]",
		Short: "List the shards not built yet, as an array expression",
		Long: `List the shards of a plan that are not built yet, in the form schedulers accept: 3,7-9. With --quiet,
nothing else is printed, as in sbatch --array=$(nat-go shard status -q PLAN).`,
		Args: cobra.MaximumNArgs(1),
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
				for i := range missing { // the array task that builds the shard
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

// shardStates examines a plan's shards: in one stage or, if stage is empty, in all stages up to the first that isn't
// done. For a plan in object storage, it downloads the shards' manifests.
func shardStates(ctx context.Context, dir shards.Folder, stage string) (p *shards.Plan, s []*shards.State, err error) {
	err = withPlan(ctx, dir, "", func(c *localPlan) (err error) {
		p, s, err = lookAt(ctx, c, stage)
		return err
	})
	return p, s, err
}

func lookAt(ctx context.Context, c *localPlan, stage string) (*shards.Plan, []*shards.State, error) {
	plan, err := c.dir.Read()
	if err != nil {
		return nil, nil, err
	}
	if c.remote != nil {
		if _, err := c.remote.FetchCut(ctx, c.dir, plan); err != nil {
			return nil, nil, err
		}
	}
	stages := plan.Stages()
	if c.dir.HasCut() {
		stages = append(stages, shards.Write)
	}
	if stage != "" {
		if err := plan.CheckStage(shards.Stage(stage)); err != nil {
			return nil, nil, exit.With(exit.Usage, err)
		}
		stages = []shards.Stage{shards.Stage(stage)}
	}
	var states []*shards.State
	for _, x := range stages {
		if c.remote != nil {
			if err := c.remote.FetchDone(ctx, c.dir, plan, x); err != nil {
				return nil, nil, err
			}
		}
		s, err := c.dir.Look(plan, x)
		if err != nil {
			return nil, nil, exit.With(exit.Failed, err)
		}
		if states = append(states, s); len(s.Missing) > 0 { // the next stage waits for this one
			break
		}
	}
	return plan, states, nil
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
