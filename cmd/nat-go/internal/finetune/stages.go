package finetune

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/compat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/build"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/collate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/decide"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/read"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/train"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/write"
	"github.com/nat-go/nat-go/ttc/group"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// run is a run in progress. It holds the plan, the account and the results of the stages.
type run struct {
	*plan
	*stage.Account
	history *compat.History     // NAT's report of the run
	made    *runfolder.Manifest // the manifest so far
	sum     *Summary

	plugins    *build.Plugins
	in         *read.Inputs
	tokens     *collate.Tokens // nil without a tokenizer
	built      *build.Built
	benchmarks *decide.Benchmarks
	decisions  *curate.Decisions

	ranges []recordlog.Range   // ranges of the merged log for the shards to write
	rows   []runfolder.Written // the rows that the shards wrote, joined
	spill  *group.Spill        // stores examples for stage Group; nil means that records are built from them
}

func newRun(p *plan, env stage.Env) *run {
	return &run{
		plan: p, Account: stage.NewAccount(env, p.RunID),
		history: compat.NewHistory(p.Compat, p.RunID, pairsOf(p), env.Now),
		made: &runfolder.Manifest{
			NatGo: Version(), Log: recordlog.Version, RunID: p.RunID, Compat: p.Compat == compat.NAT, Rows: p.options,
			Counts: noCounts(),
		},
		sum: &Summary{
			RunID: p.RunID, Status: runfolder.Failed, Chosen: p.chosen, Counts: noCounts(), Also: p.also,
			NotStarted: p.begun == nil,
		},
		plugins: &build.Plugins{
			Env: env, Config: p.config, Folder: filepath.Dir(p.NATConfig), Compat: p.Compat, Rules: p.verdict,
			Chosen: len(p.Formats) > 0,
		},
	}
}

// A step of a run runs a stage or connects stages. It uses the results of earlier steps, and writes to the run folder
// the state from which a later command continues.
type step func(context.Context) error

// errSealed is returned by a stage whose output already exists. It ends the run successfully.
var errSealed = errors.New("sealed")

// find finds the inputs. A resumed run reads the same inputs again. A shard's Group stage and joined runs don't read
// inputs.
func (r *run) find(ctx context.Context) (err error) {
	switch {
	case r.joined != nil:
		r.in = &read.Inputs{Type: r.joined[0].sealed.Source}
	case r.groups():
		r.in = &read.Inputs{}
		return r.checkGroupable()
	default:
		if r.in, err = r.findInputs(ctx); err != nil {
			return err
		}
		if r.share != nil {
			return r.in.Restrict(r.parts.Plan, r.share.Parts)
		}
		if r.begun != nil {
			err = r.in.CheckUnchanged(r.begun.Inputs)
		}
	}
	if err != nil {
		return err
	}
	r.Info("inputs found", "source", r.in.Type, "folder", string(r.folder))
	r.Warnings = slices.Concat(r.Warnings, r.notes, r.in.Notes)
	r.sum.RunDir, r.sum.DatasetDir, r.made.Source = string(r.folder), r.folder.Dataset(), r.in.Type
	return nil
}

// openTokens loads the tokenizer and the template. When the shards of a plan are run or merged, it also checks that
// nothing has changed since the plan was made.
func (r *run) openTokens(ctx context.Context) (err error) {
	c := r.config.Collator
	c.TemplateTime = cmp.Or(r.plan.Now, c.TemplateTime)
	if r.tokens, err = collate.Open(ctx, c, r.rules.Split.Seed); err != nil || r.parts == nil {
		return err
	}
	return r.checkPlanned()
}

func (r *run) build(ctx context.Context) (err error) {
	if r.tokens != nil && r.in.CanProve {
		r.in.Prove = r.tokens.Prover(r.config.Collator.Policy)
	}
	defer r.plugins.Close() // once the records are built, close the builders in the background
	if r.built, err = r.building().Run(ctx); err != nil {
		return err
	}
	for _, b := range r.plugins.Builders {
		if r.parts != nil {
			if err := b.CheckNames(); err != nil {
				return err
			}
		}
	}
	at, seen := &r.built.At, &r.built.At.Seen
	r.made.Inputs, r.made.Counts.Candidates = at.Inputs, seen.Candidates
	r.reportScores(seen.Examples)
	r.Info("records built", "examples", seen.Examples, "candidates", seen.Candidates,
		"records", r.Of(ledger.Gate, stage.UnitRecord).In)
	return nil
}

