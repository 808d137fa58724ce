package cli

import (
	"github.com/spf13/cobra"
)

// newFinetuneCancelCmd cancels a run's job.
func newFinetuneCancelCmd() *cobra.Command {
	var f jobFlags
	cmd := &cobra.Command{
		Use:   "cancel RUN",
		Short: "Cancel a run's job",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, j, err := f.load(args[0])
			if err != nil {
				return err
			}
			c, err := openJob(dir, j, cmd)
			if err != nil {
				return err
			}
			defer closeAdapter(c.Adapter)
			if err := c.Cancel(cmd.Context(), j); err != nil {
				return f.report(cmd.OutOrStdout(), dir, j, err)
			}
			return f.report(cmd.OutOrStdout(), dir, j, c.Refresh(cmd.Context(), j))
		},
	}
	f.add(cmd)
	return cmd
}
