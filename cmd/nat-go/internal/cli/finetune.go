package cli

import "github.com/spf13/cobra"

func newFinetuneCmd(commitBytes int64) *cobra.Command {
	cmd := &cobra.Command{Use: "finetune", Short: "Build data sets, run training jobs and manage them"}
	cmd.AddCommand(newFinetuneRunCmd(commitBytes), newFinetuneResumeCmd(commitBytes),
		readsStored(newFinetuneStatusCmd()), newFinetuneWaitCmd(), newFinetuneCancelCmd(), newFinetuneListCmd())
	return cmd
}
