package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/compat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/internal/terminal"
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
		Long: `Build a data set from an agent's run, or from any file of conversations, scored answers or pairs, and
train on it.

A file is JSON lines, JSON, Parquet or CSV, optionally compressed with gzip or zstd; a folder means the files in it,
- means standard input. Without a configuration, the builder and the row format are chosen to suit the file
(nat-go inspect FILE).`,
		Example: `  nat-go run answers.jsonl
  nat-go run --config-file finetune.yml
  nat-go run --config-file nat.yml --from out/workflow_output.json --dry-run
  nat-go run candidates.jsonl --builder dpo --format trl`,
		Args: cobra.ArbitraryArgs,
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
	f.BoolVar(&r.DryRun, "dry-run", false, "write the data set but submit nothing")
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

// complete adds the files that a command names and the flags that have no value of their own in a request.
func (r *requestFlags) complete(cmd *cobra.Command, files []string) {
	r.From = append(r.From, files...)
	if cmd.Flags().Changed("seed") {
		r.Seed = &r.seed
	}
}

// run starts the run that the flags describe.
func (r *runFlags) run(ctx context.Context, env finetune.Env) (*finetune.Summary, error) {
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
	return withRun(cmd, commitBytes, func(ctx context.Context, env finetune.Env) (*finetune.Summary, error) {
		return finetune.Run(ctx, *r, env)
	})
}

// withRun calls run through withEnv and prints the summary that run returns.
func withRun(
	cmd *cobra.Command, commitBytes int64,
	run func(context.Context, finetune.Env) (*finetune.Summary, error),
) error {
	var sum *finetune.Summary
	var found []finding.Finding
	err := withEnv(cmd, commitBytes, func(ctx context.Context, env finetune.Env) (err error) {
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
func withEnv(cmd *cobra.Command, commitBytes int64, run func(context.Context, finetune.Env) error) error {
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
	err = run(ctx, finetune.Env{
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
	var outputDirs []string
	var how finetune.Request
	cmd := &cobra.Command{
		Use:   "resume RUN",
		Short: "Continue an interrupted run, or submit a data set that was not accepted",
		Long: `Continue a run, given its folder or id. Work already done is kept: the record log is continued after its last commit, a
complete data set is submitted, a running job is waited for.

It is an error if anything that determines the data set has changed since the run began: an input, a setting, a variable
that a setting refers to, a plugin's program, the tokenizer, the template, or nat-go itself. --accept-changed continues
anyway and keeps existing output unchanged; the manifest records that.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if how.Resume, err = runNamed(args[0], outputDirs); err != nil {
				return err
			}
			return runRequest(cmd, commitBytes, &how)
		},
	}
	addOutputDirs(cmd, &outputDirs)
	cmd.Flags().BoolVar(&how.Detach, "detach", false, "submit the job and don't wait for it")
	cmd.Flags().StringArrayVarP(&how.Overrides, "override", "o", nil, "override a setting of the run: PATH=VALUE or PATH VALUE (repeatable)")
	cmd.Flags().StringArrayVar(&how.Accept, "accept-changed", nil, "continue although this, named as in the error, has changed (repeatable)")
	return cmd
}
