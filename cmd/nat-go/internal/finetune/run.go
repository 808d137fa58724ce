package finetune

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/nat-go/nat-go/builders/dpo"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/compat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
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

// Run carries out a request. If it fails, it returns an error with an exit code, together with a summary of the work
// done so far.
func Run(ctx context.Context, req Request, env stage.Env) (*Summary, error) {
	if req.Plan {
		return predict(ctx, req, env)
	}
	p, err := open(ctx, req, env)
	if p == nil {
		p = &plan{Request: req}
	}
	defer p.lock.Close()
	if err != nil {
		return Failed(p.Request, err)
	}
	sum, err := newRun(p, env).end(ctx)
	if err != nil && p.join != nil && !runfolder.Has(p.folder.Manifest()) {
		if !sum.NotStarted {
			if gone := os.RemoveAll(string(p.folder)); gone != nil {
				return sum, errors.Join(err, gone)
			}
		}
		sum.RunDir, sum.DatasetDir, sum.Next = "", "", ""
	}
	return sum, err
}

// open makes the plan for a request. The plan may hold the lock of an existing folder, even if open returns an error.
func open(ctx context.Context, req Request, env stage.Env) (*plan, error) {
	switch {
	case req.Resume != "":
		return openBegun(ctx, req, env)
	case req.Join != nil:
		return openJoin(ctx, req, env)
	case req.Divide != nil:
		return openDivision(ctx, req, env)
	case req.Shard != nil:
		return openShard(ctx, req.Shard, env)
	case req.Merge != "":
		return openMerge(ctx, req, env)
	}
	return newPlan(ctx, req, env)
}

// predict executes the run in a temporary folder, to get the counts that the real run would have.
func predict(ctx context.Context, req Request, env stage.Env) (*Summary, error) {
	dir, err := os.MkdirTemp("", "nat-go-plan-")
	if err != nil {
		return Failed(req, exit.Environmentf("can't make a folder to plan in: %w", err))
	}
	defer os.RemoveAll(dir)
	req.Plan, req.planning, req.DryRun, req.OutputDir, req.Metrics = false, true, true, dir, ""
	sum, err := Run(ctx, req, env)
	if sum.DatasetDir != "" {
		sum.RunDir, sum.DatasetDir = "(planned)", "(planned)"
		sum.Next = "nothing was written or submitted (--plan)"
	}
	return sum, err
}

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

// pairsOf returns the first dpo builder that the configuration selects.
func pairsOf(p *plan) (of compat.Pairs) {
	for _, b := range p.config.Selected() {
		if c, ok := b.Config.(*dpo.Config); ok {
			return compat.Pairs{Name: b.Name, Config: c}
		}
	}
	return of
}

// A step of a run runs a stage, or connects stages. It uses the results of earlier stages, records its drops, and writes to the run folder
// the state from which a later command continues.
type step func(context.Context) error

// stages returns the stages of the run, in order.
func (r *run) stages() []step {
	ahead := func(ctx context.Context) error {
		if !r.plan.resume { // a resumed run doesn't know yet where to continue
			r.in.Ahead(ctx)
		}
		return nil
	}
	benchmarks := func(ctx context.Context) (err error) {
		r.benchmarks, err = decide.ReadBenchmarks(ctx, r.plan.config.Dataset.Contamination)
		return err
	}
	collect := func(ctx context.Context) error { return r.in.Collect(ctx, r.out.Account, r.plan.folder) }
	open := []step{r.find, r.openTokens, benchmarks, r.openFolder, r.listDrops}
	dataSet := []step{r.write, r.collate, r.account}
	switch p, m := r.plan, (merger{r}); {
	case p.complete != nil:
		return []step{r.submit}
	case p.Divide != nil:
		return []step{r.plugins.Start, r.find, r.openTokens, r.plugins.Open, r.divide}
	case p.shard != nil:
		return sharding{r}.stages()
	case p.join != nil:
		return slices.Concat(open, []step{r.joinRuns, r.curate}, dataSet)
	case p.merging != nil && p.merging.leave:
		return slices.Concat([]step{m.skipIfLeft}, open, []step{m.joinShards, m.leaveWriting})
	case p.merging != nil:
		return slices.Concat(open, []step{m.joinShards}, dataSet, []step{r.train})
	}
	build := []step{r.plugins.Open, collect, r.build, r.curate}
	return slices.Concat([]step{r.plugins.Start, r.find, ahead}, open[1:], build, dataSet, []step{r.train})
}

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
			b.Order, b.Spilled = true, s.addTo
		}
	}
	if m := p.merging; m != nil && m.leave {
		b.Logged = m.divide
	}
	return b
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
	w := r.writing(r.plan.folder)
	if m := r.plan.merging; m != nil {
		w.Parts, w.Joined = m.shares, m.rows
	}
	r.out.made.Dataset, err = w.Run(ctx)
	return err
}

