package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/compat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// withPlan calls do with a plan or, for a stored plan, with a temporary copy below the folder for copies.
func withPlan(ctx context.Context, dir shards.Folder, work string, do func(*shards.Parts) error) error {
	if !dir.IsStored() {
		return do(&shards.Parts{Dir: dir})
	}
	return inWorkDir(work, func(own string) error {
		p, err := dir.At(ctx, own)
		if err != nil {
			return err
		}
		return p.RewriteError(do(p))
	})
}

// runsOf returns the Env.Runs folder for a plan on a disk. It is inside the plan's folder, which the processes of all
// shards can access.
func runsOf(dir shards.Folder) string { return filepath.Join(string(dir), "run") }

// restoreSummary replaces the path of a plan's copy in the strings of a summary, as RewriteError does in an error.
func restoreSummary(p *shards.Parts, s *finetune.Summary) {
	if s == nil {
		return
	}
	s.Error, s.Next = p.RewritePaths(s.Error), p.RewritePaths(s.Next)
	for i := range s.Warnings {
		s.Warnings[i] = p.RewritePaths(s.Warnings[i])
	}
}

// workFlag adds the flag for the folder that holds copies of a stored plan.
func workFlag(f *pflag.FlagSet, work *string) {
	f.StringVar(work, "work-dir", "", "local folder for copies of a plan in object storage, from which an "+
		"interrupted shard continues; default: in the user's cache")
}

// workDir returns the folder for copies given by the flag, or the default.
func workDir(flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", exit.Environmentf("cannot find the user's cache folder: %w; specify a folder with --work-dir", err)
	}
	return filepath.Join(cache, "nat-go", "shards"), nil
}

// inWorkDir calls do with a new folder inside the folder for copies, then removes the new folder.
func inWorkDir(flag string, do func(work string) error) error {
	work, err := workDir(flag)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(work, 0o700); err != nil {
		return exit.With(exit.Environment, err)
	}
	own, err := os.MkdirTemp(work, "once-")
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	defer os.RemoveAll(own)
	return do(own)
}

// planArg returns the folder of the plan named by a command's argument or, without an argument, of a plan in the
// current folder.
func planArg(args []string) shards.Folder {
	if len(args) == 0 {
		return shards.Find(".")
	}
	return shards.Find(args[0])
}

// withFinalCode returns err with the exit code that tells a scheduler not to retry the shard if a retry would fail
// because the plan, the configuration or the inputs are invalid. A system error or a missing file gets the code for the
// environment, because the next attempt may succeed.
func withFinalCode(err error) error {
	switch code := exit.Code(err); {
	case code != exit.Failed && code != exit.Usage:
		return err
	case errors.As(err, new(syscall.Errno)) || errors.Is(err, fs.ErrNotExist):
		return exit.With(exit.Environment, err)
	}
	return exit.With(exit.Final, err)
}

// planFlags are the flags of shard plan.
type planFlags struct {
	requestFlags
	how finetune.Division
}

func newShardPlanCmd(commitBytes int64) *cobra.Command {
	var flags planFlags
	cmd := &cobra.Command{
		Use:   "plan [FILE ...] [--config-file FILE] (--shards N | --shard-bytes BYTES)",
		Short: "Decide what each shard builds",
		RunE: func(cmd *cobra.Command, files []string) error {
			flags.complete(cmd, files)
			var err error
			if flags.Compat, err = compat.Parse(flags.mode); err != nil {
				return exit.With(exit.Usage, err)
			}
			var made *finetune.Planned
			err = withEnv(cmd, commitBytes, func(ctx context.Context, env stage.Env) (err error) {
				setHeapGrowth(shardPercent, shardFloor)
				flags.Divide = &flags.how
				made, err = planShards(ctx, flags.Request, env)
				return err
			})
			if err != nil {
				return err
			}
			return printPlanned(cmd, made)
		},
	}
	flags.register(cmd)
	return cmd
}

func (p *planFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&p.how.Number, "shards", 0, "number of shards")
	f.Int64Var(&p.how.Bytes, "shard-bytes", 0, "approximate number of input bytes per shard, instead of --shards")
	f.StringVar(&p.how.Dir, "plan-dir", "", "folder or s3://BUCKET/PREFIX for the plan and its shards' output; default: the run folder's, with .shards appended")
	p.add(f)
	f.StringArrayVar(&p.Builders, "builder", nil,
		"without a configuration: dpo, sft, or a builder's type (repeatable); default: the one that suits the input")
	f.StringVar(&p.OutputDir, "output-dir", "", "where the merge creates the run folder; default: finetuning.output_dir")
	f.StringVar(&p.mode, "compat", "", "nat is refused, because NAT processes a collection run as a whole")
	f.BoolVar(&p.DryRun, "dry-run", false, "have the merge write the data set but don't submit a job")
}

