package read

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/internal/objects"
	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/internal/where"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// Options are the settings that decide which inputs a run reads, and how.
type Options struct {
	Config    *config.Config
	From      []string          // paths; empty means the configuration's
	Source    string            // `_type` of the source; empty means the configuration's, or the one that matches the input
	Map       map[string]string // meanings of the input's keys
	Compat    compat.Mode
	NumRuns   int    // num_runs
	Limit     int64  // at most this many examples per input; 0 means all
	NATConfig string // configuration that a command source copies for its program
	Existing  bool   // whether a source may not run an agent

	Endpoint        string        // address of a `nat serve` to collect from
	EndpointTimeout time.Duration // timeout for one answer
	Dataset         string        // file with the questions

	Where  where.Filter[*where.Subject] // dataset.where
	Scores *readers.Scores              // scores from dataset.scores; nil means none
	Rules  *readers.ScoreRules          // rules of dataset.score_rules; nil means none
}

// Inputs holds the files of a run, one per collection run, and how to read them.
type Inputs struct {
	Options
	Type       string               // the source's type
	Began      []source.Input       // identities of the files when the run began
	PassedOver []inspect.PassedOver // files in input folders that are skipped
	Notes      []string             // remarks, which become warnings
	Prove      source.Prove         // checks examples with the tokenizer; nil means that examples can't be checked

	block  *config.Block // the entry under sources; nil means none
	source source.Factory
	paths  []string
	// The field as holds all named paths if the source reads them as one input; paths then holds one joined string.
	as      []string
	where   where.Filter[*where.Subject] // selects the examples that are used
	models  bool                         // whether to count the models that sampled the examples
	lower   string                       // name of a builder for which lower scores are better, or ""
	parts   map[int]*source.Part         // the part of each path that a shard reads; nil means that all paths are read in full
	planned []source.Input               // identities of the inputs in the shards' plan, if parts is set
	open    func(ctx context.Context, path string, opt source.Options) (source.Source, error)
	ahead   *reader // a reader that has already started to read the first input; nil once used

	// collect makes the input files before they are read; nil means that the files already exist.
	collect func(ctx context.Context, c source.Collection) ([]string, error)
}

// Find decides what to read. It uses --from, or else --endpoint or the sources section, or else the location where NAT's
// evaluation wrote its output.
func Find(ctx context.Context, opt Options) (*Inputs, error) {
	in := &Inputs{Options: opt}
	if err := in.choose(ctx); err != nil {
		return nil, err
	}
	in.lower, in.models = lowerBuilder(in.Config), in.asksForPolicy()
	in.where, _ = in.Where.Split(where.ExampleFields)
	if err := in.identify(ctx); err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	return in, nil
}

// Runs implements stage.Inputs.
func (in *Inputs) Runs() int { return len(in.paths) }

// Reads implements stage.Inputs.
func (in *Inputs) Reads(run int) bool { return in.parts == nil || in.parts[run] != nil }

// Size implements stage.Inputs. The total is unknown for compressed files and pipes.
func (in *Inputs) Size(run int) (before, total int64) {
	known := true
	for k, f := range in.Began {
		if k < run {
			before += f.Size
		}
		total, known = total+f.Size, known && f.Size > 0 && !IsCompressed(f.Path)
	}
	if !known {
		total = 0
	}
	return before, total
}

// Open implements stage.Inputs. It reuses the reader that was started ahead of time.
func (in *Inputs) Open(ctx context.Context, run int, after *source.Cursor) stage.Reader {
	rd := in.ahead
	if rd != nil && run == 0 {
		in.ahead = nil
	} else {
		rd = newReader(ctx, in, run, after)
	}
	rd.most.Store(steadyBytes)
	return rd
}

// Ahead starts reading the first input while the builders start. It does nothing if reading has to wait for the
// tokenizer that checks claims, or for the agent that produces the input. It doesn't open pipes either, because that may
// block.
func (in *Inputs) Ahead(ctx context.Context) {
	if !in.CanProve() && in.collect == nil && len(in.Began) > 0 && in.Began[0].Size > 0 {
		in.ahead = newReader(ctx, in, 0, nil)
	}
}

