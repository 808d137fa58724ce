package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/jobs"
	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/internal/terminal"
)

func newFinetuneWaitCmd() *cobra.Command {
	var dirs []string
	cmd := &cobra.Command{
		Use:   "wait RUN",
		Short: "Wait for a run's job to end, including deployment",
		Long: `Wait for a run's job to end. Only the run folder is needed, so this also works on another machine. RUN is a run
folder or a run id.

An interrupt leaves the job running; a second one within three seconds cancels it. The exit code is 0 if the job was
completed, 1 if it failed or was cancelled, 3 if it could not be followed to its end.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withJob(cmd, args[0], dirs, func(c *jobs.Client, j *jobs.Job) error {
				c.Watch = printUpdates(cmd.ErrOrStderr())
				c.Output = func(b []byte) { _, _ = io.WriteString(cmd.ErrOrStderr(), secret.Shape(terminal.Output(b))) }
				leave, stop := leaveOnSignals(cmd)
				defer stop()
				leave.Told = func() { // a second interrupt cancels the job
					fmt.Fprintf(cmd.ErrOrStderr(), "\nleaving job %s running; interrupt again within %s to cancel it\n",
						j.Ref.ID, jobs.Grace)
				}
				return c.Wait(cmd.Context(), j, leave)
			})
		},
	}
	addOutputDirs(cmd, &dirs)
	return cmd
}