// building returns the stage that builds records.
func (r *run) building() build.Stage {
	b := build.Stage{
		Account: r.Account, Folder: r.folder, Gates: r.gates(), Where: r.where, Marks: r.marks, Compat: r.Compat,
		History: r.history, Builders: r.plugins.Builders, Inputs: r.in, GroupBytes: int64(r.config.Limits.Group),
		KeepGoing: r.trainer.ContinueOnCollectionError, Spill: r.spill,
	}
	if r.Shard == nil && !r.isDecided() { // decisions depend on the records from all shards
		b.Rules = r.rules
		b.Rules.Name = r.exampleOf
	}
	if r.groups() {
		b.Spilled = func(ctx context.Context, index *group.Index) error {
			return r.parts.AddSpilled(ctx, index, r.Shard.Number)
		}
	}
	if r.LeaveWriting {
		b.Logged = r.divideLog
	}
	return b
}

// reportScores warns if dataset.scores doesn't have a score for any example, and about rules that didn't score any
// example. It logs how many scores each rule gave. It does nothing for resumed and divided runs, which don't see all
// examples.
func (r *run) reportScores(examples int64) {
	if r.begun != nil || r.parts != nil || examples == 0 {
		return
	}
	if r.verdict != nil {
		given := r.verdict.Given()
		for _, rule := range r.config.Dataset.ScoreRules {
			if given[rule.Name] == 0 {
				r.Warn("dataset.score_rules: rule %s didn't score any example", rule.Name)
			}
			r.Info("scored by a rule", "rule", rule.Name, "examples", given[rule.Name])
		}
	}
	if r.scores == nil {
		return
	}
	if given, _ := r.scores.Given(); given == 0 {
		r.Warn("dataset.scores: none of the %s belongs to an example that was read; set dataset.scores.key to "+
			"the key of the example's id in the score files", ledger.Quantity(int64(r.scores.Len()), "score"))
	}
}

func (r *run) curate(ctx context.Context) (err error) {
	b := r.built
	s := decide.Stage{
		Account: r.Account, Folder: r.folder, Index: b.Index, Marks: b.Marks, Benchmarks: r.benchmarks,
		Seen: b.At.Seen,
	}
	if r.isDecided() {
		if s.Decided, err = r.parts.Dir.Decisions(r.cut, r.folder); err != nil {
			return err
		}
	}
	d, err := s.Run(ctx)
	if err != nil {
		return err
	}
	r.decisions, r.made.Overlaps, r.overlaps = d.Decisions, d.Overlaps, d.Details
	b.Index.Close()
	b.Index = nil // free its memory
	return nil
}

func (r *run) write(ctx context.Context) (err error) {
	r.made.Dataset, err = r.writing(r.folder).Run(ctx)
	return err
}

// writing returns the stage that writes the rows of the log in a folder.
func (r *run) writing(log runfolder.Folder) write.Stage {
	return write.Stage{
		Account: r.Account, Folder: r.folder, Compat: r.Compat, Tokens: r.tokens != nil, CopyTo: r.copyTo,
		Parts: r.outputs, Joined: r.rows,
		Spec: dataset.Spec{
			Dir: r.folder.Dataset(), Log: log.Records(), Decisions: r.decisions, Formats: r.formats,
			Options: r.options, Gates: r.gates(), Ready: r.Know,
		},
	}
}

func (r *run) collate(ctx context.Context) error {
	rows, batches, err := r.collation().Run(ctx)
	r.made.Dataset, r.made.Batches = append(r.made.Dataset, rows...), batches
	return err
}

// collation returns the stage that makes token batches.
func (r *run) collation() collate.Stage {
	c := collate.Stage{
		Account: r.Account, Folder: r.folder, Config: &r.config.Collator, Tokens: r.tokens, Decisions: r.decisions,
		Formats: r.formats, Shards: r.parts,
	}
	if r.built != nil {
		c.Seen, c.ByTask = r.built.At.Seen, r.built.At.Groups > 0
	}
	if r.cut != nil {
		c.Parts, c.Collated = r.outputs, r.cut.Collated
	}
	return c
}

func (r *run) train(ctx context.Context) error {
	job, err := train.Stage{
		Account: r.Account, Folder: r.folder, Adapter: r.adapter, Data: r.made, History: r.history,
		Counted: r.sealed == nil, DryRun: r.DryRun, Wait: !r.Detach && r.trainer.WaitForCompletion,
	}.Run(ctx)
	if r.sum.Next = job.Next; job.Ref != nil {
		r.sum.Job, r.sum.Status = job.Ref, job.Status
	}
	return err
}

// unlock releases the lock on the run folder.
func (r *run) unlock() {
	r.lock.Close()
	r.lock = nil
}