// planShards creates a plan. If the plan's folder is in object storage, it creates the plan on this machine and uploads
// it.
func planShards(ctx context.Context, req finetune.Request, env stage.Env) (made *finetune.Planned, err error) {
	dir := shards.Find(req.Divide.Dir)
	if !dir.IsStored() {
		sum, err := finetune.Run(ctx, req, env)
		return sum.Planned, err
	}
	if err := dir.Free(ctx); err != nil {
		return nil, err
	}
	err = inWorkDir("", func(own string) (err error) {
		req.Divide.Dir = filepath.Join(own, "plan")
		p := dir.CopiedTo(shards.Folder(req.Divide.Dir))
		sum, err := finetune.Run(ctx, req, env)
		if made = sum.Planned; err == nil {
			p.Plan, made.Dir = made.Plan, dir
			err = p.SendPlan(ctx)
		}
		return p.RewriteError(err)
	})
	return made, err
}

func printPlanned(cmd *cobra.Command, p *finetune.Planned) error {
	out := cmd.OutOrStdout()
	if asJSON(cmd) {
		return json.NewEncoder(out).Encode(map[string]any{"folder": p.Dir, "plan": p.Plan})
	}
	if isQuiet(cmd) { // for scripts: PLAN=$(nat-go shard plan -q ...)
		fmt.Fprintln(out, p.Dir)
		return nil
	}
	examples, empty := int64(0), 0
	for _, s := range p.Plan.Shards {
		examples += s.Examples
		if s.Examples == 0 {
			empty++
		}
	}
	n := len(p.Plan.Shards)
	fmt.Fprintf(out, "plan %s: %s of %s\n", p.Dir, ledger.Quantity(int64(n), "shard"),
		ledger.Quantity(examples, "example"))
	for _, note := range p.Notes {
		fmt.Fprintf(out, "  warning  %s\n", note)
	}
	if empty > 0 {
		fmt.Fprintf(out, "  warning  nothing to build in %s: the inputs can't be divided into that many parts\n",
			ledger.Quantity(int64(empty), "shard"))
	}
	then := ""
	if p.Plan.Tasks {
		then = "the same with --stage group; "
	}
	fmt.Fprintf(out, "  next     nat-go shard run %s --index I, for I from 0 to %d; %sthen nat-go shard merge %s\n",
		p.Dir, n-1, then, p.Dir)
	return nil
}

func newShardMergeCmd(commitBytes int64) *cobra.Command {
	var how finetune.Request
	var work string
	cmd := &cobra.Command{
		Use:   "merge [PLAN]",
		Short: "Merge the built shards into the run",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withRun(cmd, commitBytes, func(ctx context.Context, env stage.Env) (*finetune.Summary, error) {
				setHeapGrowth(shardPercent, shardFloor)
				how.Merge = planArg(args)
				return mergeShards(ctx, work, how, env)
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&how.LeaveWriting, "leave-writing", false,
		"divide the writing between the shards instead of writing here")
	f.BoolVar(&how.DryRun, "dry-run", false, "write the data set but don't submit a job")
	f.BoolVar(&how.Detach, "detach", false, "submit the job and don't wait for it")
	workFlag(f, &work)
	return cmd
}

// mergeShards merges the shards of a plan. If the plan is in object storage, it downloads their files first.
func mergeShards(
	ctx context.Context, work string, how finetune.Request, env stage.Env,
) (sum *finetune.Summary, err error) {
	err = withPlan(ctx, how.Merge, work, func(p *shards.Parts) (err error) {
		if err := p.FetchBuilt(ctx); err != nil {
			return err
		}
		if !how.Merge.IsStored() {
			env.Runs = runsOf(p.Dir)
		}
		divided := p.Dir.HasCut()
		how.Merge = p.Dir
		if sum, err = finetune.Run(ctx, how, env); err == nil && how.LeaveWriting && !divided {
			err = p.SendCut(ctx, runfolder.Folder(sum.RunDir))
		}
		restoreSummary(p, sum)
		return err
	})
	if sum == nil && err != nil {
		return finetune.Failed(how, err)
	}
	return sum, err
}
