package finetune

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"github.com/nat-go/nat-go/builders/yamldoc"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/ttc/source/command"
	"github.com/nat-go/nat-go/ttc/source/endpoint"
	"github.com/nat-go/nat-go/ttc/source/nat"
)

// The types of source that make agent runs rather than find them. What they make lies in the run folder, in the form of
// workflow_output.json, one file a collection run; from there on the run is like any other.
const (
	endpointType = "endpoint"
	commandType  = "command"
)

// collector makes the inputs of a run and returns their paths.
type collector func(ctx context.Context, r *run, dir string) ([]string, error)

// live sets up a source that makes agent runs, if the block is one. num_runs says how often, where the YAML sets it.
func (p *plan) live(block *config.Block) (in inputs, is bool, err error) {
	if p.Endpoint != "" {
		if block, err = p.endpointOfFlags(); err != nil {
			return in, false, err
		}
	}
	if block == nil || len(p.From) > 0 || p.Source != "" {
		return in, false, nil
	}
	in.kind = workflowOutput
	switch c := block.Config.(type) {
	case *endpoint.Config:
		runs := p.trainer.NumRuns
		in.collect = func(ctx context.Context, r *run, dir string) ([]string, error) {
			return r.askEndpoint(ctx, *c, runs, dir)
		}
		in.open = openNAT(endpointKeys(*c), p.Compat)
		return in, true, nil
	case *command.Config:
		cfg := *c
		if p.config.Has("trainers", p.config.Finetuning.Trainer, "num_runs") {
			cfg.Runs = p.trainer.NumRuns
		}
		if cfg.NATConfig == "" {
			cfg.NATConfig = p.NATConfig
		}
		in.collect = func(ctx context.Context, r *run, dir string) ([]string, error) { return r.runCommand(ctx, cfg, dir) }
		in.open = openNAT(p.natKeys(), p.Compat)
		return in, true, nil
	}
	return in, false, nil
}

// endpointOfFlags is NAT's --endpoint, --endpoint_timeout and --dataset as a source.
func (p *plan) endpointOfFlags() (*config.Block, error) {
	if len(p.From) > 0 {
		return nil, exit.Usagef("--endpoint makes inputs and --from names them: use one of the two")
	}
	if yamldoc.HoldsSecret(p.Endpoint) {
		return nil, exit.Usagef("--endpoint has a password in it, which would stand in the run folder: write the address under sources instead, with ${VARIABLE} for the password")
	}
	cfg, keys := endpoint.DefaultConfig(), p.natKeys()
	cfg.Endpoint, cfg.Timeout, cfg.Dataset = p.Endpoint, p.EndpointTimeout, p.Dataset
	cfg.IDKey, cfg.QuestionKey, cfg.AnswerKey, cfg.TrajectoryKey = keys.IDKey, keys.QuestionKey, keys.AnswerKey, keys.TrajectoryKey
	if n := p.config.Eval.General.MaxConcurrency; n > 0 {
		cfg.Concurrency = n
	}
	if d := p.config.Eval.General.Dataset; cfg.Dataset == "" && d != nil {
		cfg.Dataset, _ = d.FilePath.(string)
	}
	if cfg.Dataset == "" {
		return nil, exit.Usagef("--endpoint needs questions: name them with --dataset, or under eval.general.dataset")
	}
	return &config.Block{Config: &cfg}, nil
}

// collect makes the inputs, where the source does that. What was made before an interruption is kept.
func (r *run) collect(ctx context.Context) error {
	make := r.plan.inputs.collect
	if make == nil {
		return nil
	}
	paths, err := make(ctx, r, r.plan.folder.Collected())
	if err != nil && !errors.Is(err, context.Canceled) {
		return exit.With(exit.Environment, fmt.Errorf("%w; `nat-go finetune resume %s` goes on where this stopped", err, r.plan.folder))
	}
	r.plan.inputs.paths = paths
	for _, path := range paths {
		r.plan.inputs.began = append(r.plan.inputs.began, identify(path))
	}
	return err
}

func (r *run) askEndpoint(ctx context.Context, cfg endpoint.Config, runs int, dir string) (paths []string, err error) {
	for k := range runs {
		path, report, err := endpoint.Collect(ctx, cfg, filepath.Join(dir, "run"+strconv.Itoa(k)), func(done, total int) {
			r.tell(Progress{Step: fmt.Sprintf("collect run %d of %d", k+1, runs), Done: int64(done), Total: int64(total), Unit: "question"})
		})
		if err != nil {
			return paths, err
		}
		if report.Raised > 0 {
			r.warn("the workflow raised on %d of %d questions; the first: %s", report.Raised, report.Questions, report.First)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

func (r *run) runCommand(ctx context.Context, cfg command.Config, dir string) ([]string, error) {
	r.tell(Progress{Step: "collect", Text: fmt.Sprintf("collect: %s, %d times", cfg.Command[0], cfg.Runs)})
	return command.Collect(ctx, cfg, dir, io.Discard)
}

func endpointKeys(c endpoint.Config) nat.Config {
	cfg := nat.DefaultConfig()
	cfg.IDKey, cfg.QuestionKey, cfg.AnswerKey, cfg.TrajectoryKey, cfg.MaxExample = c.IDKey, c.QuestionKey, c.AnswerKey, c.TrajectoryKey, c.MaxExample
	return cfg
}
