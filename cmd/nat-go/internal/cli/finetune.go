package cli

import (
	"context"
	"encoding/json"
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
	"github.com/spf13/pflag"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/compat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/train"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/jobs"
	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/internal/terminal/columns"
)

// requestFlags are the flags that run and shard plan share.
type requestFlags struct {
	finetune.Request
	mode string
	seed int64
}

// runFlags are the flags of run.
type runFlags struct {
	requestFlags
	timeout int
}

func newFinetuneRunCmd(commitBytes int64) *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run [FILE ...] [--config-file FILE]",
		Short: "Build a data set from an agent's run and train on it",
		RunE: func(cmd *cobra.Command, files []string) error {
			flags.complete(cmd, files)
			if len(flags.From) == 0 && flags.ConfigFile == "" && flags.Endpoint == "" {
				return exit.Usagef("%s", whatToRun)
			}
			return withRun(cmd, commitBytes, flags.run)
		},
	}
	flags.register(cmd)
	return cmd
}

// whatToRun lists the possible inputs for a run.
const whatToRun = `missing input; use one of:
  nat-go run FILE...             files or folders of conversations, scored answers, pairs; - for standard input
  nat-go run --config-file FILE  a configuration; nat-go init FILE writes one
  nat-go run --endpoint URL      answers from a nat serve, with --dataset FILE for the questions
nat-go inspect FILE describes the content of a file; nat-go run --help lists the flags`

func (r *runFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	r.add(f)
	f.StringVar(&r.Endpoint, "endpoint", "", "collect answers from the nat serve at this address instead of reading inputs")
	f.IntVar(&r.timeout, "endpoint-timeout", 300, "time limit for the endpoint per question, in seconds")
	f.StringVar(&r.Dataset, "dataset", "", "questions for --endpoint: .json, .jsonl or .csv; default: the ones in eval.general.dataset")
	f.StringArrayVar(&r.Builders, "builder", nil,
		"use only this builder: an entry of trajectory_builders, dpo, sft, or a builder's type (repeatable); default: the one that suits the input")
	f.StringVar(&r.OutputDir, "output-dir", "", "where run folders are created; default: finetuning.output_dir")
	f.StringVar(&r.mode, "compat", "", "compatibility mode: nat writes what NAT writes, byte for byte, bugs included")
	f.BoolVar(&r.Plan, "plan", false, "read the inputs and report what the run would produce, without writing anything")
	f.Int64Var(&r.Limit, "limit", 0, "read at most this many examples from each input; 0: all")
	f.BoolVar(&r.DryRun, "dry-run", false, "write the data set but don't submit a job")
	f.BoolVar(&r.Detach, "detach", false, "submit the job and don't wait for it")
	f.StringVar(&r.Metrics, "metrics", "", "write the run's counters to this file as Prometheus text")
}

func (r *requestFlags) add(f *pflag.FlagSet) {
	f.StringVar(&r.ConfigFile, "config-file", "", "configuration: a NAT file, or a nat-go file with base: nat.yml")
	f.StringArrayVarP(&r.Overrides, "override", "o", nil, "override a setting: PATH=VALUE or PATH VALUE (repeatable)")
	f.StringArrayVar(&r.From, "from", nil, "input file, folder, pattern or object (s3://...) (repeatable); each file is a collection run")
	inputFlags(f, &r.Source, &r.Map)
	f.StringArrayVar(&r.Formats, "format", nil, "row format to write (repeatable); see nat-go formats")
	f.StringVar(&r.Adapter, "trainer-adapter", "", "entry of trainer_adapters to use; files: only write the data set")
	f.StringVar(&r.RunID, "run-id", "", "name of the run and its folder; default: the time and a random part")
	f.Int64Var(&r.seed, "seed", 0, "seed for sampling and splitting; overrides dataset.split.seed")
	f.StringVar(&r.Now, "now", "", "time that strftime_now returns in chat templates; the clock is never read")
}

// complete adds to the request the files that a command names, and the flags without a field in the request.
func (r *requestFlags) complete(cmd *cobra.Command, files []string) {
	r.From = append(r.From, files...)
	if cmd.Flags().Changed("seed") {
		r.Seed = &r.seed
	}
}

