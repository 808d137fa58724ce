package finetune

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/compat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/marks"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/train"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/customizer"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/objects"
	"github.com/nat-go/nat-go/internal/where"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

func newPlan(ctx context.Context, req Request, env stage.Env) (*plan, error) {
	return stage.UnlessEnded(ctx, func() (*plan, error) { return readPlan(ctx, req, env) })
}

func readPlan(ctx context.Context, req Request, env stage.Env) (*plan, error) {
	p := &plan{Request: req, self: env.Self}
	err := p.loadConfig(ctx, env)
	if err != nil {
		return nil, err
	}
	if p.where, err = where.Parse(p.config.Dataset.Where, where.Fields); err != nil {
		return nil, exit.Usagef("dataset.where: %w", err)
	}
	p.NATConfig = cmp.Or(p.NATConfig, req.ConfigFile)
	if err := p.name(env); err != nil {
		return nil, err
	}
	p.trainer = trainers.NemoCustomizerTrainer{NumRuns: 1, DeduplicatePairs: true, WaitForCompletion: true}
	if t := p.config.Trainer(); t != nil {
		p.trainer = *t.Config.(*trainers.NemoCustomizerTrainer)
	}
	if p.adapter, err = train.Choose(p.config, p.Adapter); err != nil {
		return nil, err
	}
	scores := func() error { return p.readScores(ctx) }
	for _, choose := range []func() error{p.chooseFormats, p.chooseRules, p.readMarks, scores} {
		if err := choose(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// name chooses the run's id and folder.
func (p *plan) name(env stage.Env) error {
	if p.RunID == "" {
		var b [4]byte
		rand.Read(b[:])
		p.RunID = env.Now().UTC().Format("20060102-150405-") + hex.EncodeToString(b[:])
	}
	if !runfolder.ValidID(p.RunID) {
		return exit.Usagef("invalid --run-id %q: use at most 100 letters, digits, dots, dashes and underscores, "+
			"beginning with a letter or digit", p.RunID)
	}
	dir := cmp.Or(p.OutputDir, p.config.Finetuning.OutputDir)
	if marks := p.config.Dataset.Marks; objects.Is(marks) {
		return exit.Usagef("dataset.marks: %s is in object storage: copy it to a disk", marks)
	}
	if objects.Is(dir) {
		return p.publishTo(dir, env)
	}
	p.folder = runfolder.Folder(filepath.Join(dir, p.RunID))
	return nil
}

// A run whose output goes to object storage is made in a folder on this machine, so that it can be resumed after an
// interruption, and is published once it is complete.

// publishTo sets the location where the run is published, and the folder in which it is made.
func (p *plan) publishTo(dir string, env stage.Env) error {
	p.stored = runfolder.Stored(objects.Join(dir, p.RunID))
	if err := p.stored.Check(); err != nil {
		return exit.With(exit.Usage, err)
	}
	runs := env.Runs
	if runs == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return exit.Environmentf("cannot find the user's cache folder for a run in object storage: %w", err)
		}
		sum := xxh3.HashString128(dir).Bytes()
		runs = filepath.Join(cache, "nat-go", "runs", hex.EncodeToString(sum[:8]))
	}
	p.folder = runfolder.Folder(filepath.Join(runs, p.RunID))
	return nil
}

// loadConfig reads the configuration that the request names, or makes one from the request's flags and the shape of the
// input, and reports all findings at once.
func (p *plan) loadConfig(ctx context.Context, env stage.Env) (err error) {
	opt := config.Options{
		Types: builtin.Types(), Compat: p.Compat == compat.NAT, Run: true, Getenv: env.Getenv, Secrets: env.Secrets,
	}
	for _, o := range p.Overrides {
		opt.Overrides = append(opt.Overrides, config.Override(o))
	}
	if p.Dataset != "" && p.Endpoint == "" {
		return exit.Usagef("--dataset %s requires --endpoint, to which the questions are sent. Specify "+
			"existing runs with --from; set a command source's questions in its program's configuration", p.Dataset)
	}
	if p.keys, err = inspect.KeyMap(p.Map); err != nil {
		return err
	}
	var fs []finding.Finding
	switch {
	case p.ConfigFile != "":
		p.config, fs = config.Load(p.ConfigFile, opt)
		flags := append(keyOverrides(p.config, p.keys), builderOverrides(p.config, p.Builders)...)
		if len(flags) > 0 && !finding.Failed(fs) {
			opt.Overrides = append(opt.Overrides, flags...)
			p.config, fs = config.Load(p.ConfigFile, opt)
		}
	case len(p.From) > 0:
		text, err := p.configOfInput(ctx)
		if err != nil {
			return err
		}
		p.config, fs = config.Parse("(flags)", text, opt)
	default:
		return exit.Usagef("nothing to run: specify a configuration with --config-file, or an input with --from")
	}
	env.Findings(fs)
	if p.config == nil || finding.Failed(fs) {
		return exit.Usagef("%s", finding.Count(fs))
	}
	return nil
}

// keyOverrides returns overrides that set the keys of the configuration's source. It returns nil unless c has exactly
// one source.
func keyOverrides(c *config.Config, m map[string]string) (out []config.Override) {
	if c == nil || len(c.Sources) != 1 {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		setting := strings.TrimSuffix(name, "_key") + "_key"
		out = append(out, config.Override(fmt.Sprintf("sources.%s.%s=%s", c.Sources[0].Name, setting, m[name])))
	}
	return out
}

// builderOverrides returns overrides that make the run use only the builders named with --builder. Each name selects
// the entry of trajectory_builders with that name, or else the entries of that type, or else a new entry of that type
// with its defaults.
func builderOverrides(c *config.Config, builders []string) (out []config.Override) {
	if c == nil || len(builders) == 0 {
		return nil
	}
	var used []string
	for _, b := range builders {
		is := func(what func(config.Block) string, name string) (found []string) {
			for _, block := range c.Builders {
				if what(block) == name {
					found = append(found, block.Name)
				}
			}
			return found
		}
		names := is(func(x config.Block) string { return x.Name }, b)
		if len(names) == 0 {
			names = is(func(x config.Block) string { return x.Type }, inspect.TypeOf(b))
		}
		if len(names) == 0 {
			names = []string{strings.NewReplacer("/", "_", ".", "_").Replace(b)}
			out = append(out,
				config.Override(fmt.Sprintf("trajectory_builders.%s._type=%s", names[0], inspect.TypeOf(b))))
		}
		used = append(used, names...)
	}
	return append(out, config.Override("finetuning.trajectory_builder=["+strings.Join(used, ", ")+"]"))
}

// configOfInput makes a configuration for a run that doesn't have one. It uses the run's flags, and otherwise makes
// choices that suit the input. It removes skipped files in folders from the request's inputs.
func (p *plan) configOfInput(ctx context.Context) ([]byte, error) {
	if p.Compat == compat.NAT {
		return configOfFlags(p.Builders)
	}
	r, err := inspect.Look(ctx, inspect.Options{
		Paths: p.From, Source: p.Source, Map: p.keys, Builders: p.Builders, Overrides: p.Overrides,
	})
	if err != nil {
		return nil, err
	}
	if len(r.Choice.Builders) == 0 {
		return nil, exit.Failedf("%s: %s", strings.Join(p.From, ", "), r.Choice.Why)
	}
	if len(p.Formats) > 0 {
		r.Choice.Formats = p.Formats
	}
	p.From, p.PassedOver, p.also, p.chosen = r.Inputs(), r.Passed, r.Also(), r.Line()
	return r.YAML(), nil
}

// configOfFlags makes the configuration from only the flags. That is enough in NAT's mode, which reads only NAT's
// output.
func configOfFlags(builders []string) ([]byte, error) {
	if len(builders) == 0 {
		return nil, exit.Usagef("missing builder: without --config-file, specify one with --builder, for example dpo")
	}
	var b strings.Builder
	b.WriteString("trajectory_builders:\n")
	var names []string
	for i, t := range builders {
		name := fmt.Sprintf("b%d", i)
		if !strings.ContainsAny(t, "/_") {
			name = t
		}
		names = append(names, name)
		fmt.Fprintf(&b, "  %s: {_type: %s}\n", name, inspect.TypeOf(t))
	}
	fmt.Fprintf(&b, "finetuning:\n  enabled: true\n  trajectory_builder: [%s]\n  output_dir: out\n",
		strings.Join(names, ", "))
	return []byte(b.String()), nil
}

// chooseFormats chooses the formats, which are the requested ones or else the defaults, and their options.
func (p *plan) chooseFormats() error {
	names := p.Formats
	if len(names) == 0 {
		names = p.config.Dataset.Formats
	}
	if len(names) == 0 {
		names = inspect.DefaultFormats(p.config)
	}
	for i, n := range names {
		if slices.Contains(names[:i], n) {
			continue
		}
		if is, err := p.Compat.WritesItself(n); err != nil {
			return exit.With(exit.Usage, err)
		} else if is {
			continue
		}
		f, ok := dataset.Lookup(n)
		switch {
		case !ok:
			return exit.Usagef("unknown format %q: the formats are %s", n, dataset.Names())
		case f.FromBatches() && p.config.Collator.Tokenizer == "":
			return exit.Usagef("format %s holds tokens: specify the model's folder under collator.tokenizer", n)
		}
		if f.Lines() == "trl_prompts" {
			if p.options.Template = p.config.Collator.Tokenizer; p.options.Template == "" {
				return exit.Usagef("format %s holds prompts rendered with the model's template: specify the model's "+
					"folder under collator.tokenizer", n)
			}
		}
		p.formats = append(p.formats, f)
	}
	p.options.NAT = p.Compat == compat.NAT
	if p.config.Dataset.PromptAs == "text" {
		p.options.TextPrompt = rows.PlainText
	}
	p.options.LastTurn = p.config.Dataset.Turns == "last"
	p.options.Stretch = p.config.Dataset.Completion == "stretch"
	if p.config.Dataset.JSONColumns == "text" {
		p.options.JSONColumns = rows.JSONText
	}
	if adapter := p.config.Adapter(); adapter != nil {
		if c, ok := adapter.Config.(*customizer.Config); ok {
			p.options.FullHistory = c.UseFullMessageHistory
			if c.DatasetOutputDir != nil && !p.planning {
				p.copyTo = *c.DatasetOutputDir
			}
		}
	}
	return nil
}

// chooseRules chooses the curation rules.
func (p *plan) chooseRules() (err error) {
	d := p.config.Dataset
	p.rules = curate.Rules{Dedupe: p.trainer.DeduplicatePairs, Contradictions: d.Contradictions == "drop"}
	if most := cmp.Or(d.MaxPairs, p.trainer.MaxPairs); most != nil {
		p.rules.MaxPairs = int64(*most)
	}
	seed := d.Split.Seed
	if p.Seed != nil {
		seed = *p.Seed
	}
	p.rules.Seed = uint64(seed)
	p.rules.Split = curate.Split{
		By: curate.By(d.Split.By), Validation: d.Split.Validation, Seed: uint64(seed),
		Required: d.Split.ValidationSet && d.Split.Validation > 0,
	}
	p.rules = p.Compat.Rules(p.rules)
	if p.minFidelity, err = ttc.ParseFidelity(p.config.Collator.MinFidelity); err != nil {
		return exit.Usagef("collator.min_fidelity: %w", err)
	}
	return nil
}

// readMarks reads a user's marks on an earlier run's records.
func (p *plan) readMarks() (err error) {
	if path := p.config.Dataset.Marks; path != "" {
		if p.marks, err = marks.Read(path); err != nil {
			return exit.Usagef("dataset.marks: %w", err)
		}
	}
	return nil
}

// readScores reads the scores from dataset.scores, and the rules from dataset.score_rules.
func (p *plan) readScores(ctx context.Context) (err error) {
	if list := p.config.Dataset.ScoreRules; len(list) > 0 {
		if p.verdict, err = readers.NewScoreRules(list); err != nil {
			return exit.Usagef("dataset.score_rules%w", err)
		}
	}
	if c := p.config.Dataset.Scores; c != nil {
		if p.scores, err = readers.ReadScores(ctx, c); err != nil {
			return exit.Usagef("dataset.scores: %w", err)
		}
		if text := p.scores.Conflicts(); text != "" {
			p.note("dataset.scores: %s", text)
		}
	}
	return nil
}
