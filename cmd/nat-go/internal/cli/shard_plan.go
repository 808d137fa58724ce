package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/compat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// planFlags are the flags of shard plan.
type planFlags struct {
	finetune.Request
	how  finetune.Division
	mode string
	seed int64
}

func newShardPlanCmd(commitBytes int64) *cobra.Command {
	var flags planFlags
	cmd := &cobra.Command{
		Use:   "plan [FILE ...] [--config-file FILE] (--shards N | --shard-bytes BYTES)",
		Short: "Decide what each shard builds",
		Long: `Read a run's inputs once and record what each shard builds from them. A file of JSON lines
is cut between examples; one that is compressed, a table or one JSON array goes to one shard. Everything that determines
the data set - settings, variables, plugins, tokenizer, nat-go's version - is recorded by hash, and a shard that would
be built from anything else is refused.`,
		Example: `  nat-go shard plan --config-file finetune.yml --shards 100
  nat-go shard plan --config-file finetune.yml --shard-bytes 4000000000 --plan-dir /shared/run7`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, files []string) error {
			flags.From = append(flags.From, files...)
			if cmd.Flags().Changed("seed") {
				flags.Seed = &flags.seed
			}
			var err error
			if flags.Compat, err = compat.Parse(flags.mode); err != nil {
				return exit.With(exit.Usage, err)
			}
			var made *finetune.Planned
			err = withEnv(cmd, commitBytes, func(ctx context.Context, env finetune.Env) (err error) {
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
	requestFlags(f, &p.Request, &p.seed)
	f.StringArrayVar(&p.Builders, "builder", nil,
		"without a configuration: dpo, sft, or a builder's type (repeatable); default: the one that suits the input")
	f.StringVar(&p.OutputDir, "output-dir", "", "where the merge creates the run folder; default: finetuning.output_dir")
	f.StringVar(&p.mode, "compat", "", "nat is refused, because NAT processes a collection run as a whole")
	f.BoolVar(&p.DryRun, "dry-run", false, "have the merge write the data set but submit nothing")
}

// planShards creates a plan. If the plan's folder is in object storage, it creates the plan on this machine and uploads
// it.
func planShards(
	ctx context.Context, req finetune.Request, env finetune.Env,
) (made *finetune.Planned, err error) {
	dir := shards.Find(req.Divide.Dir)
	remote := dir.Remote()
	if remote == nil {
		sum, err := finetune.Run(ctx, req, env)
		return sum.Planned, err
	}
	if err := remote.Free(ctx); err != nil {
		return nil, err
	}
	err = inWorkDir("", func(own string) (err error) {
		req.Divide.Dir = filepath.Join(own, "plan")
		sum, err := finetune.Run(ctx, req, env)
		if made = sum.Planned; err == nil {
			err = remote.SendPlan(ctx, made.Dir, made.Plan)
			made.Dir = dir
		}
		return remote.RewriteError(shards.Folder(req.Divide.Dir), err)
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
