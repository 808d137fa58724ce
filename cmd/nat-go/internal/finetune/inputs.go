package finetune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/dpo"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/builders/sft"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/compat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/internal/objects"
	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/internal/where"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// inputs holds the files of a run, one per collection run, and how to read them.
type inputs struct {
	plan   *plan
	block  *config.Block // the entry under sources; nil means none
	source source.Factory
	paths  []string
	// The field as holds all named paths if the source reads them as one input; paths then holds one joined string.
	as      []string
	began   []source.Input       // identities of the files when the run began
	where   runFilter            // selects the examples that are used
	prove   source.Prove         // checks examples with the tokenizer; nil means that examples can't be checked
	models  bool                 // whether to count the models that sampled the examples
	lower   string               // name of a builder for which lower scores are better, or ""
	parts   map[int]*source.Part // the part of each path that a shard reads; nil means that all paths are read in full
	planned []source.Input       // identities of the inputs in the shards' plan, if parts is set
	open    func(ctx context.Context, path string, opt source.Options) (source.Source, error)

	// collect makes the input files before they are read; nil means that the files already exist.
	collect func(ctx context.Context, c source.Collection) ([]string, error)
}

// findInputs decides what to read. It uses --from, or else --endpoint or the sources section, or else the location
// where NAT's evaluation wrote its output. A resumed run reads the same inputs again. A shard's Group stage and joined
// runs don't read inputs.
func findInputs(ctx context.Context, p *plan) (*inputs, error) {
	switch {
	case p.join != nil:
		return &inputs{plan: p, source: source.Factory{Type: p.join.parts[0].manifest.Source}}, nil
	case p.shard != nil && p.shard.stage == shards.Group:
		return &inputs{plan: p}, p.shard.checkGroupable()
	}
	in, err := chooseInputs(ctx, p)
	if err != nil {
		return nil, err
	}
	in.lower, in.models = lowerBuilder(p.config), p.asksForPolicy()
	in.where, _ = p.where.Split(where.ExampleFields)
	if err := in.identify(ctx); err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	switch {
	case p.shard != nil:
		return in, p.shard.takeFrom(in)
	case p.resume:
		return in, in.checkUnchanged(p.begun.Inputs)
	}
	return in, nil
}

// find is the stage that finds the inputs.
func (r *run) find(ctx context.Context) (err error) {
	p := r.plan
	if r.in, err = findInputs(ctx, p); err != nil || p.shard != nil {
		return err
	}
	r.out.Info("inputs found", "source", r.in.source.Type, "folder", string(p.folder))
	r.out.Warnings = append(r.out.Warnings, p.notes...)
	r.out.sum.RunDir, r.out.sum.DatasetDir, r.out.made.Source = string(p.folder), p.folder.Dataset(), r.in.source.Type
	return nil
}

// reads reports whether any part of path k is read.
func (in *inputs) reads(k int) bool { return in.parts == nil || in.parts[k] != nil }

// lowerBuilder returns the name of a built-in builder for which a lower score is better, or "".
func lowerBuilder(c *config.Config) string {
	for _, b := range c.Selected() {
		var direction string
		switch c := b.Config.(type) {
		case *dpo.Config:
			direction = c.ScoreDirection
		case *sft.Config:
			direction = c.Direction
		}
		if direction == "lower" {
			return b.Name
		}
	}
	return ""
}

// identify stores the identities of the files before they are read.
func (in *inputs) identify(ctx context.Context) (err error) {
	if in.as != nil {
		in.began = make([]source.Input, 1)
		in.began[0], err = source.Identify(ctx, in.as)
		return err
	}
	for _, path := range in.paths {
		one := source.Input{Path: path}
		if objects.Is(path) {
			if one, err = source.Identify(ctx, []string{path}); err != nil {
				return err
			}
		} else if info, err := os.Stat(path); err == nil { // in NAT's mode the file may be missing
			one.Size, one.ModTime = info.Size(), info.ModTime().UTC()
		}
		in.began = append(in.began, one)
	}
	return nil
}

