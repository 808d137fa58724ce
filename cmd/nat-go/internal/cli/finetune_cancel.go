package cli

import (
	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/jobs"
)

func newFinetuneCancelCmd() *cobra.Command {
	var dirs []string
	cmd := &cobra.Command{
		Use:   "cancel RUN",
		Short: "Cancel a run's job",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withJob(cmd, args[0], dirs, func(c *jobs.Client, j *jobs.Job) error {
				if err := c.Cancel(cmd.Context(), j); err != nil {
					return err
				}
				return c.Refresh(cmd.Context(), j)
			})
		},
	}
	addOutputDirs(cmd, &dirs)
	return cmd
}
