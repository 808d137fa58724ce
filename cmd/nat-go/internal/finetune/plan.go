package finetune

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/compat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/marks"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/read"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/train"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/customizer"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/objects"
	"github.com/nat-go/nat-go/internal/where"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// plan holds everything decided before a run starts.
type plan struct {
	Request
	config  *config.Config
	folder  runfolder.Folder
	stored  runfolder.Stored // where the run is published once it is complete; empty means that it isn't published
	trainer trainers.NemoCustomizerTrainer
	adapter config.Block // the adapter that receives the data set
	formats []dataset.Format
	options rows.Options
	rules   curate.Rules
	marks   *marks.File         // a user's marks on records; nil means none
	scores  *readers.Scores     // scores from dataset.scores; nil means none
	verdict *readers.ScoreRules // rules of dataset.score_rules; nil means none
	where   runFilter           // dataset.where
	copyTo  string              // NAT's dataset_output_dir; empty means no copy
	notes   []string            // remarks on the plan, which become warnings
	self    string              // path of this program
	chosen  string              // choices made on the user's behalf about input and output
	also    []string            // other records that the inputs could yield
	keys    map[string]string   // the request's Map
	resume  bool                // continue with an existing run folder
	lock    *runfolder.Lock     // lock on an existing run folder
	begun   *runfolder.Begun    // starting state of the run, if resume is set
	made    string              // the command that starts the run; empty means nat-go run
	command string              // the command that continues this work; empty means finetune resume
	divided *shards.Parts       // the plan that divides the run into shards; nil means that it isn't divided
	shard   *shard              // shard that this process makes, for a request with Shard
	merging *merging            // merge of the shards, for a request with Merge
	join    *joining            // runs that are joined, for a request with Join

	division shards.Folder // folder of the new plan, for a request with Divide

	complete *runfolder.Manifest // manifest of a resumed run whose data set is complete

	minFidelity ttc.Fidelity // minimum fidelity of a record's trace

	overlaps map[uint64]string // see curate.Gates
}

// runFilter selects the examples or records that a run uses.
type runFilter = where.Filter[*where.Subject]

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
	for _, choose := range []func() error{p.chooseFormats, p.chooseRules, p.readMarks} {
		if err := choose(); err != nil {
			return nil, err
		}
	}
	if err := p.readScores(ctx); err != nil {
		return nil, err
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
				return exit.Usagef("format %s holds prompts rendered with the model's template: specify the model's folder "+
					"under collator.tokenizer", n)
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

// formatNames returns the names of the formats, in order.
func (p *plan) formatNames() string {
	return strings.Join(lists.Map(p.formats, func(f dataset.Format) string { return f.Name }), " ")
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

func (p *plan) note(format string, a ...any) { p.notes = append(p.notes, fmt.Sprintf(format, a...)) }

// gates returns the gates that each record must pass.
func (p *plan) gates() curate.Gates {
	return curate.Gates{Unfit: p.Compat.Gates(), MinFidelity: p.minFidelity, Overlaps: p.overlaps}
}

// request returns the request as a later command continues with it. The configuration file contains the overrides.
func (p *plan) request() ([]byte, error) {
	req := p.Request
	req.Overrides = nil
	return json.Marshal(req)
}

// exampleOf returns the name of a record's example for an error message. If the log can't be read, it names the record
// instead.
func (p *plan) exampleOf(ordinal uint64) string {
	for g, err := range recordlog.Groups(p.folder.Records()) {
		if err != nil {
			break
		}
		if i := ordinal - g.First; i < uint64(len(g.Records)) {
			return fmt.Sprintf("example %q", g.Records[i].Origin.Example)
		}
	}
	return fmt.Sprintf("record %d", ordinal)
}

// findInputs decides what to read.
func (p *plan) findInputs(ctx context.Context) (*read.Inputs, error) {
	in, err := read.Find(ctx, read.Options{
		Config: p.config, From: p.From, Source: p.Source, Map: p.keys, Compat: p.Compat, NumRuns: p.trainer.NumRuns,
		Limit: p.Limit, NATConfig: p.NATConfig, Existing: p.planning, PassedOver: p.PassedOver, Endpoint: p.Endpoint,
		EndpointTimeout: p.EndpointTimeout, Dataset: p.Dataset, Where: p.where, Scores: p.scores, Rules: p.verdict,
	})
	if err == nil {
		p.PassedOver = in.PassedOver
	}
	return in, err
}