// Close stops the reader that was started ahead of time, if it wasn't used.
func (in *Inputs) Close() {
	if in != nil && in.ahead != nil {
		in.ahead.Close()
	}
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

// identify stores the identities of the files before they are read.
func (in *Inputs) identify(ctx context.Context) (err error) {
	if in.as != nil {
		in.Began = make([]source.Input, 1)
		in.Began[0], err = source.Identify(ctx, in.as)
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
		in.Began = append(in.Began, one)
	}
	return nil
}

// CheckUnchanged returns an error if the inputs have changed since the run began.
func (in *Inputs) CheckUnchanged(began []source.Input) error {
	for k, now := range in.Began {
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
	if len(began) > len(in.Began) {
		return exit.Failedf("input %s, which the run began with, is gone: start a new run, or put the file back",
			began[len(in.Began)].Path)
	}
	return nil
}

func describeInput(in source.Input) string {
	return fmt.Sprintf("%s, %d bytes of %s", in.Path, in.Size, in.ModTime.Format(time.RFC3339Nano))
}

// IsCompressed reports whether the file is compressed, by its name.
func IsCompressed(path string) bool {
	return strings.HasSuffix(path, ".gz") || strings.HasSuffix(path, ".zst")
}

// choose determines the inputs and the source.
func (in *Inputs) choose(ctx context.Context) (err error) {
	switch blocks := in.Config.Sources; len(blocks) {
	case 0:
	case 1:
		in.block = &blocks[0]
	default:
		return exit.Usagef("sources has %d entries, but a run reads only one: remove the others, or specify the input "+
			"with --from", len(blocks))
	}
	if live, err := in.useLiveSource(); live || err != nil {
		return err
	}
	block := in.block
	kind := in.Source
	if kind == "" && block != nil {
		kind = block.Type
	}
	kind = in.Compat.Source(kind)
	paths := in.From
	if len(paths) == 0 && block != nil {
		if f, ok := builtin.Source(block.Type); ok && f.Paths != nil {
			paths = f.Paths(block.Config)
		}
	}
	if len(paths) == 0 {
		if paths, err = natOutput(in.Config.Eval); err != nil {
			return err
		}
		kind = cmp.Or(kind, readers.NATType)
	}
	if in.paths, err = in.expand(paths, kind); err != nil {
		return exit.With(exit.Environment, err)
	}
	if kind == "" || block == nil && len(in.From) > 0 && in.Compat == compat.Own {
		return in.detect(ctx, kind)
	}
	f, ok := builtin.Source(kind)
	if !ok || f.Open == nil {
		return exit.Usagef("unknown source %q; the sources are %s", kind, inspect.SourceNames())
	}
	in.read(f, in.sourceConfig(f))
	return nil
}

// detect determines how to read the inputs if this isn't configured.
func (in *Inputs) detect(ctx context.Context, kind string) error {
	d, err := inspect.Detect(ctx, in.paths, inspect.Options{Paths: in.From, Source: kind, Map: in.Map})
	if err != nil {
		return err
	}
	f, config := d.Source, d.Config
	for _, guess := range d.Guessed {
		in.note("the input %s: %s", d.Files[0], guess)
	}
	in.paths, in.PassedOver = d.Files, d.Passed
	switch {
	case f.Type == readers.NATType:
		config = natKeys(in.Config)
	case f.OpenAll != nil: // this source reads all paths as one input, including folders
		if in.paths, err = source.Matches(in.From); err != nil {
			return exit.With(exit.Environment, err)
		}
	}
	in.read(f, config)
	return nil
}

// read sets the source that reads the inputs. If the source reads all paths as one input, they are joined into one
// path.
func (in *Inputs) read(f source.Factory, config any) {
	in.source, in.Type = f, f.Type
	if f.OpenAll != nil {
		in.as = in.paths
		in.paths = []string{strings.Join(in.as, ", ")}
	}
	in.open = func(ctx context.Context, path string, opt source.Options) (source.Source, error) {
		opt.Raw, opt.Prove = in.Compat.RawInput(), in.Prove
		if in.as != nil {
			return f.OpenAll(ctx, config, in.as, opt)
		}
		return f.Open(ctx, config, path, opt)
	}
}

// sourceConfig returns a source's config, which is the configured one if its type matches, and the defaults otherwise.
// Without an entry under sources, NAT's output is read with the keys that NAT's evaluation was given.
func (in *Inputs) sourceConfig(f source.Factory) any {
	switch {
	case in.block != nil && in.block.Type == f.Type:
		return in.block.Config
	case in.block == nil && f.Type == readers.NATType:
		return natKeys(in.Config)
	}
	cfg := f.New()
	schema.Defaults(cfg)
	return cfg
}

// expand returns the files that paths refer to.
func (in *Inputs) expand(paths []string, kind string) ([]string, error) {
	name := readers.NATFile
	if f, ok := builtin.Source(kind); ok && f.OpenAll != nil {
		return source.Matches(paths)
	} else if ok && f.File != "" {
		name = f.File
	}
	files, err := in.Compat.Expand(paths, name, in.NumRuns)
	if err == nil && in.Compat.RunsCounted() && in.NumRuns != len(files) &&
		in.Config.Has("trainers", in.Config.Finetuning.Trainer, "num_runs") {
		in.note("num_runs is %d, but there are %d inputs: each is read once", in.NumRuns, len(files))
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
func (in *Inputs) useLiveSource() (live bool, err error) {
	block := in.block
	if in.Endpoint != "" {
		if block, err = in.endpointOfFlags(); err != nil {
			return false, err
		}
	}
	if block == nil || len(in.From) > 0 || in.Source != "" {
		return false, nil
	}
	f, ok := builtin.Source(block.Type)
	if !ok || f.Collect == nil {
		return false, nil
	}
	if in.Existing {
		return false, exit.Usagef("--plan does not run an agent: collect the runs first, and specify them with --from")
	}
	in.collect = func(ctx context.Context, c source.Collection) ([]string, error) {
		c.Runs, c.NATConfig = in.NumRuns, in.NATConfig
		c.RunsSet = in.Config.Has("trainers", in.Config.Finetuning.Trainer, "num_runs")
		return f.Collect(ctx, block.Config, c)
	}
	var keys any = natKeys(in.Config)
	if f.Output != nil {
		keys = f.Output(block.Config)
	}
	in.read(readers.NAT(), keys)
	return true, nil
}

// endpointOfFlags converts NAT's --endpoint, --endpoint-timeout and --dataset to an entry under sources.
func (in *Inputs) endpointOfFlags() (*config.Block, error) {
	if len(in.From) > 0 {
		return nil, exit.Usagef("--endpoint produces inputs and --from names existing ones: use one of the two")
	}
	if secret.Setting(in.Endpoint) {
		return nil, exit.Usagef("--endpoint has a password in it, which would be stored in the run folder: write the address under sources instead, with ${VARIABLE} for the password")
	}
	cfg, keys := schema.New[readers.EndpointConfig](), natKeys(in.Config)
	cfg.Endpoint, cfg.Timeout, cfg.Dataset = in.Endpoint, in.EndpointTimeout, in.Dataset
	cfg.IDKey, cfg.QuestionKey, cfg.AnswerKey, cfg.TrajectoryKey = keys.IDKey, keys.QuestionKey, keys.AnswerKey,
		keys.TrajectoryKey
	if n := in.Config.Eval.General.MaxConcurrency; n > 0 {
		cfg.Concurrency = n
	}
	if d := in.Config.Eval.General.Dataset; cfg.Dataset == "" && d != nil {
		cfg.Dataset, _ = d.FilePath.(string)
	}
	if cfg.Dataset == "" {
		return nil, exit.Usagef("--endpoint needs questions: specify them with --dataset, or under eval.general.dataset")
	}
	return &config.Block{Type: readers.Endpoint().Type, Config: &cfg}, nil
}

// Collect produces the inputs if the source runs an agent. Output from before an interruption is kept.
func (in *Inputs) Collect(ctx context.Context, a *stage.Account, folder runfolder.Folder) error {
	if in.collect == nil {
		return nil
	}
	paths, err := in.collect(ctx, source.Collection{
		Dir: folder.Collected(), Warn: func(text string) { a.Warn("%s", text) },
		Progress: func(p source.Progress) {
			a.Tell(stage.Progress{Step: p.Step, Text: p.Text, Done: p.Done, Total: p.Total, Unit: p.Unit})
		},
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		return exit.With(exit.Environment,
			fmt.Errorf("%w; `nat-go finetune resume %s` continues where this stopped", err, folder))
	}
	in.paths = paths
	return cmp.Or(exit.Default(exit.Environment, in.identify(ctx)), err)
}

func (in *Inputs) note(format string, a ...any) {
	in.Notes = append(in.Notes, fmt.Sprintf(format, a...))
}

// CanProve reports whether the run can check the claims of its inputs.
func (in *Inputs) CanProve() bool {
	return in.Config.Collator.Tokenizer != "" && in.Config.Collator.Policy != "" && in.source.OpenAll != nil
}

// asksForPolicy reports whether the inputs must name the model to be trained, because the run makes token rows from
// rollouts and the configuration doesn't name the model.
func (in *Inputs) asksForPolicy() bool {
	if in.Config.Collator.Tokenizer == "" || in.Config.Collator.Policy != "" {
		return false
	}
	return slices.ContainsFunc(in.Config.Selected(), func(b config.Block) bool {
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

// Restrict restricts reading to a shard's parts of the inputs in a plan. It returns an error if the inputs don't match the
// plan.
func (in *Inputs) Restrict(p *shards.Plan, parts []shards.Part) error {
	if in.collect != nil || len(in.paths) != len(p.Inputs) {
		return exit.Failedf("expected %s, got %d: the plan was made from other inputs",
			ledger.Quantity(int64(len(p.Inputs)), "input"), len(in.paths))
	}
	in.parts = map[int]*source.Part{}
	for i := range parts {
		part := &parts[i]
		was, now := p.Inputs[part.Input], in.Began[part.Input]
		if was.Path != now.Path || was.Size != now.Size {
			return exit.Failedf("input %s has %d bytes, and %s had %d when the plan was made: make a plan in "+
				"another folder, or put the file back as it was", now.Path, now.Size, was.Path, was.Size)
		}
		in.parts[part.Input] = &part.Part
		in.planned = p.Inputs
	}
	return nil
}

// ended returns the error that stops reading path k at the limit or at the end of the shard's part. It is io.EOF, or a
// different error if the part doesn't end where the plan says.
func (in *Inputs) ended(k int, at source.Cursor) error {
	if p := in.parts[k]; p != nil {
		if at.Run = p.To.Run; at != p.To {
			return in.otherThanPlanned(k)
		}
	}
	return io.EOF
}

// exhausted returns io.EOF at the end of path k. For a shard, it returns a different error if the content doesn't match
// the plan.
func (in *Inputs) exhausted(k int, read []source.Input) error {
	n := len(read)
	if in.planned != nil && (n == 0 || read[n-1].Sum != in.planned[k].Sum || in.parts[k].To.Row > 0) {
		return in.otherThanPlanned(k)
	}
	return io.EOF
}

func (in *Inputs) otherThanPlanned(k int) error {
	return exit.Failedf("input %s changed since the plan was made: make a plan in another folder, or put the "+
		"file back as it was", in.paths[k])
}

// CheckRereadable returns an error if the inputs were collected for the run, or have changed since it began.
func (in *Inputs) CheckRereadable(began []source.Input) error {
	if in.collect != nil {
		return exit.Failedf("collected for the run")
	}
	return in.CheckUnchanged(began)
}

// EachExample calls f for each example in collection run k until f returns true.
func (in *Inputs) EachExample(ctx context.Context, k int, f func(*ttc.Example) bool) (enough bool, err error) {
	src, err := in.open(ctx, in.paths[k], source.Options{Drop: func(ledger.Drop) {}})
	if err != nil {
		return false, err
	}
	defer src.Close()
	for {
		e, _, err := src.Next(ctx)
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if e.Run = k; f(e) {
			return true, nil
		}
	}
}
