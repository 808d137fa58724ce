package finetune

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/candidates"
	"github.com/nat-go/nat-go/ttc/source/nat"
	"github.com/nat-go/nat-go/ttc/source/traces"
)

// inputs are the files of a run, one a collection run, and how to read them.
type inputs struct {
	kind  string // `_type` of the source
	paths []string
	began []source.Input // what the files were when the run began
	open  func(ctx context.Context, path string, opt source.Options) (source.Source, error)

	collect collector // makes the files before they are read; nil: they are there
}

// The types of source.
const (
	workflowOutput = "workflow_output"
	candidatesType = "candidates"
	tracesType     = "traces"
)

// findInputs decides what is read: --from, else the sources section, else where NAT's evaluation wrote its output.
func (p *plan) findInputs() error {
	in, err := chooseInputs(p)
	if err != nil {
		return err
	}
	for _, path := range in.paths {
		in.began = append(in.began, identify(path))
	}
	p.inputs = in
	return nil
}

// identify is what a file is known by before it is read; in compat it may be missing.
func identify(path string) source.Input {
	in := source.Input{Path: path}
	if info, err := os.Stat(path); err == nil {
		in.Size, in.ModTime = info.Size(), info.ModTime().UTC()
	}
	return in
}

// identities are what a source that goes on with collection run k has to find again.
func (p *plan) identities(k int) []source.Input { return p.inputs.began[k : k+1] }

// unchanged refuses to go on where the inputs are not those the run began with.
func (p *plan) unchanged(began []source.Input) error {
	for k, in := range p.inputs.began {
		if k < len(began) && in.Same(began[k]) {
			continue
		}
		what := "is one more than the run began with"
		if k < len(began) {
			what = fmt.Sprintf("changed since the run began: %s then, %s now", told(began[k]), told(in))
		}
		return exit.Failedf("the input %s %s. A run is never made of two states of its input: start a new one, or put the file back as it was", in.Path, what)
	}
	if len(began) > len(p.inputs.began) {
		return exit.Failedf("the input %s is gone, which the run began with: start a new run, or put the file back", began[len(p.inputs.began)].Path)
	}
	return nil
}

func told(in source.Input) string {
	return fmt.Sprintf("%s, %d bytes of %s", in.Path, in.Size, in.ModTime.Format(time.RFC3339Nano))
}

// inputBytes is how much there is to read; 0 where that can't be told, as of compressed files and pipes.
func (p *plan) inputBytes() (n int64) {
	for _, in := range p.inputs.began {
		if in.Size == 0 || compressed(in.Path) {
			return 0
		}
		n += in.Size
	}
	return n
}

func compressed(path string) bool {
	return strings.HasSuffix(path, ".gz") || strings.HasSuffix(path, ".zst")
}

func chooseInputs(p *plan) (inputs, error) {
	block, err := sourceBlock(p)
	if err != nil {
		return inputs{}, err
	}
	if in, is, err := p.live(block); is || err != nil {
		return in, err
	}
	in := inputs{kind: p.Source}
	if in.kind == "" && block != nil {
		in.kind = block.Type
	}
	if p.Compat {
		in.kind = workflowOutput // NAT reads nothing else
	}
	paths := p.From
	if len(paths) == 0 && block != nil {
		paths = blockPaths(block)
	}
	if len(paths) == 0 {
		if paths, err = natOutput(p.config.Eval); err != nil {
			return in, err
		}
		if in.kind == "" {
			in.kind = workflowOutput
		}
	}
	if in.paths, err = p.expand(paths); err != nil {
		return in, exit.With(exit.Environment, err)
	}
	if in.kind == "" {
		if in.kind, err = sniff(in.paths[0]); err != nil {
			return in, err
		}
	}
	return in, in.setReader(p, block)
}

// expand finds the files. In compat a missing one is a failed collection run, not an error; and run k reads input k, so
// num_runs decides how many there are.
func (p *plan) expand(paths []string) ([]string, error) {
	if !p.Compat {
		files, err := source.Expand(paths, nat.FileName)
		if err == nil && p.trainer.NumRuns != len(files) && p.config.Has("trainers", p.config.Finetuning.Trainer, "num_runs") {
			p.note("num_runs is %d, but there are %d inputs: each is read once", p.trainer.NumRuns, len(files))
		}
		return files, err
	}
	var files []string
	for _, path := range paths {
		if more, err := source.Expand([]string{path}, nat.FileName); err == nil {
			files = append(files, more...)
		} else {
			files = append(files, path)
		}
	}
	for len(files) < p.trainer.NumRuns {
		files = append(files, "")
	}
	return files[:p.trainer.NumRuns], nil
}

func sourceBlock(p *plan) (*config.Block, error) {
	switch blocks := p.config.Sources; len(blocks) {
	case 0:
		return nil, nil
	case 1:
		return &blocks[0], nil
	default:
		return nil, exit.Usagef("sources has %d entries; a run reads one: remove the others, or name the input with --from", len(blocks))
	}
}

