package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/ttc/ledger"
)

func newShardRunCmd(commitBytes int64) *cobra.Command {
	index, stage := -1, string(shards.Build)
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "run [PLAN] [--index I]",
		Short: "Build one shard, or go on with it",
		Long: `Build one shard of a plan into its own folder, or go on with it after the last commit of an earlier
attempt. PLAN is the folder of the plan; without it, the working folder. Call it where the plan was made: inputs are
found as they were named.

Without --index the shard is named by the first of these variables that is set; two that disagree are an error:
NATGO_SHARD (3, or 3/7), SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX, CLOUD_RUN_TASK_INDEX, AWS_BATCH_JOB_ARRAY_INDEX.

Exit code 4: the same command would fail again - the plan, a setting, a plugin or an input is not what it was, or is
wrong. With code 3 it may succeed the next time. SIGTERM stops the work after what is at hand, which is kept: exit
code 143.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := planArg(args)
			if cmd.Flags().Changed("index") && index < 0 {
				return exit.With(exit.Final, fmt.Errorf("--index %d: shards are numbered from 0", index))
			}
			number, from, err := shardIndex(dir, index)
			if err != nil {
				return final(err)
			}
			if !isQuiet(cmd) && from != "" {
				fmt.Fprintf(cmd.ErrOrStderr(), "shard %d, as %s says\n", number, from)
			}
			var sum *finetune.Summary
			err = withEnv(cmd, commitBytes, func(ctx context.Context, env finetune.Env) (err error) {
				sum, err = finetune.RunShard(ctx, dir, shards.Stage(stage), number, env)
				return err
			})
			if sum != nil {
				printShard(cmd, number, sum, asJSON)
			}
			return final(err)
		},
	}
	cmd.Flags().IntVar(&index, "index", -1, "number of the shard, from 0; default: as the job array says")
	cmd.Flags().StringVar(&stage, "stage", stage,
		"build, or group: for builders that take tasks, once all shards have done the first")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object, last, on standard output")
	return cmd
}

// shardIndex is the number of the shard: index, else what the environment says, and which variable of it.
func shardIndex(dir shards.Folder, index int) (number int, from string, err error) {
	if index >= 0 {
		return index, "", nil
	}
	plan, err := dir.Read()
	if err != nil {
		return 0, "", err
	}
	number, from, err = shards.Index(os.LookupEnv, len(plan.Shards))
	return number, from, exitUsage(err)
}

func exitUsage(err error) error {
	if err == nil {
		return nil
	}
	return exit.With(exit.Usage, err)
}

func printShard(cmd *cobra.Command, number int, s *finetune.Summary, asJSON bool) {
	out := cmd.OutOrStdout()
	if asJSON {
		_ = json.NewEncoder(out).Encode(map[string]any{
			"shard": number, "status": s.Status, "counts": s.Counts, "error": s.Error,
		})
		return
	}
	if isQuiet(cmd) {
		return
	}
	for _, w := range s.Warnings {
		fmt.Fprintf(out, "  warning  %s\n", w)
	}
	fmt.Fprintf(out, "shard %d  %s: %s, %s\n", number, s.Status, ledger.Quantity(s.Counts.Examples, "example"),
		ledger.Quantity(s.Counts.Records, "record"))
}
