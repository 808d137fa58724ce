package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/jobs"
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