// writing returns the stage that writes the rows of the log in a folder.
func (r *run) writing(log runfolder.Folder) write.Stage {
	p := r.plan
	return write.Stage{
		Account: r.out.Account, Folder: p.folder, Compat: p.Compat, Tokens: r.tokens != nil, CopyTo: p.copyTo,
		Spec: dataset.Spec{
			Dir: p.folder.Dataset(), Log: log.Records(), Decisions: r.decisions, Formats: p.formats,
			Options: p.options, Gates: p.gates(), Ready: r.out.Know,
		},
	}
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

// errSealed is returned by a stage whose output already exists. It ends the run successfully.
var errSealed = errors.New("sealed")

// work runs the stages, and closes everything that they leave open.
func (r *run) work(ctx context.Context) error {
	defer func() {
		r.tokens.Close()
		r.in.Close()
		r.plan.divided.Close()
		if r.built != nil && r.built.Index != nil {
			r.built.Index.Close()
		}
		r.plugins.Close()
		r.plugins.Wait()
	}()
	for _, do := range r.stages() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := do(ctx); errors.Is(err, errSealed) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
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

// end runs the stages and returns a summary of how the run ended, even if it failed.
func (r *run) end(ctx context.Context) (*Summary, error) {
	err := r.work(ctx)
	if err == nil {
		err = r.out.publish(ctx, r.plan)
	}
	r.out.Abort()
	r.out.count()
	if err != nil {
		err = verdict{r.plan, r.out}.explain(err, r.lock != nil)
		r.out.sum.Error = r.out.Hide(err.Error())
		if r.out.sum.Job == nil { // with a job, the status is the job's
			r.out.sum.Status = runfolder.Failed
		}
	}
	r.unlock()
	merr := r.out.writeMetrics(r.plan.Metrics)
	if err != nil && merr != nil {
		r.out.Warn("%v", merr)
	}
	r.out.sum.Warnings = r.out.Warnings
	return r.out.sum, cmp.Or(err, merr)
}

// explain adds advice to an error that can end any stage, such as an interruption or a full disk.
func (r verdict) explain(err error, locked bool) error {
	again := "`nat-go " + r.plan.commandToContinue() + "` continues from here"
	if r.plan.join != nil { // a failed merge can't be resumed, because its folder is removed
		again = "merge again"
	}
	switch {
	case errors.Is(err, context.Canceled) && r.out.sum.Job == nil:
		if locked {
			r.out.sum.Next = again
		}
		state := "nothing was submitted"
		if r.plan.shard != nil {
			state = "the committed part of the shard is kept"
		}
		return exit.With(exit.Interrupted, errors.New("interrupted; "+state))
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return exit.Environmentf("%w: make room on the disk of %s, then %s", err, r.plan.folder, again)
	}
	return err
}

// unlock lets others write to the run folder.
func (r *run) unlock() {
	r.lock.Close()
	r.lock = nil
}
