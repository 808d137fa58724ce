package finetune

import (
	"context"
	"errors"
	"fmt"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// liveSource returns inputs that running an agent will produce. It returns nil if neither --endpoint nor the entry
// under sources calls for that. The source's output is written to the run folder, one file per collection run in the
// workflow_output.json format, and is then read like any other input.
func (x *finder) liveSource() (in *inputs, err error) {
	p, block := x.plan, x.block
	if p.Endpoint != "" {
		if block, err = x.endpointOfFlags(); err != nil {
			return nil, err
		}
	}
	if block == nil || len(p.From) > 0 || p.Source != "" {
		return nil, nil
	}
	f, ok := builtin.Source(block.Type)
	if !ok || f.Collect == nil {
		return nil, nil
	}
	if p.planning {
		return nil, exit.Usagef("--plan does not run an agent: collect the runs first, and specify them with --from")
	}
	in = new(inputs)
	in.collect = func(ctx context.Context, c source.Collection) ([]string, error) {
		c.Runs, c.RunsSet = p.trainer.NumRuns, p.config.Has("trainers", p.config.Finetuning.Trainer, "num_runs")
		c.NATConfig = p.NATConfig
		return f.Collect(ctx, block.Config, c)
	}
	var keys any = natKeys(p.config)
	if f.Output != nil {
		keys = f.Output(block.Config)
	}
	in.read(readers.NAT(), keys, p.Compat)
	return in, nil
}

// endpointOfFlags converts NAT's --endpoint, --endpoint-timeout and --dataset to an entry under sources.
func (x *finder) endpointOfFlags() (*config.Block, error) {
	p := x.plan
	if len(p.From) > 0 {
		return nil, exit.Usagef("--endpoint produces inputs and --from names existing ones: use one of the two")
	}
	if secret.Setting(p.Endpoint) {
		return nil, exit.Usagef("--endpoint has a password in it, which would be stored in the run folder: write the address under sources instead, with ${VARIABLE} for the password")
	}
	cfg, keys := schema.New[readers.EndpointConfig](), natKeys(p.config)
	cfg.Endpoint, cfg.Timeout, cfg.Dataset = p.Endpoint, p.EndpointTimeout, p.Dataset
	cfg.IDKey, cfg.QuestionKey, cfg.AnswerKey, cfg.TrajectoryKey = keys.IDKey, keys.QuestionKey, keys.AnswerKey,
		keys.TrajectoryKey
	if n := p.config.Eval.General.MaxConcurrency; n > 0 {
		cfg.Concurrency = n
	}
	if d := p.config.Eval.General.Dataset; cfg.Dataset == "" && d != nil {
		cfg.Dataset, _ = d.FilePath.(string)
	}
	if cfg.Dataset == "" {
		return nil, exit.Usagef("--endpoint needs questions: specify them with --dataset, or under eval.general.dataset")
	}
	return &config.Block{Type: readers.Endpoint().Type, Config: &cfg}, nil
}

// collect produces the inputs if the source runs an agent. Output from before an interruption is kept.
func (r *run) collect(ctx context.Context) error {
	in := r.in
	if in.collect == nil {
		return nil
	}
	paths, err := in.collect(ctx, source.Collection{
		Dir: r.plan.folder.Collected(), Warn: func(text string) { r.out.warn("%s", text) },
		Progress: func(p source.Progress) {
			r.out.tell(Progress{Step: p.Step, Text: p.Text, Done: p.Done, Total: p.Total, Unit: p.Unit})
		},
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		return exit.With(exit.Environment,
			fmt.Errorf("%w; `nat-go finetune resume %s` continues where this stopped", err, r.plan.folder))
	}
	in.paths = paths
	if err := in.identify(ctx); err != nil {
		return exit.With(exit.Environment, err)
	}
	return err
}
