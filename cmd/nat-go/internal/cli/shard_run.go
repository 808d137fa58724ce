package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/ttc/ledger"
)

func newShardRunCmd(commitBytes int64) *cobra.Command {
	index, name := -1, string(shards.Build)
	var work string
	cmd := &cobra.Command{
		Use:   "run [PLAN] [--index I]",
		Short: "Build or continue one shard",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := planArg(args)
			if cmd.Flags().Changed("index") && index < 0 {
				return exit.With(exit.Final, fmt.Errorf("--index %d: shards are numbered from 0", index))
			}
			var sum *finetune.Summary
			var number int
			err := withEnv(cmd, commitBytes, func(ctx context.Context, env stage.Env) error {
				setHeapGrowth(shardPercent, shardFloor)
				keep, err := workDir(work)
				if err != nil && dir.IsStored() {
					return err
				}
				if !dir.IsStored() {
					env.Runs = runsOf(dir)
				}
				p, err := dir.At(ctx, keep)
				if err != nil {
					return err
				}
				var from string
				if number, from, err = shardIndex(p.Dir, index); err != nil {
					return p.RewriteError(err)
				}
				if !isQuiet(cmd) && from != "" {
					fmt.Fprintf(cmd.ErrOrStderr(), "shard %d, from %s\n", number, from)
				}
				sum, err = runShard(ctx, p, finetune.Shard{Plan: p.Dir, Stage: shards.Stage(name), Number: number}, env)
				restoreSummary(p, sum)
				return p.RewriteError(err)
			})
			if sum != nil {
				printShard(cmd, number, sum)
			}
			return withFinalCode(err)
		},
	}
	cmd.Flags().IntVar(&index, "index", -1, "number of the shard, from 0; default: from the job array's variables")
	cmd.Flags().StringVar(&name, "stage", name, "stage to run: build; group, for builders that need whole "+
		"tasks, once all shards are built; or write, after a merge with --leave-writing")
	workFlag(cmd.Flags(), &work)
	return cmd
}

// runShard builds a shard. If the plan is in object storage, it uploads the result, or does nothing if the shard is
// already there.
func runShard(ctx context.Context, p *shards.Parts, of finetune.Shard, env stage.Env) (*finetune.Summary, error) {
	req := finetune.Request{Shard: &of}
	if done, err := p.IsDone(ctx, of.Stage, of.Number); err != nil {
		return finetune.Failed(req, err)
	} else if done {
		sum, _ := finetune.Failed(req, errors.New("shard is done"))
		sum.Status, sum.Error, sum.Warnings = runfolder.Completed, "", []string{finetune.AlreadyBuilt(of.Stage)}
		return sum, nil
	}
	if err := p.FetchFor(ctx, of.Stage, of.Number); err != nil {
		return finetune.Failed(req, err)
	}
	sum, err := finetune.Run(ctx, req, env)
	if err != nil {
		return sum, err
	}
	if err := p.SendShard(ctx, of.Stage, of.Number); err != nil {
		sum.Status, sum.Error = runfolder.Failed, err.Error()
		return sum, err
	}
	// If builders need whole tasks, other processes on this machine may be in the group stage and reading the copies of
	// built shards.
	if p.IsCopy() && (!p.Plan.Tasks || of.Stage == shards.Group) {
		err = os.RemoveAll(string(p.Dir.Shard(of.Stage, of.Number)))
	}
	return sum, err
}

// shardIndex returns the number of the shard and its origin. The number is index or, if that is negative, the value
// of an environment variable, whose name is returned as from.
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
	if s.RunID == "" || s.Status != runfolder.Completed { // this process built nothing, or the shard isn't complete
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