// checkUnchanged returns an error if the inputs have changed since the run began.
func (in *inputs) checkUnchanged(began []source.Input) error {
	for k, now := range in.began {
		if k < len(began) && now.Same(began[k]) {
			continue
		}
		what := "was not among the run's inputs when it began"
		if k < len(began) {
			what = fmt.Sprintf("changed since the run began: %s then, %s now",
				describeInput(began[k]), describeInput(now))
		}
		return exit.Failedf("input %s %s. A run is never made from two versions of an input: start a new "+
			"run, or put the file back as it was", now.Path, what)
	}
	if len(began) > len(in.began) {
		return exit.Failedf("input %s, which the run began with, is gone: start a new run, or put the file back",
			began[len(in.began)].Path)
	}
	return nil
}

func describeInput(in source.Input) string {
	return fmt.Sprintf("%s, %d bytes of %s", in.Path, in.Size, in.ModTime.Format(time.RFC3339Nano))
}

// bytes returns the size of the inputs; 0 if it is unknown, as for compressed files and pipes.
func (in *inputs) bytes() (n int64) {
	for _, f := range in.began {
		if f.Size == 0 || isCompressed(f.Path) {
			return 0
		}
		n += f.Size
	}
	return n
}

func isCompressed(path string) bool {
	return strings.HasSuffix(path, ".gz") || strings.HasSuffix(path, ".zst")
}

func chooseInputs(ctx context.Context, p *plan) (_ *inputs, err error) {
	in := &inputs{plan: p}
	switch blocks := p.config.Sources; len(blocks) {
	case 0:
	case 1:
		in.block = &blocks[0]
	default:
		return nil, exit.Usagef("sources has %d entries, but a run reads only one: remove the others, or specify the input "+
			"with --from", len(blocks))
	}
	if live, err := in.useLiveSource(); live || err != nil {
		return in, err
	}
	block := in.block
	kind := p.Source
	if kind == "" && block != nil {
		kind = block.Type
	}
	kind = p.Compat.Source(kind)
	paths := p.From
	if len(paths) == 0 && block != nil {
		if f, ok := builtin.Source(block.Type); ok && f.Paths != nil {
			paths = f.Paths(block.Config)
		}
	}
	if len(paths) == 0 {
		if paths, err = natOutput(p.config.Eval); err != nil {
			return nil, err
		}
		kind = cmp.Or(kind, readers.NATType)
	}
	if in.paths, err = in.expand(paths, kind); err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	if kind == "" || block == nil && len(p.From) > 0 && p.Compat == compat.Own {
		return in, in.detect(ctx, kind)
	}
	f, ok := builtin.Source(kind)
	if !ok || f.Open == nil {
		return nil, exit.Usagef("unknown source %q; the sources are %s", kind, inspect.SourceNames())
	}
	in.read(f, in.sourceConfig(f))
	return in, nil
}

// detect determines how to read the inputs if this isn't configured.
func (in *inputs) detect(ctx context.Context, kind string) error {
	d, err := inspect.Detect(ctx, in.paths, inspect.Options{Paths: in.plan.From, Source: kind, Map: in.plan.keys})
	if err != nil {
		return err
	}
	f, config := d.Source, d.Config
	for _, guess := range d.Guessed {
		in.plan.note("the input %s: %s", d.Files[0], guess)
	}
	in.paths, in.plan.PassedOver = d.Files, d.Passed
	switch {
	case f.Type == readers.NATType:
		config = natKeys(in.plan.config)
	case f.OpenAll != nil: // this source reads all paths as one input, including folders
		if in.paths, err = source.Matches(in.plan.From); err != nil {
			return exit.With(exit.Environment, err)
		}
	}
	in.read(f, config)
	return nil
}

