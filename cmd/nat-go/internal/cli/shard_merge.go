package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
)

func newShardMergeCmd(commitBytes int64) *cobra.Command {
	var how finetune.Request
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "merge [PLAN]",
		Short: "Make the run of the shards that were built",
		Long: `Join what the shards of a plan built, decide on all records, and write the data set and the token
batches: the run folder that one machine would have made. A merge that was interrupted goes on; one with shards
missing is refused, naming them.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withRun(
				cmd,
				commitBytes,
				asJSON,
				func(ctx context.Context, env finetune.Env) (*finetune.Summary, error) {
					return finetune.MergeShards(ctx, planArg(args), how, env)
				},
			)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&how.DryRun, "dry-run", false, "write the data set and submit nothing")
	f.BoolVar(&how.Detach, "detach", false, "submit the job and don't wait for it")
	f.BoolVar(&asJSON, "json", false, "print one JSON object, last, on standard output")
	return cmd
}
