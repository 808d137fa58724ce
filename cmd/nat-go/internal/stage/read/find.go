package read

import (
	"cmp"
	"context"
	"fmt"
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
	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/internal/where"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// Choice is the part of a request for a run that chooses the inputs.
type Choice struct {
	From       []string             // inputs, in order of collection run; empty means the configuration's
	PassedOver []inspect.PassedOver `json:",omitempty"` // files in input folders that are skipped
	// `_type` of the source; empty means the configuration's, or else the one that matches the input
	Source string
	Compat compat.Mode // the program whose behaviour the run reproduces
	Limit  int64       // at most this many examples per input; 0 means all

	Endpoint        string        // address of a `nat serve` to collect from instead of reading inputs
	EndpointTimeout time.Duration // timeout for one answer
	Dataset         string        // file with the questions; empty means those in eval.general.dataset

	// NATConfig is the configuration that a command source copies for its program. It defaults to the run's, and is
	// stored because the run's is in another file when the run is resumed.
	NATConfig string
}

// Options are the settings that determine which inputs a run reads, and how.
type Options struct {
	Choice
	Config   *config.Config
	Map      map[string]string // meanings of the input's keys
	NumRuns  int               // the trainer's num_runs
	Existing bool              // whether the inputs must exist, so that no agent is run

	Where  where.Filter[*where.Subject] // filter from dataset.where
	Scores *readers.Scores              // scores from dataset.scores; nil means none
	Rules  *readers.ScoreRules          // rules of dataset.score_rules; nil means none
}

// Find finds a run's inputs. It uses --from, or else --endpoint or the sources section, or else the location where
// NAT's evaluation wrote its output.
func Find(ctx context.Context, opt Options) (*Inputs, error) {
	f := &finder{Options: opt, in: &Inputs{
		opt: opt, PassedOver: opt.PassedOver, lower: lowerBuilder(opt.Config), models: asksForPolicy(opt.Config),
	}}
	if err := f.choose(ctx); err != nil {
		return nil, err
	}
	in, c := f.in, opt.Config.Collator
	in.CanProve = c.Tokenizer != "" && c.Policy != "" && in.as != nil
	in.where, _ = opt.Where.Split(where.ExampleFields)
	if err := in.identify(ctx); err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	return in, nil
}

// finder finds a run's inputs.
type finder struct {
	Options
	block *config.Block // the entry under sources; nil means none
	in    *Inputs
}

// choose determines the inputs and the source.
func (f *finder) choose(ctx context.Context) (err error) {
	switch blocks := f.Config.Sources; len(blocks) {
	case 0:
	case 1:
		f.block = &blocks[0]
	default:
		return exit.Usagef("sources has %d entries, but a run reads only one: remove the others, or specify the input "+
			"with --from", len(blocks))
	}
	if live, err := f.useLiveSource(); live || err != nil {
		return err
	}
	block := f.block
	kind := f.Source
	if kind == "" && block != nil {
		kind = block.Type
	}
	kind = f.Compat.Source(kind)
	paths := f.From
	if len(paths) == 0 && block != nil {
		if factory, ok := builtin.Source(block.Type); ok && factory.Paths != nil {
			paths = factory.Paths(block.Config)
		}
	}
	if len(paths) == 0 {
		if paths, err = natOutput(f.Config.Eval); err != nil {
			return err
		}
		kind = cmp.Or(kind, readers.NATType)
	}
	if f.in.paths, err = f.expand(paths, kind); err != nil {
		return exit.With(exit.Environment, err)
	}
	if kind == "" || block == nil && len(f.From) > 0 && f.Compat == compat.Own {
		return f.detect(ctx, kind)
	}
	factory, ok := builtin.Source(kind)
	if !ok || factory.Open == nil {
		return exit.Usagef("unknown source %q; the sources are %s", kind, inspect.SourceNames())
	}
	f.read(factory, f.sourceConfig(factory))
	return nil
}

// detect determines how to read the inputs if this isn't configured.
func (f *finder) detect(ctx context.Context, kind string) error {
	d, err := inspect.Detect(ctx, f.in.paths, inspect.Options{Paths: f.From, Source: kind, Map: f.Map})
	if err != nil {
		return err
	}
	factory, config := d.Source, d.Config
	for _, guess := range d.Guessed {
		f.note("the input %s: %s", d.Files[0], guess)
	}
	f.in.paths, f.in.PassedOver = d.Files, d.Passed
	switch {
	case factory.Type == readers.NATType:
		config = natKeys(f.Config)
	case factory.OpenAll != nil: // this source reads all paths as one input, including folders
		if f.in.paths, err = source.Matches(f.From); err != nil {
			return exit.With(exit.Environment, err)
		}
	}
	f.read(factory, config)
	return nil
}

// read sets the source that reads the inputs. If the source reads all paths as one input, they are joined into one
// path.
func (f *finder) read(factory source.Factory, config any) {
	f.in.Type = factory.Type
	if factory.OpenAll != nil {
		f.in.as = f.in.paths
		f.in.paths = []string{strings.Join(f.in.as, ", ")}
	}
	f.in.open = func(ctx context.Context, path string, opt source.Options) (source.Source, error) {
		opt.Raw, opt.Prove = f.Compat.RawInput(), f.in.Prove
		if f.in.as != nil {
			return factory.OpenAll(ctx, config, f.in.as, opt)
		}
		return factory.Open(ctx, config, path, opt)
	}
}

// sourceConfig returns a source's configuration. It is the configured one if its type matches, and the defaults
// otherwise. Without an entry under sources, NAT's output is read with the keys configured for NAT's evaluation.
func (f *finder) sourceConfig(factory source.Factory) any {
	switch {
	case f.block != nil && f.block.Type == factory.Type:
		return f.block.Config
	case f.block == nil && factory.Type == readers.NATType:
		return natKeys(f.Config)
	}
	cfg := factory.New()
	schema.Defaults(cfg)
	return cfg
}

// expand returns the files that paths refer to.
func (f *finder) expand(paths []string, kind string) ([]string, error) {
	name := readers.NATFile
	if factory, ok := builtin.Source(kind); ok && factory.OpenAll != nil {
		return source.Matches(paths)
	} else if ok && factory.File != "" {
		name = factory.File
	}
	files, err := f.Compat.Expand(paths, name, f.NumRuns)
	if err == nil && f.Compat.RunsCounted() && f.NumRuns != len(files) &&
		f.Config.Has("trainers", f.Config.Finetuning.Trainer, "num_runs") {
		f.note("num_runs is %d, but there are %d inputs: each is read once", f.NumRuns, len(files))
	}
	return files, err
}

// natOutput returns the folder to which `nat eval` writes its output with this configuration.
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

// natKeys returns the keys that NAT's evaluation writes with this configuration.
func natKeys(c *config.Config) *readers.NATConfig {
	cfg := schema.New[readers.NATConfig]()
	if d := c.Eval.General.Dataset; d != nil {
		cfg.IDKey, cfg.QuestionKey, cfg.AnswerKey, cfg.TrajectoryKey = d.IDKey, d.Structure.QuestionKey,
			d.Structure.GeneratedAnswerKey, d.Structure.TrajectoryKey
	}
	return &cfg
}

// useLiveSource sets up a source that runs an agent. It returns false if neither --endpoint nor the entry under sources
// specifies such a source. The source's output is written to the run folder, one file per collection run in the
// workflow_output.json format, and is then read like any other input.
func (f *finder) useLiveSource() (live bool, err error) {
	block := f.block
	if f.Endpoint != "" {
		if block, err = f.endpointOfFlags(); err != nil {
			return false, err
		}
	}
	if block == nil || len(f.From) > 0 || f.Source != "" {
		return false, nil
	}
	factory, ok := builtin.Source(block.Type)
	if !ok || factory.Collect == nil {
		return false, nil
	}
	if f.Existing {
		return false, exit.Usagef("--plan does not run an agent: collect the runs first, and specify them with --from")
	}
	f.in.collect = func(ctx context.Context, c source.Collection) ([]string, error) {
		c.Runs, c.NATConfig = f.NumRuns, f.NATConfig
		c.RunsSet = f.Config.Has("trainers", f.Config.Finetuning.Trainer, "num_runs")
		return factory.Collect(ctx, block.Config, c)
	}
	var keys any = natKeys(f.Config)
	if factory.Output != nil {
		keys = factory.Output(block.Config)
	}
	f.read(readers.NAT(), keys)
	return true, nil
}

// endpointOfFlags converts NAT's --endpoint, --endpoint-timeout and --dataset to an entry under sources.
func (f *finder) endpointOfFlags() (*config.Block, error) {
	if len(f.From) > 0 {
		return nil, exit.Usagef("--endpoint produces inputs and --from names existing ones: use one of the two")
	}
	if secret.Setting(f.Endpoint) {
		return nil, exit.Usagef("--endpoint has a password in it, which would be stored in the run folder: write the address under sources instead, with ${VARIABLE} for the password")
	}
	cfg, keys := schema.New[readers.EndpointConfig](), natKeys(f.Config)
	cfg.Endpoint, cfg.Timeout, cfg.Dataset = f.Endpoint, f.EndpointTimeout, f.Dataset
	cfg.IDKey, cfg.QuestionKey, cfg.AnswerKey, cfg.TrajectoryKey = keys.IDKey, keys.QuestionKey, keys.AnswerKey,
		keys.TrajectoryKey
	if n := f.Config.Eval.General.MaxConcurrency; n > 0 {
		cfg.Concurrency = n
	}
	if d := f.Config.Eval.General.Dataset; cfg.Dataset == "" && d != nil {
		cfg.Dataset, _ = d.FilePath.(string)
	}
	if cfg.Dataset == "" {
		return nil, exit.Usagef("--endpoint requires questions: set --dataset or eval.general.dataset")
	}
	return &config.Block{Type: readers.Endpoint().Type, Config: &cfg}, nil
}

func (f *finder) note(format string, a ...any) {
	f.in.Notes = append(f.in.Notes, fmt.Sprintf(format, a...))
}

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

// asksForPolicy reports whether the inputs must name the model to be trained, because the run makes token rows from
// rollouts and the configuration doesn't name the model.
func asksForPolicy(c *config.Config) bool {
	if c.Collator.Tokenizer == "" || c.Collator.Policy != "" {
		return false
	}
	return slices.ContainsFunc(c.Selected(), func(b config.Block) bool {
		for _, own := range builtin.Builders() {
			if i := own.Info(); i.Name == b.Type {
				return slices.Contains(i.Kinds, builders.KindRollout)
			}
		}
		return true // a plugin's builder may make rollouts
	})
}
