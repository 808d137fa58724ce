package finetune

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/build"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/collate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/decide"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/read"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/train"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/write"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// run is a run in progress. It holds the plan and the results of the stages.
type run struct {
	plan *plan
	out  *report
	lock *runfolder.Lock

	plugins    *build.Plugins
	in         *read.Inputs
	tokens     *collate.Tokens // nil without a tokenizer
	built      *build.Built
	benchmarks *decide.Benchmarks
	decisions  *curate.Decisions
}

func newRun(p *plan, env stage.Env) *run {
	return &run{plan: p, out: newReport(p, env), lock: p.lock, plugins: &build.Plugins{
		Env: env, Config: p.config, Folder: filepath.Dir(p.NATConfig), Compat: p.Compat, Rules: p.verdict,
		Chosen: len(p.Formats) > 0,
	}}
}

// A step of a run runs a stage or connects stages. It uses the results of earlier steps, and writes to the run folder
// the state from which a later command continues.
type step func(context.Context) error

// errSealed is returned by a stage whose output already exists. It ends the run successfully.
var errSealed = errors.New("sealed")

// find finds the inputs. A resumed run reads the same inputs again. A shard's Group stage and joined runs don't read
// inputs.
func (r *run) find(ctx context.Context) (err error) {
	p := r.plan
	switch s := p.shard; {
	case p.join != nil:
		r.in = &read.Inputs{Type: p.join.parts[0].manifest.Source}
	case s != nil && s.stage == shards.Group:
		r.in = &read.Inputs{}
		return s.checkGroupable()
	default:
		if r.in, err = p.findInputs(ctx); err != nil {
			return err
		}
		if s != nil {
			return r.in.Restrict(s.Plan, s.of.Parts)
		}
		if p.resume {
			err = r.in.CheckUnchanged(p.begun.Inputs)
		}
	}
	if err != nil {
		return err
	}
	r.out.Info("inputs found", "source", r.in.Type, "folder", string(p.folder))
	r.out.Warnings = slices.Concat(r.out.Warnings, p.notes, r.in.Notes)
	r.out.sum.RunDir, r.out.sum.DatasetDir, r.out.made.Source = string(p.folder), p.folder.Dataset(), r.in.Type
	return nil
}

// openTokens loads the tokenizer and the template. When the shards of a plan are run or merged, it also checks that
// nothing has changed since the plan was made.
func (r *run) openTokens(ctx context.Context) (err error) {
	c := r.plan.config.Collator
	c.TemplateTime = cmp.Or(r.plan.Now, c.TemplateTime)
	if r.tokens, err = collate.Open(ctx, c, r.plan.rules.Split.Seed); err != nil || r.plan.divided == nil {
		return err
	}
	return decider{r.plan, r.tokens}.checkPlanned()
}

func (r *run) build(ctx context.Context) (err error) {
	if r.tokens != nil && r.in.CanProve {
		r.in.Prove = r.tokens.Prover(r.plan.config.Collator.Policy)
	}
	defer r.plugins.Close() // once the records are built, close the builders in the background
	if r.built, err = r.building().Run(ctx); err != nil {
		return err
	}
	r.out.take(r.built)
	for _, b := range r.plugins.Builders {
		if r.plan.divided != nil {
			if err := b.CheckNames(); err != nil {
				return err
			}
		}
	}
	seen := &r.built.At.Seen
	reportScores(r.plan, r.out, seen.Examples)
	r.out.Info("records built", "examples", seen.Examples, "candidates", seen.Candidates,
		"records", r.out.Of(ledger.Gate, stage.UnitRecord).In)
	return nil
}

// building returns the stage that builds records.
func (r *run) building() build.Stage {
	p := r.plan
	b := build.Stage{
		Account: r.out.Account, Folder: p.folder, Gates: p.gates(), Where: p.where, Marks: p.marks, Compat: p.Compat,
		History: r.out.history, Builders: r.plugins.Builders, Inputs: r.in, GroupBytes: int64(p.config.Limits.Group),
		KeepGoing: p.trainer.ContinueOnCollectionError,
	}
	if s := p.shard; s == nil && !p.isDecided() { // decisions depend on the records from all shards
		b.Rules = p.rules
		b.Rules.Name = p.exampleOf
	} else if s != nil {
		if b.Spill = s.spill; s.stage == shards.Group {
			b.Spilled = s.addTo
		}
	}
	if m := p.merging; m != nil && m.leave {
		b.Logged = m.divide
	}
	return b
}