// read sets the source that reads the inputs. If the source reads all paths as one input, they are joined into one
// path.
func (in *inputs) read(f source.Factory, config any) {
	in.source = f
	if f.OpenAll != nil {
		in.as = in.paths
		in.paths = []string{strings.Join(in.as, ", ")}
	}
	in.open = func(ctx context.Context, path string, opt source.Options) (source.Source, error) {
		opt.Raw, opt.Prove = in.plan.Compat.RawInput(), in.prove
		if in.as != nil {
			return f.OpenAll(ctx, config, in.as, opt)
		}
		return f.Open(ctx, config, path, opt)
	}
}

// sourceConfig returns a source's config, which is the configured one if its type matches, and the defaults otherwise.
// Without an entry under sources, NAT's output is read with the keys that NAT's evaluation was given.
func (in *inputs) sourceConfig(f source.Factory) any {
	switch {
	case in.block != nil && in.block.Type == f.Type:
		return in.block.Config
	case in.block == nil && f.Type == readers.NATType:
		return natKeys(in.plan.config)
	}
	cfg := f.New()
	schema.Defaults(cfg)
	return cfg
}

// expand returns the files that paths refer to.
func (in *inputs) expand(paths []string, kind string) ([]string, error) {
	name := readers.NATFile
	if f, ok := builtin.Source(kind); ok && f.OpenAll != nil {
		return source.Matches(paths)
	} else if ok && f.File != "" {
		name = f.File
	}
	files, err := in.plan.Compat.Expand(paths, name, in.plan.trainer.NumRuns)
	if err == nil && in.plan.Compat.RunsCounted() && in.plan.trainer.NumRuns != len(files) &&
		in.plan.config.Has("trainers", in.plan.config.Finetuning.Trainer, "num_runs") {
		in.plan.note("num_runs is %d, but there are %d inputs: each is read once", in.plan.trainer.NumRuns, len(files))
	}
	return files, err
}

// natOutput returns where `nat eval` put its output under this configuration.
func natOutput(e config.Eval) ([]string, error) {
	g := e.General
	dir := g.OutputDir
	if g.Output != nil && g.Output.Dir != "" {
		dir = g.Output.Dir
	}
	if g.Dataset != nil && g.Dataset.Structure.Disable {
		return nil, exit.Usagef("eval.general.dataset.structure.disable is true: NAT then writes answers without " +
			"ids and steps, so no records can be made from them")
	}
	if dir == "" {
		return nil, exit.Usagef("nothing to read: specify inputs with --from, or under sources")
	}
	files, err := source.Expand([]string{dir}, readers.NATFile)
	if err != nil || len(files) == 0 {
		return nil, exit.Environmentf("no %s in %s: run `nat eval` first, or specify the input with --from",
			readers.NATFile, dir)
	}
	return []string{dir}, nil
}

// natKeys returns the keys that NAT's evaluation writes under this configuration.
func natKeys(c *config.Config) *readers.NATConfig {
	cfg := schema.New[readers.NATConfig]()
	if d := c.Eval.General.Dataset; d != nil {
		cfg.IDKey, cfg.QuestionKey, cfg.AnswerKey, cfg.TrajectoryKey = d.IDKey, d.Structure.QuestionKey,
			d.Structure.GeneratedAnswerKey, d.Structure.TrajectoryKey
	}
	return &cfg
}

