package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
)

func newShardMergeCmd(commitBytes int64) *cobra.Command {
	var how finetune.Request
	var work string
	cmd := &cobra.Command{
		Use:   "merge [PLAN]",
		Short: "Merge the built shards into the run",
		Long: `Merge the output of a plan's shards, decide on all records, and write the data set and the token
batches: the run folder that one machine would have produced. An interrupted merge continues; a merge with missing
shards is refused, and the error names them.

With --leave-writing, it decides, assigns rows to token batches, and divides the writing between the shards:
` + "`shard run --stage write`" + ` writes one shard's share, and running merge again puts the shares together. The data
set is the same, byte for byte.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withRun(cmd, commitBytes, func(ctx context.Context, env finetune.Env) (*finetune.Summary, error) {
				setHeapGrowth(shardPercent, shardFloor)
				how.Merge = planArg(args)
				return mergeShards(ctx, work, how, env)
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&how.LeaveWriting, "leave-writing", false,
		"divide the writing between the shards instead of writing here")
	f.BoolVar(&how.DryRun, "dry-run", false, "write the data set but submit nothing")
	f.BoolVar(&how.Detach, "detach", false, "submit the job and don't wait for it")
	workFlag(f, &work)
	return cmd
}

// mergeShards merges the shards of a plan. If the plan is in object storage, it downloads their files first.
func mergeShards(
	ctx context.Context, work string, how finetune.Request, env finetune.Env,
) (sum *finetune.Summary, err error) {
	err = withPlan(ctx, how.Merge, work, func(c *localPlan) (err error) {
		if c.remote == nil {
			env.Runs = runsOf(c.dir)
			sum, err = finetune.Run(ctx, how, env)
			return err
		}
		if err := c.remote.FetchBuilt(ctx, c.dir, c.plan); err != nil {
			return err
		}
		divided := c.dir.HasCut()
		how.Merge = c.dir
		if sum, err = finetune.Run(ctx, how, env); err == nil && how.LeaveWriting && !divided {
			err = c.remote.SendCut(ctx, c.dir, c.plan, runfolder.Folder(sum.RunDir))
		}
		c.restoreSummary(sum)
		return err
	})
	if sum == nil && err != nil {
		return finetune.Failed(how, err)
	}
	return sum, err
}