// reportScores warns if dataset.scores doesn't have a score for any example, and about rules that didn't score any
// example. It logs how many scores each rule gave. It does nothing for resumed and divided runs, which don't see all
// examples.
func reportScores(p *plan, out *report, examples int64) {
	if p.resume || p.divided != nil || examples == 0 {
		return
	}
	if p.verdict != nil {
		given := p.verdict.Given()
		for _, rule := range p.config.Dataset.ScoreRules {
			if given[rule.Name] == 0 {
				out.Warn("dataset.score_rules: rule %s didn't score any example", rule.Name)
			}
			out.Info("scored by a rule", "rule", rule.Name, "examples", given[rule.Name])
		}
	}
	if p.scores == nil {
		return
	}
	if given, _ := p.scores.Given(); given == 0 {
		out.Warn("dataset.scores: none of the %s belongs to an example that was read; set dataset.scores.key to "+
			"the key of the example's id in the score files", ledger.Quantity(int64(p.scores.Len()), "score"))
	}
}

func (r *run) curate(ctx context.Context) (err error) {
	b := r.built
	s := decide.Stage{
		Account: r.out.Account, Folder: r.plan.folder, Index: b.Index, Marks: b.Marks, Benchmarks: r.benchmarks,
		Seen: b.At.Seen,
	}
	if m := r.plan.merging; r.plan.isDecided() {
		if s.Decided, err = m.Dir.Decisions(m.cut, r.plan.folder); err != nil {
			return err
		}
	}
	d, err := s.Run(ctx)
	if err != nil {
		return err
	}
	r.decisions, r.out.made.Overlaps, r.plan.overlaps = d.Decisions, d.Overlaps, d.Details
	b.Index.Close()
	b.Index = nil // free its memory
	return nil
}

func (r *run) write(ctx context.Context) (err error) {
	r.out.made.Dataset, err = r.writing(r.plan.folder).Run(ctx)
	return err
}

// writing returns the stage that writes the rows of the log in a folder.
func (r *run) writing(log runfolder.Folder) write.Stage {
	p := r.plan
	w := write.Stage{
		Account: r.out.Account, Folder: p.folder, Compat: p.Compat, Tokens: r.tokens != nil, CopyTo: p.copyTo,
		Spec: dataset.Spec{
			Dir: p.folder.Dataset(), Log: log.Records(), Decisions: r.decisions, Formats: p.formats,
			Options: p.options, Gates: p.gates(), Ready: r.out.Know,
		},
	}
	if m := p.merging; m != nil {
		w.Parts, w.Joined = m.shares, m.rows
	}
	return w
}

func (r *run) collate(ctx context.Context) error {
	rows, batches, err := r.collation().Run(ctx)
	r.out.made.Dataset, r.out.made.Batches = append(r.out.made.Dataset, rows...), batches
	return err
}

// collation returns the stage that makes token batches.
func (r *run) collation() collate.Stage {
	p := r.plan
	c := collate.Stage{
		Account: r.out.Account, Folder: p.folder, Config: &p.config.Collator, Tokens: r.tokens, Decisions: r.decisions,
		Formats: p.formats, Shards: p.divided,
	}
	if r.built != nil {
		c.Seen, c.ByTask = r.built.At.Seen, r.built.At.Groups > 0
	}
	if m := p.merging; m != nil && m.cut != nil {
		c.Parts, c.Collated = m.shares, m.cut.Collated
	}
	return c
}

func (r *run) train(ctx context.Context) error {
	p := r.plan
	job, err := train.Stage{
		Account: r.out.Account, Folder: p.folder, Adapter: p.adapter, Data: r.out.made, History: r.out.history,
		Counted: p.complete == nil, DryRun: p.DryRun, Wait: !p.Detach && p.trainer.WaitForCompletion,
	}.Run(ctx)
	if r.out.sum.Next = job.Next; job.Ref != nil {
		r.out.sum.Job, r.out.sum.Status = job.Ref, job.Status
	}
	return err
}

// unlock releases the lock on the run folder.
func (r *run) unlock() {
	r.lock.Close()
	r.lock = nil
}