// run starts the run that the flags describe.
func (r *runFlags) run(ctx context.Context, env stage.Env) (*finetune.Summary, error) {
	r.EndpointTimeout = time.Duration(r.timeout) * time.Second
	var err error
	switch r.Compat, err = compat.Parse(r.mode); {
	case err != nil:
		return finetune.Failed(r.Request, exit.With(exit.Usage, err))
	case r.timeout < 1:
		return finetune.Failed(r.Request, exit.Usagef("--endpoint-timeout %d: must be at least one second", r.timeout))
	}
	return finetune.Run(ctx, r.Request, env)
}

// runRequest runs a request, and prints the summary.
func runRequest(cmd *cobra.Command, commitBytes int64, r *finetune.Request) error {
	return withRun(cmd, commitBytes, func(ctx context.Context, env stage.Env) (*finetune.Summary, error) {
		return finetune.Run(ctx, *r, env)
	})
}

// withRun calls run through withEnv and prints the summary that run returns.
func withRun(
	cmd *cobra.Command, commitBytes int64,
	run func(context.Context, stage.Env) (*finetune.Summary, error),
) error {
	var sum *finetune.Summary
	var found []finding.Finding
	err := withEnv(cmd, commitBytes, func(ctx context.Context, env stage.Env) (err error) {
		tell := env.Findings
		env.Findings = func(fs []finding.Finding) { found = append(found, fs...); tell(fs) }
		sum, err = run(ctx, env)
		return err
	})
	switch {
	case sum == nil: // withEnv failed before it called run
		return err
	case asJSON(cmd):
		sum.Findings = found
		if perr := json.NewEncoder(cmd.OutOrStdout()).Encode(sum); perr != nil && err == nil {
			err = perr
		}
		return err
	case isQuiet(cmd): // for scripts: RUN=$(nat-go run -q ...)
		if sum.RunDir != "" && err == nil {
			fmt.Fprintln(cmd.OutOrStdout(), sum.RunDir)
		}
		return err
	}
	if out := cmd.OutOrStdout(); sum.RunDir != "" {
		_ = finetune.WriteSummary(out, sum, finetune.Look{Width: terminal.Width(out), Color: colored(out)})
	}
	return err
}

// withEnv calls a run, or part of one, with this process's environment. If the process received a signal, an error gets
// the exit code for that signal.
func withEnv(cmd *cobra.Command, commitBytes int64, run func(context.Context, stage.Env) error) error {
	setHeapGrowth(68, runFloor)
	leave, stop := leaveOnSignals(cmd)
	defer stop()
	stderr := cmd.ErrOrStderr()
	leave.Told = func() { fmt.Fprintln(stderr, "leaving the job running; interrupt again to cancel it") }
	ctx, end := leave.Context(cmd.Context())
	defer end()

	self, err := os.Executable()
	if err != nil {
		return exit.Environmentf("cannot find this program's own file: %w", err)
	}
	progress := newProgress(cmd)
	printed := func(b []byte) {
		progress.end()
		_, _ = io.WriteString(stderr, secret.Shape(terminal.Output(b)))
	}
	err = run(ctx, stage.Env{
		Secrets: hide(cmd), Output: printed, Log: newLogger(cmd), Self: self, Now: time.Now, Getenv: os.LookupEnv,
		Leave: leave, Progress: progress.show, Collating: whileCollating, CommitBytes: commitBytes,
		Findings: findingsPrinter(cmd),
	})
	progress.end()
	if code := leave.Code(); code != 0 && err != nil {
		err = exit.With(code, err)
	}
	return err
}

func newFinetuneResumeCmd(commitBytes int64) *cobra.Command {
	var how finetune.Request
	cmd := withOutputDirs(&cobra.Command{
		Use:   "resume RUN",
		Short: "Continue an interrupted run, or submit a data set that was not accepted",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if how.Resume, err = runNamed(cmd, args[0]); err != nil {
				return err
			}
			return runRequest(cmd, commitBytes, &how)
		},
	})
	cmd.Flags().BoolVar(&how.Detach, "detach", false, "submit the job and don't wait for it")
	cmd.Flags().StringArrayVarP(&how.Overrides, "override", "o", nil, "override a setting of the run: PATH=VALUE or PATH VALUE (repeatable)")
	cmd.Flags().StringArrayVar(&how.Accept, "accept-changed", nil, "continue although this, named as in the error, has changed (repeatable)")
	return cmd
}

