package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/engines"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc/ledger"
)

func newShardRunCmd(commitBytes int64) *cobra.Command {
	index, stage := -1, string(shards.Build)
	var work string
	cmd := &cobra.Command{
		Use:   "run [PLAN] [--index I]",
		Short: "Build or continue one shard",
		Long: `Build one shard of a plan into its own folder, or continue it after the last commit of an earlier
attempt. PLAN is the folder of the plan; without it, the working folder. Run it in the folder where the plan was made,
because inputs are opened by the paths given then.

Without --index, the number comes from the first of these variables that is set; it is an error if two disagree:
NATGO_SHARD (3, or 3/7), SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX, CLOUD_RUN_TASK_INDEX, AWS_BATCH_JOB_ARRAY_INDEX.

Exit code 4 means that the same command would fail again, because the plan, a setting, a plugin or an input is wrong or
has changed. After exit code 3, the next attempt may succeed. SIGTERM stops the work after the current step, which is
kept; the exit code is then 143.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := planArg(args)
			if cmd.Flags().Changed("index") && index < 0 {
				return exit.With(exit.Final, fmt.Errorf("--index %d: shards are numbered from 0", index))
			}
			var sum *finetune.Summary
			var number int
			err := withEnv(cmd, commitBytes, func(ctx context.Context, env finetune.Env) error {
				setHeapGrowth(shardPercent, shardFloor)
				keep, err := workDir(work)
				if err != nil && dir.Remote() != nil {
					return err
				}
				c, err := copyPlan(ctx, dir, keep)
				if err != nil {
					return err
				}
				var from string
				if number, from, err = shardIndex(c.dir, index); err != nil {
					return c.withOriginalPath(err)
				}
				if !isQuiet(cmd) && from != "" {
					fmt.Fprintf(cmd.ErrOrStderr(), "shard %d, from %s\n", number, from)
				}
				sum, err = c.runShard(ctx, finetune.Shard{Plan: c.dir, Stage: shards.Stage(stage), Number: number}, env)
				c.restoreSummary(sum)
				return c.withOriginalPath(err)
			})
			if sum != nil {
				printShard(cmd, number, sum)
			}
			return withFinalCode(err)
		},
	}
	cmd.Flags().IntVar(&index, "index", -1, "number of the shard, from 0; default: from the job array's variables")
	cmd.Flags().StringVar(&stage, "stage", stage, "stage to run: build; group, for builders that need whole "+
		"tasks, once all shards are built; or write, after a merge with --leave-writing")
	workFlag(cmd.Flags(), &work)
	return cmd
}

// runShard builds a shard. If the plan is in object storage, it uploads the result, or does nothing if the shard is
// already there.
func (c *localPlan) runShard(ctx context.Context, of finetune.Shard, env finetune.Env) (*finetune.Summary, error) {
	req := finetune.Request{Shard: &of}
	if c.remote == nil {
		env.Runs = runsOf(c.dir)
		return finetune.Run(ctx, req, env)
	}
	if done, err := c.remote.IsDone(ctx, c.plan, of.Stage, of.Number); err != nil {
		return finetune.Failed(req, err)
	} else if done {
		sum, _ := finetune.Failed(req, errors.New("shard is done"))
		sum.Status, sum.Error, sum.Warnings = runfolder.Completed, "", []string{finetune.AlreadyBuilt(of.Stage)}
		return sum, nil
	}
	if err := c.remote.FetchFor(ctx, c.dir, c.plan, of.Stage, of.Number); err != nil {
		return finetune.Failed(req, err)
	}
	sum, err := finetune.Run(ctx, req, env)
	if err != nil {
		return sum, err
	}
	if err := c.remote.SendShard(ctx, c.dir, c.plan, of.Stage, of.Number); err != nil {
		sum.Status, sum.Error = runfolder.Failed, err.Error()
		return sum, err
	}
	// If builders need whole tasks, other processes on this machine may be in the group stage and reading the copies of
	// built shards.
	if !c.plan.Tasks || of.Stage == shards.Group {
		err = os.RemoveAll(string(c.dir.Shard(of.Stage, of.Number)))
	}
	return sum, err
}

// shardIndex returns the number of the shard and where it came from. The number is index or, if that is negative, the
// value of an environment variable, whose name is returned as from.
func shardIndex(dir shards.Folder, index int) (number int, from string, err error) {
	if index >= 0 {
		return index, "", nil
	}
	plan, err := dir.Read()
	if err != nil {
		return 0, "", err
	}
	number, from, err = shards.Index(os.LookupEnv, len(plan.Shards))
	return number, from, exit.Default(exit.Usage, err)
}

func printShard(cmd *cobra.Command, number int, s *finetune.Summary) {
	out := cmd.OutOrStdout()
	if asJSON(cmd) {
		about := map[string]any{"shard": number, "status": s.Status, "counts": s.Counts, "error": s.Error}
		if s.Share != nil {
			about["written"] = s.Share
		}
		_ = json.NewEncoder(out).Encode(about)
		return
	}
	if isQuiet(cmd) {
		return
	}
	for _, w := range s.Warnings {
		fmt.Fprintf(out, "  warning  %s\n", w)
	}
	if s.RunID == "" || s.Status != runfolder.Completed { // nothing was built here, or the shard isn't complete
		fmt.Fprintf(out, "shard %d  %s\n", number, s.Status)
		return
	}
	what := ledger.Quantity(s.Counts.Examples, "example") + ", " + ledger.Quantity(s.Counts.Records, "record")
	if w := s.Share; w != nil {
		if what = ledger.Quantity(w.Rows, "row") + " written"; w.Batches > 0 {
			what = ledger.Quantity(w.Rows, "row") + " and " + ledger.Quantity(w.Batches, "token batch") + " written"
		}
	}
	fmt.Fprintf(out, "shard %d  %s: %s\n", number, s.Status, what)
}

func newShardStatusCmd() *cobra.Command {
	var stage string
	var perTask int
	cmd := &cobra.Command{
		Use:   "status [PLAN]",
		Short: "List the shards not built yet, as an array expression",
		Long: `List the shards of a plan that are not built yet, in the form schedulers accept: 3,7-9. With --quiet,
nothing else is printed, as in sbatch --array=$(nat-go shard status -q PLAN).`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if perTask < 1 {
				return exit.Usagef("--per-task %d: an array task builds at least one shard", perTask)
			}
			dir := planArg(args)
			plan, states, err := shardStates(cmd.Context(), dir, stage)
			if err != nil {
				return err
			}
			if perTask > 1 {
				missing := states[len(states)-1].Missing
				for i := range missing { // the array task that builds the shard
					missing[i] /= perTask
				}
				fmt.Fprintln(cmd.OutOrStdout(), shards.Array(missing))
				return nil
			}
			return printShards(cmd, dir, plan, states)
		},
	}
	cmd.Flags().StringVar(&stage, "stage", "",
		"list only this stage: build, group or write; default: all up to the first that isn't done")
	cmd.Flags().IntVar(&perTask, "per-task", 1,
		"print the missing array tasks instead of shards, for tasks that build this many shards each; tasks are numbered from 0")
	return cmd
}

// shardStates examines a plan's shards: in one stage or, if stage is empty, in all stages up to the first that isn't
// done. For a plan in object storage, it downloads the shards' manifests.
func shardStates(ctx context.Context, dir shards.Folder, stage string) (p *shards.Plan, s []*shards.State, err error) {
	err = withPlan(ctx, dir, "", func(c *localPlan) (err error) {
		p, s, err = lookAt(ctx, c, stage)
		return err
	})
	return p, s, err
}

func lookAt(ctx context.Context, c *localPlan, stage string) (*shards.Plan, []*shards.State, error) {
	plan, err := c.dir.Read()
	if err != nil {
		return nil, nil, err
	}
	if c.remote != nil {
		if _, err := c.remote.FetchCut(ctx, c.dir, plan); err != nil {
			return nil, nil, err
		}
	}
	stages := plan.Stages()
	if c.dir.HasCut() {
		stages = append(stages, shards.Write)
	}
	if stage != "" {
		if err := plan.CheckStage(shards.Stage(stage)); err != nil {
			return nil, nil, exit.With(exit.Usage, err)
		}
		stages = []shards.Stage{shards.Stage(stage)}
	}
	var states []*shards.State
	for _, x := range stages {
		if c.remote != nil {
			if err := c.remote.FetchDone(ctx, c.dir, plan, x); err != nil {
				return nil, nil, err
			}
		}
		s, err := c.dir.Look(plan, x)
		if err != nil {
			return nil, nil, exit.With(exit.Failed, err)
		}
		if states = append(states, s); len(s.Missing) > 0 { // the next stage waits for this one
			break
		}
	}
	return plan, states, nil
}

func printShards(cmd *cobra.Command, dir shards.Folder, plan *shards.Plan, states []*shards.State) error {
	out, last := cmd.OutOrStdout(), states[len(states)-1]
	missing := shards.Array(last.Missing)
	switch {
	case asJSON(cmd):
		return json.NewEncoder(out).Encode(map[string]any{
			"shards": len(plan.Shards), "stage": last.Stage, "missing": missing, "stages": states,
		})
	case isQuiet(cmd):
		fmt.Fprintln(out, missing)
		return nil
	}
	n := ledger.Quantity(int64(len(plan.Shards)), "shard")
	for _, s := range states {
		fmt.Fprintf(out, "run %s, stage %s: %d of %s done\n", plan.RunID, s.Stage, len(s.Done), n)
		if len(s.Running) > 0 {
			fmt.Fprintf(out, "  running  %s\n", shards.Array(s.Running))
		}
	}
	switch stages := plan.Stages(); {
	case missing != "":
		fmt.Fprintf(out, "  missing  %s\n", missing)
	case last.Stage == stages[len(stages)-1] || last.Stage == shards.Write:
		fmt.Fprintf(out, "  next     nat-go shard merge %s\n", dir)
	}
	return nil
}

// newShardScriptCmd returns the group of commands that write scripts for execution engines.
func newShardScriptCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "script",
		Short: "Write scripts that execute a plan on Slurm, Kubernetes or Ray",
		Long: `Write scripts that execute a plan on Slurm, Kubernetes or Ray, for you to read, change and start.
Run it where the plan was made. nat-go itself starts nothing there.`,
	}
	cmd.AddCommand(newScriptSlurmCmd(), newScriptK8sCmd(), newScriptRayCmd())
	return cmd
}

// script holds the flags shared by the commands for all engines.
type script struct {
	*engines.Needs
	engine, interpreter string // interpreter is the program that runs the first file
	out, memory         string
	leave               bool
}

func (s *script) flags(f *pflag.FlagSet) {
	f.StringVar(&s.out, "out", "",
		"folder to write to; default: "+s.engine+" in the plan's; for a plan in object storage, in the current folder")
	f.IntVar(&s.CPUs, "cpus", 2, "processors per process")
	f.StringVar(&s.memory, "memory", "2GiB", "memory per process")
	f.BoolVar(&s.leave, "leave-writing", true, "have the shards also write the data set; false: the merge writes it")
}

// write writes the scripts that run the plan, and prints how to start them.
func (s *script) write(cmd *cobra.Command, args []string, of scripts) error {
	dir := planArg(args)
	plan, err := readPlan(cmd.Context(), dir)
	if err != nil {
		return err
	}
	size, err := schema.ParseSize(s.memory)
	if err != nil {
		return exit.Usagef("--memory %q: %w", s.memory, err)
	}
	s.Memory = size
	here, err := os.Getwd()
	if err != nil {
		return exit.Environmentf("cannot find the working folder: %w", err)
	}
	folder, out, err := s.places(dir)
	if err != nil {
		return err
	}
	made, err := of.Files(engines.Run{
		ID: plan.RunID, Plan: folder, Dir: here, Shards: len(plan.Shards), Stages: plan.Stages(), Divide: s.leave,
	})
	if err != nil {
		return exit.Default(exit.Failed, err)
	}
	if err := engines.Write(out, made); err != nil {
		return err
	}
	paths := lists.Map(made, func(f engines.File) string { return filepath.Join(out, f.Name) })
	next := s.interpreter + " " + paths[0]
	switch {
	case asJSON(cmd):
		return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"files": paths, "next": next})
	case isQuiet(cmd):
		return nil
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n  next     %s\n", strings.Join(paths, "\n"), next)
	return err
}

// places returns the plan's folder, as an absolute path or an address in object storage, and the folder to write the
// scripts to.
func (s *script) places(dir shards.Folder) (plan, out string, err error) {
	plan, out = string(dir), filepath.Join(string(dir), s.engine)
	if dir.Remote() != nil {
		out = s.engine
	} else if plan, err = filepath.Abs(plan); err != nil {
		return "", "", exit.Environmentf("cannot find the plan's folder: %w", err)
	}
	if s.out != "" {
		out = s.out
	}
	return plan, out, nil
}

// readPlan reads a plan on a disk or in object storage.
func readPlan(ctx context.Context, dir shards.Folder) (plan *shards.Plan, err error) {
	err = withPlan(ctx, dir, "", func(c *localPlan) (err error) {
		plan, err = c.dir.Read()
		return err
	})
	return plan, err
}

// scripts are the scripts for an engine.
type scripts interface {
	Files(engines.Run) ([]engines.File, error)
}

// command completes the command that writes an engine's scripts. Unless program is nil, it gets the path of nat-go on
// the nodes.
func (s *script) command(cmd *cobra.Command, program *string, of scripts) *cobra.Command {
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if program != nil && *program == "" {
			if *program, err = os.Executable(); err != nil {
				return exit.Environmentf("cannot find this program's own file: %w", err)
			}
		}
		return s.write(cmd, args, of)
	}
	s.flags(cmd.Flags())
	if program != nil {
		cmd.Flags().StringVar(program, "program", "", "path of nat-go on the nodes; default: this program's own file")
	}
	return cmd
}

func newScriptSlurmCmd() *cobra.Command {
	var how engines.Slurm
	s := &script{Needs: &how.Needs, engine: "slurm", interpreter: "sh"}
	cmd := s.command(&cobra.Command{
		Use:   "slurm [PLAN]",
		Short: "Write batch scripts for Slurm: an array job for the shards, then the merge",
		Long: `Write batch scripts for Slurm, and submit.sh, which submits an array of the missing shards for each stage
and, once these have succeeded, the merge. With --leave-writing, the default, another array follows, in which the shards write
the data set, and then the merge that puts it together. If a plan has more shards than the site allows array tasks,
each task gets several shards.`,
		Example: `  nat-go shard script slurm shards --time 8:00:00 --sbatch partition=cpu --sbatch account=lab
  sh shards/slurm/submit.sh`,
	}, &how.NatGo, &how)
	f := cmd.Flags()
	f.StringVar(&how.Time, "time", "4:00:00", "time limit per attempt; a shard that takes longer continues in the next attempt")
	f.IntVar(&how.ArraySize, "max-array-size", 1001, "the site's MaxArraySize, as shown by `scontrol show config`")
	f.IntVar(&how.AtOnce, "at-once", 0, "maximum number of array tasks that run at once; 0: no limit")
	f.StringArrayVar(&how.Options, "sbatch", nil,
		"an additional sbatch option, without its dashes: partition=cpu (repeatable)")
	return cmd
}

func newScriptK8sCmd() *cobra.Command {
	var how engines.Kubernetes
	s := &script{Needs: &how.Needs, engine: "k8s", interpreter: "sh"}
	cmd := s.command(&cobra.Command{
		Use:   "k8s [PLAN] --image IMAGE --claim NAME",
		Short: "Write Jobs for Kubernetes: an indexed one for the shards, and the merge",
		Long: `Write Jobs for Kubernetes, and submit.sh, which starts the indexed Job for the shards and, once it has
succeeded, the merge Job; then an indexed Job in which the shards write the data set, and the merge that puts it
together. Plan and inputs are on a volume that all pods mount, under the same names as
here.`,
		Example: `  nat-go shard script k8s shards --image registry.example/nat-go:1 --claim traces --secret natgo
  sh shards/k8s/submit.sh`,
	}, nil, &how)
	f := cmd.Flags()
	f.StringVar(&how.Image, "image", "", "image with nat-go as its entry point")
	f.StringVar(&how.Claim, "claim", "", "persistent volume claim with the plan, the inputs and the output folder")
	f.StringVar(&how.Mount, "mount", "", "where the volume is mounted; default: the working folder")
	f.StringVar(&how.Secret, "secret", "", "secret whose keys become variables in the pods")
	f.StringVar(&how.User, "user", "", "UID or UID:GID that the pods run as; default: the image's")
	f.IntVar(&how.AtOnce, "at-once", 0, "maximum number of pods that run at once; 0: no limit")
	f.IntVar(&how.Retries, "retries", 5, "additional attempts per shard")
	return cmd
}

func newScriptRayCmd() *cobra.Command {
	var how engines.Ray
	s := &script{Needs: &how.Needs, engine: "ray", interpreter: "python"}
	cmd := s.command(&cobra.Command{
		Use:   "ray [PLAN]",
		Short: "Write a driver for Ray: one task per shard, then the merge",
		Long: `Write run.py, a driver for a Ray cluster whose nodes share the folders of the plan and the inputs: one
task per shard, with retries where they help, then the merge; then one task per shard to write the data set, and the
merge that puts it together.`,
		Example: `  nat-go shard script ray shards
  RAY_ADDRESS=auto python shards/ray/run.py`,
	}, &how.NatGo, &how)
	cmd.Flags().IntVar(&how.Retries, "retries", 5, "additional attempts per shard")
	return cmd
}
