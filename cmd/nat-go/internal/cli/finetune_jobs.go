package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/jobs"
	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/internal/terminal/columns"
)

var defaultOutputDirs = []string{"out", ".tmp/nat/finetuning"}

// addOutputDirs adds the flag for the folders that contain runs. The defaults are out, where runs without a
// configuration are written, and NAT's default output_dir.
func addOutputDirs(cmd *cobra.Command, dirs *[]string) {
	cmd.Flags().StringArrayVar(dirs, "output-dir", defaultOutputDirs,
		"folder in which run ids are looked up (repeatable)")
}

// loadJob finds a run, which may be an id in one of the folders, and reads its job.
func loadJob(run string, outputDirs []string) (runfolder.Folder, *jobs.Job, error) {
	dir, err := runfolder.Find(run, outputDirs...)
	if err != nil {
		return "", nil, err
	}
	j, err := jobs.Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return dir, nil, exit.Failedf("no job in run %s: the run ended before submitting a job, or was a dry run; "+
			"`nat-go finetune resume %s` continues it", run, dir)
	}
	return dir, j, err
}

// openJob returns the client for a run's job.
func openJob(dir runfolder.Folder, j *jobs.Job, cmd *cobra.Command) (*jobs.Client, error) {
	return finetune.OpenJob(dir, j, finetune.Env{
		Secrets: hide(cmd), Log: zerolog.New(console(cmd.ErrOrStderr())).With().Timestamp().Logger(),
		Findings: findingsPrinter(cmd),
	})
}

// withJob opens a run's job, calls do with it, and reports the job together with do's error.
func withJob(cmd *cobra.Command, run string, outputDirs []string, do func(*jobs.Client, *jobs.Job) error) error {
	dir, j, err := loadJob(run, outputDirs)
	if err != nil {
		return err
	}
	c, err := openJob(dir, j, cmd)
	if err != nil {
		return err
	}
	defer closeAdapter(c.Adapter)
	return report(cmd, dir, j, do(c, j))
}

// jobReport is the --json output of commands that deal with a job.
type jobReport struct {
	RunID  string         `json:"run_id"`
	Status trainers.State `json:"status"`
	RunDir string         `json:"run_dir"`
	Job    *jobs.Job      `json:"job"`
	Error  string         `json:"error,omitempty"`
}

// report prints the state of a job. With --json, it includes failure if that isn't nil. It returns failure, joined with
// any printing error.
func report(cmd *cobra.Command, dir runfolder.Folder, j *jobs.Job, failure error) error {
	r := jobReport{RunID: j.RunID, Status: j.State(), RunDir: string(dir), Job: j}
	if failure != nil {
		r.Error = failure.Error()
	}
	return errors.Join(failure, printText(cmd, r, func(int) string { return describeJob(dir, j) }))
}

func describeJob(dir runfolder.Folder, j *jobs.Job) string {
	s := fmt.Sprintf("run      %s\nfolder   %s\nadapter  %s\nphase    %s\nstatus   %s", j.RunID, dir, j.Adapter, j.Phase, j.State())
	if j.Status.Progress != nil {
		s += fmt.Sprintf(", %.1f%%", *j.Status.Progress)
	}
	s += "\n"
	if j.Ref != nil {
		s += fmt.Sprintf("job      %s at %s, submitted %s\n", j.Ref.ID, j.Ref.Backend,
			j.SubmittedAt.Format(time.RFC3339))
		if m := j.Ref.Metadata["output_model"]; m != "" {
			s += "model    " + m + "\n"
		}
	}
	for _, line := range []string{j.Status.Message, j.Status.Detail, j.Error} {
		if line != "" {
			s += "         " + line + "\n"
		}
	}
	return s
}

// closeAdapter closes an adapter if it has a method for that.
func closeAdapter(a trainers.Adapter) {
	if c, ok := a.(interface{ Close() }); ok {
		c.Close()
	}
}

// printUpdates returns a function that prints a job's updates: every change of state, and other updates at most every
// 10 seconds.
func printUpdates(w io.Writer) func(jobs.Update) {
	var last time.Time
	var state trainers.State
	return func(u jobs.Update) {
		if now := time.Now(); u.Status.State != state || now.Sub(last) >= 10*time.Second {
			last, state = now, u.Status.State
			fmt.Fprintln(w, u)
		}
	}
}

// leaveSignals are the signals that end a command early.
var leaveSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

// leaveOnSignals interprets these signals as requests to leave a job, until stop is called.
func leaveOnSignals(cmd *cobra.Command) (leave *jobs.Leave, stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, leaveSignals...)
	ctx, cancel := context.WithCancel(cmd.Context())
	leave = jobs.NewLeave(ctx, signals)
	leave.Forced = func() { force(cmd.ErrOrStderr(), leave) }
	return leave, func() { signal.Stop(signals); cancel() }
}

// force ends the program as a kill would: the system releases its resources, and a run in progress can be resumed. It
// waits at most a second for its message to be written, because the terminal itself may be hanging.
func force(stderr io.Writer, leave *jobs.Leave) {
	told := make(chan struct{})
	go func() {
		fmt.Fprintln(stderr, "ended immediately at the third signal; unfinished work can be resumed")
		close(told)
	}()
	select {
	case <-told:
	case <-time.After(time.Second):
	}
	os.Exit(leave.Code())
}

func newFinetuneListCmd() *cobra.Command {
	var dirs []string
	cmd := &cobra.Command{
		Use:   "list [FOLDER...]",
		Short: "List runs with the last known state of their jobs",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, folders []string) error {
			if len(folders) == 0 {
				folders = dirs
			}
			list, err := jobs.List(folders...)
			if err != nil {
				return err
			}
			t := &columns.Table{}
			t.Add("RUN", "STATUS", "ADAPTER", "PHASE", "LAST HEARD", "JOB")
			for _, e := range list {
				t.Add(listLine(e)...)
			}
			return printText(cmd, map[string]any{"runs": list}, t.Text)
		},
	}
	addOutputDirs(cmd, &dirs)
	return cmd
}

func listLine(e jobs.Entry) []string {
	run := terminal.Line(e.RunID)
	switch {
	case e.Error != "":
		return []string{run, "unreadable", "-", "-", "-", terminal.Line(e.Error)}
	case e.Job == nil:
		return []string{run, e.Status, "-", "-", "-", "-"}
	}
	id := "-"
	if e.Job.Ref != nil {
		id = e.Job.Ref.ID
	}
	at := e.Job.UpdatedAt.UTC().Format("2006-01-02 15:04Z")
	return []string{
		run, string(e.Job.State()), terminal.Line(strings.TrimSuffix(e.Job.Adapter, "_trainer_adapter")),
		string(e.Job.Phase), at, terminal.Line(id),
	}
}

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