// useLiveSource prepares for inputs that running an agent will produce. It returns false if neither --endpoint nor the
// entry under sources calls for that. The source's output is written to the run folder, one file per collection run in
// the workflow_output.json format, and is then read like any other input.
func (in *inputs) useLiveSource() (live bool, err error) {
	block := in.block
	if in.plan.Endpoint != "" {
		if block, err = in.endpointOfFlags(); err != nil {
			return false, err
		}
	}
	if block == nil || len(in.plan.From) > 0 || in.plan.Source != "" {
		return false, nil
	}
	f, ok := builtin.Source(block.Type)
	if !ok || f.Collect == nil {
		return false, nil
	}
	if in.plan.planning {
		return false, exit.Usagef("--plan does not run an agent: collect the runs first, and specify them with --from")
	}
	in.collect = func(ctx context.Context, c source.Collection) ([]string, error) {
		c.Runs, c.NATConfig = in.plan.trainer.NumRuns, in.plan.NATConfig
		c.RunsSet = in.plan.config.Has("trainers", in.plan.config.Finetuning.Trainer, "num_runs")
		return f.Collect(ctx, block.Config, c)
	}
	var keys any = natKeys(in.plan.config)
	if f.Output != nil {
		keys = f.Output(block.Config)
	}
	in.read(readers.NAT(), keys)
	return true, nil
}

// endpointOfFlags converts NAT's --endpoint, --endpoint-timeout and --dataset to an entry under sources.
func (in *inputs) endpointOfFlags() (*config.Block, error) {
	if len(in.plan.From) > 0 {
		return nil, exit.Usagef("--endpoint produces inputs and --from names existing ones: use one of the two")
	}
	if secret.Setting(in.plan.Endpoint) {
		return nil, exit.Usagef("--endpoint has a password in it, which would be stored in the run folder: write the address under sources instead, with ${VARIABLE} for the password")
	}
	cfg, keys := schema.New[readers.EndpointConfig](), natKeys(in.plan.config)
	cfg.Endpoint, cfg.Timeout, cfg.Dataset = in.plan.Endpoint, in.plan.EndpointTimeout, in.plan.Dataset
	cfg.IDKey, cfg.QuestionKey, cfg.AnswerKey, cfg.TrajectoryKey = keys.IDKey, keys.QuestionKey, keys.AnswerKey,
		keys.TrajectoryKey
	if n := in.plan.config.Eval.General.MaxConcurrency; n > 0 {
		cfg.Concurrency = n
	}
	if d := in.plan.config.Eval.General.Dataset; cfg.Dataset == "" && d != nil {
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
		Dir: r.plan.folder.Collected(), Warn: func(text string) { r.out.Warn("%s", text) },
		Progress: func(p source.Progress) {
			r.out.Tell(stage.Progress{Step: p.Step, Text: p.Text, Done: p.Done, Total: p.Total, Unit: p.Unit})
		},
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		return exit.With(exit.Environment,
			fmt.Errorf("%w; `nat-go finetune resume %s` continues where this stopped", err, r.plan.folder))
	}
	in.paths = paths
	return cmp.Or(exit.Default(exit.Environment, in.identify(ctx)), err)
}

// canProve reports whether the run can check the claims of its inputs.
func (in *inputs) canProve() bool {
	return in.plan.config.Collator.Tokenizer != "" && in.plan.config.Collator.Policy != "" && in.source.OpenAll != nil
}

// asksForPolicy reports whether the inputs must name the model to be trained, because the run makes token rows from
// rollouts and the configuration doesn't name the model.
func (p *plan) asksForPolicy() bool {
	if p.config.Collator.Tokenizer == "" || p.config.Collator.Policy != "" {
		return false
	}
	return slices.ContainsFunc(p.config.Selected(), func(b config.Block) bool {
		for _, own := range builtin.Builders() {
			if i := own.Info(); i.Name == b.Type {
				return slices.Contains(i.Kinds, builders.KindRollout)
			}
		}
		return true // a plugin's builder may make rollouts
	})
}

// countModels counts an example once for each model that sampled any part of it.
func countModels(models map[string]int64, ex *ttc.Example) {
	var names []string
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for i := range ex.Graph.Nodes {
		if n := &ex.Graph.Nodes[i]; n.Message.Role == "assistant" && n.Sampled != ttc.No {
			if n.Policy == "" {
				add(ex.Policy)
			}
			add(n.Policy)
		}
	}
	if len(ex.Candidates) > 0 {
		add(ex.Policy)
	}
	for _, name := range names {
		models[name]++
	}
}