func blockPaths(b *config.Block) []string {
	switch c := b.Config.(type) {
	case *nat.Config:
		return c.Path
	case *candidates.Config:
		return c.Path
	case *traces.Config:
		return c.Path
	}
	return nil
}

// natOutput is where `nat eval` put its output under this configuration.
func natOutput(e config.Eval) ([]string, error) {
	g := e.General
	dir := g.OutputDir
	if g.Output != nil && g.Output.Dir != "" {
		dir = g.Output.Dir
	}
	if g.Dataset != nil && g.Dataset.Structure.Disable {
		return nil, exit.Usagef("eval.general.dataset.structure.disable is true: NAT then writes answers without ids and steps, of which nothing can be made")
	}
	if dir == "" {
		return nil, exit.Usagef("nothing to read: name inputs with --from, or under sources")
	}
	files, err := source.Expand([]string{dir}, nat.FileName)
	if err != nil || len(files) == 0 {
		return nil, exit.Environmentf("there is no %s in %s: run `nat eval` first, or name the input with --from", nat.FileName, dir)
	}
	return []string{dir}, nil
}

// setReader decides how a path of the inputs is opened.
func (in *inputs) setReader(p *plan, block *config.Block) error {
	switch in.kind {
	case workflowOutput:
		cfg := p.natKeys()
		if block != nil {
			cfg = nat.DefaultConfig()
			if c, ok := block.Config.(*nat.Config); ok {
				cfg = *c
			}
		}
		in.open = openNAT(cfg, p.Compat)
		return nil
	case candidatesType:
		cfg := candidates.DefaultConfig()
		if block != nil {
			if c, ok := block.Config.(*candidates.Config); ok {
				cfg = *c
			}
		}
		in.open = func(ctx context.Context, path string, opt source.Options) (source.Source, error) {
			cfg.Path = []string{path}
			return candidates.Open(ctx, cfg, opt)
		}
		return nil
	case tracesType:
		cfg := traces.DefaultConfig()
		if block != nil {
			if c, ok := block.Config.(*traces.Config); ok {
				cfg = *c
			}
		}
		in.open = func(ctx context.Context, path string, opt source.Options) (source.Source, error) {
			cfg.Path = []string{path}
			return traces.Open(ctx, cfg, opt)
		}
		return nil
	}
	return exit.Usagef("there is no source %q: the sources are %s", in.kind, sourceNames())
}

// natKeys are the keys that NAT's evaluation writes under this configuration.
func (p *plan) natKeys() nat.Config {
	cfg := nat.DefaultConfig()
	if d := p.config.Eval.General.Dataset; d != nil {
		cfg.IDKey, cfg.QuestionKey, cfg.AnswerKey, cfg.TrajectoryKey = d.IDKey, d.Structure.QuestionKey, d.Structure.GeneratedAnswerKey, d.Structure.TrajectoryKey
	}
	return cfg
}

func openNAT(cfg nat.Config, compat bool) func(context.Context, string, source.Options) (source.Source, error) {
	cfg.Compat = compat
	return func(ctx context.Context, path string, opt source.Options) (source.Source, error) {
		cfg.Path = []string{path}
		return nat.Open(ctx, cfg, opt)
	}
}

func sourceNames() string {
	return strings.Join(slices.Sorted(maps.Keys(Types().Sources)), ", ")
}

// sniff tells the kind of a file from the keys of its first entry.
func sniff(path string) (string, error) {
	if ext := strings.ToLower(filepath.Ext(path)); ext == ".yml" || ext == ".yaml" {
		return "", exit.Usagef("%s is YAML, and inputs are JSON: a configuration is named with --config_file", path)
	}
	f, err := source.Open(path)
	if err != nil {
		return "", exit.With(exit.Environment, err)
	}
	defer f.Close()
	first, _, err := json.NewReader(f, json.Auto, json.Limits{}).Next()
	if errors.Is(err, io.EOF) {
		return "", exit.Failedf("%s is empty: there is nothing to read", path)
	}
	if err != nil {
		return "", exit.With(exit.Failed, source.ReadError(path, err, 0))
	}
	has := func(key string) bool { _, ok := first.Get(key); return ok }
	var kinds []string
	if has("intermediate_steps") {
		kinds = append(kinds, workflowOutput)
	}
	if has("turn_id") && has("score") {
		kinds = append(kinds, candidatesType)
	}
	if has("messages") || has("traj") {
		kinds = append(kinds, tracesType)
	}
	if len(kinds) != 1 {
		return "", exit.Usagef("can't tell what %s is from the keys of its first entry: say so with --source, one of %s", filepath.Base(path), sourceNames())
	}
	return kinds[0], nil
}