var defaultOutputDirs = []string{"out", ".tmp/nat/finetuning"}

// withOutputDirs adds the flag for the folders that contain runs. The defaults are "out", which contains runs without
// a configuration, and NAT's default output_dir.
func withOutputDirs(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringArray("output-dir", defaultOutputDirs, "folder in which run ids are looked up (repeatable)")
	return cmd
}

// outputDirs returns the folders that contain runs. For a command without the flag, it returns the default folders.
func outputDirs(cmd *cobra.Command) []string {
	if dirs := repeatable(cmd, "output-dir"); dirs != nil {
		return dirs
	}
	return defaultOutputDirs
}

// loadJob finds a run, given by its path or by its id in one of the output folders, and reads the run's job.
func loadJob(cmd *cobra.Command, run string) (runfolder.Folder, *jobs.Job, error) {
	dir, err := runfolder.Find(run, outputDirs(cmd)...)
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
	return train.OpenJob(dir, j, stage.Env{
		Secrets: hide(cmd), Log: zerolog.New(console(cmd.ErrOrStderr())).With().Timestamp().Logger(),
		Findings: findingsPrinter(cmd),
	})
}

// withJob opens a run's job, calls do with it, and reports the job together with do's error.
func withJob(cmd *cobra.Command, run string, do func(*jobs.Client, *jobs.Job) error) error {
	dir, j, err := loadJob(cmd, run)
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

// closeAdapter closes an adapter if it has a Close method.
func closeAdapter(a trainers.Adapter) {
	if c, ok := a.(interface{ Close() }); ok {
		c.Close()
	}
}

// printUpdates returns a function that prints a job's updates. It prints every change of state, and other updates at
// most every 10 seconds.
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

// leaveOnSignals treats leaveSignals as requests to leave a job running, until stop is called.
func leaveOnSignals(cmd *cobra.Command) (leave *jobs.Leave, stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, leaveSignals...)
	ctx, cancel := context.WithCancel(cmd.Context())
	leave = jobs.NewLeave(ctx, signals)
	leave.Forced = func() { force(cmd.ErrOrStderr(), leave) }
	return leave, func() { signal.Stop(signals); cancel() }
}

// force ends the program as if it were killed. The system releases its resources, and a run in progress can be
// resumed. force waits at most a second for its message to be written, because the terminal may be unresponsive.
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
	return withOutputDirs(&cobra.Command{
		Use:   "list [FOLDER...]",
		Short: "List runs with the last known state of their jobs",
		RunE: func(cmd *cobra.Command, folders []string) error {
			if len(folders) == 0 {
				folders = outputDirs(cmd)
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
	})
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
	var offline bool
	cmd := withOutputDirs(&cobra.Command{
		Use:   "status RUN",
		Short: "Show the state of a run's job",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, j, err := loadJob(cmd, args[0])
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
	})
	cmd.Flags().BoolVar(&offline, "offline", false, "show the last known state without asking the trainer")
	return cmd
}

func newFinetuneWaitCmd() *cobra.Command {
	return withOutputDirs(&cobra.Command{
		Use:   "wait RUN",
		Short: "Wait for a run's job to end, including deployment",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withJob(cmd, args[0], func(c *jobs.Client, j *jobs.Job) error {
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
	})
}

func newFinetuneCancelCmd() *cobra.Command {
	return withOutputDirs(&cobra.Command{
		Use:   "cancel RUN",
		Short: "Cancel a run's job",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withJob(cmd, args[0], func(c *jobs.Client, j *jobs.Job) error {
				if err := c.Cancel(cmd.Context(), j); err != nil {
					return err
				}
				return c.Refresh(cmd.Context(), j)
			})
		},
	})
}
