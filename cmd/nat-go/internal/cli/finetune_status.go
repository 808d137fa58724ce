package cli

import (
	"github.com/spf13/cobra"
)

func newFinetuneStatusCmd() *cobra.Command {
	var dirs []string
	var offline bool
	cmd := &cobra.Command{
		Use:   "status RUN",
		Short: "Show the state of a run's job",
		Long: `Show the state of a run's job. Only the run folder is needed, so this also works on another machine. RUN is a run
folder or a run id.

The trainer is queried once; secrets are read from the environment, as for the run. If the trainer can't be reached, the
last known state is shown and the exit code is 3.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, j, err := loadJob(args[0], dirs)
			if err != nil || offline {
				if j != nil {
					return report(cmd, dir, j, err)
				}
				return err
			}
			c, err := openJob(dir, j, cmd)
			if err == nil {
				defer closeAdapter(c.Adapter)
				err = c.Refresh(cmd.Context(), j)
			}
			return report(cmd, dir, j, err)
		},
	}
	addOutputDirs(cmd, &dirs)
	cmd.Flags().BoolVar(&offline, "offline", false, "show the last known state without asking the trainer")
	return cmd
}
