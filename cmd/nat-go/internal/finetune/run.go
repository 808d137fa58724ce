package finetune

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/nat-go/nat-go/builders/dpo"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/compat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Run makes a data set from agents' output and hands it to a trainer. The summary is returned even with an error, as
// far as the run got; the error carries the exit code.
func Run(ctx context.Context, req Request, env Env) (*Summary, error) {
	if req.Plan {
		return planned(ctx, req, env)
	}
	p, err := unlessEnded(ctx, func() (*plan, error) { return newPlan(ctx, req, env) })
	if err != nil {
		return Failed(req, err)
	}
	return newRun(p, env).end(ctx, (*run).make)
}

// planned makes the run in a temporary folder: its counts are those the run would have.
func planned(ctx context.Context, req Request, env Env) (*Summary, error) {
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

// run is what every stage of a run needs.
type run struct {
	plan     *plan
	env      Env
	books    *books
	complete bool                // the data set was complete when the run was resumed
	history  *compat.History     // the run as NAT reports it
	made     *runfolder.Manifest // facts about the run so far
	sum      *Summary
	lock     *runfolder.Lock
	known    []runfolder.File // files hashed as they were written
}

func newRun(p *plan, env Env) *run {
	b := newBooks()
	b.hide = env.hide
	return &run{
		plan: p, env: env, books: b, history: compat.NewHistory(p.Compat, p.RunID, p.pairs(), env.Now), lock: p.lock,
		made: &runfolder.Manifest{
			NatGo:  Version(),
			Log:    recordlog.Version,
			RunID:  p.RunID,
			Compat: p.Compat == compat.NAT,
			Rows:   p.options,
			Counts: noCounts(),
		},
		sum: &Summary{RunID: p.RunID, Status: runfolder.Failed, Chosen: p.chosen, Counts: noCounts(), Also: p.also},
	}
}

// pairs returns the first builder of pairs that the configuration selects.
func (p *plan) pairs() (of compat.Pairs) {
	if p.config == nil {
		return of
	}
	for _, b := range p.config.Selected() {
		if c, ok := b.Config.(*dpo.Config); ok {
			return compat.Pairs{Name: b.Name, Config: c}
		}
	}
	return of
}

// make makes the run, stage by stage. Each stage gets the output of the previous ones, records its drops, and leaves in
// the run folder the state that a later command continues from.
func (r *run) make(ctx context.Context) error {
	// load: the plan exists; the builders' processes start during the next steps.
	r.sum.NotStarted = !r.plan.resume
	started, err := startProcesses(ctx, r.plan, r.env)
	if err != nil {
		return err
	}
	defer started.wait()
	defer started.close()
	in, err := findInputs(ctx, r.plan)
	if err != nil {
		return err
	}
	if r.plan.planning && in.collect != nil {
		return exit.Usagef("--plan asks no agent: collect the runs first, and name them with --from")
	}
	if err := r.mayPublish(ctx); err != nil {
		return err
	}
	r.info("inputs found", "source", in.source.Type, "folder", string(r.plan.folder))
	r.sum.Warnings = append(r.sum.Warnings, r.plan.notes...)
	r.sum.RunDir, r.sum.DatasetDir, r.made.Source = string(r.plan.folder), r.plan.folder.Dataset(), in.source.Type
	ahead := readAhead(ctx, r.plan, in)
	defer ahead.close()

	// open: the tokenizer, the run folder.
	tokens, err := unlessEnded(ctx, func() (*tokens, error) { return openTokens(ctx, r.plan) })
	if err != nil {
		return err
	}
	defer tokens.close()
	in.proveWith(r.plan, tokens)
	if err := r.openFolder(in, tokens); err != nil {
		return err
	}
	r.sum.NotStarted = false

	// start: the builders; agent runs are made now, if the source makes them.
	builders, err := r.openBuilders(ctx, started)
	if err != nil {
		return err
	}
	if err := r.collect(ctx, in); err != nil {
		return err
	}

	// build: examples -> records, in the log.
	built, err := r.build(ctx, in, ahead, builders)
	if err != nil {
		return err
	}
	started.close() // they take a while to end
	r.scored(built)
	r.info("records built", "examples", built.seen.Examples, "candidates", built.seen.Candidates,
		"records", r.books.Account(ledger.Gate, unitRecord).In)

	return r.finish(ctx, built, tokens)
}

// scored reports if scores supplied alongside the inputs belong to none of their examples because the keys don't match,
// and how many scores each rule gave.
func (r *run) scored(built *built) {
	p := r.plan
	if p.resume || built.seen.Examples == 0 {
		return
	}
	if p.verdict != nil {
		given := p.verdict.Given()
		for _, rule := range p.config.Dataset.ScoreRules {
			if given[rule.Name] == 0 {
				r.warn("dataset.score_rules: the rule %s decided on no example", rule.Name)
			}
			r.info("scored by a rule", "rule", rule.Name, "examples", given[rule.Name])
		}
	}
	if p.scores == nil {
		return
	}
	if given, _ := p.scores.Given(); given == 0 {
		r.warn("dataset.scores: none of the %s belongs to an example that was read; dataset.scores.key names the "+
			"key of the example's id there", ledger.Quantity(int64(p.scores.Len()), "score"))
	}
}

// finish makes the data set from the built records.
func (r *run) finish(ctx context.Context, built *built, tokens *tokens) error {
	// curate: records -> decisions.
	decisions, err := r.curate(ctx, built)
	if err != nil {
		return err
	}
	return r.writeDecided(ctx, built, decisions, tokens)
}

// writeDecided makes the data set from the decisions.
func (r *run) writeDecided(ctx context.Context, built *built, decisions *curate.Decisions, tokens *tokens) error {
	// write: decisions -> rows. collate: decisions -> token batches.
	r.info("records curated", "kept", decisions.Kept())
	if err := r.write(ctx, decisions); err != nil {
		return err
	}
	for _, w := range r.made.Dataset {
		r.info("rows written", "format", w.Format, "records", w.Records)
	}
	if err := r.collate(ctx, tokens, decisions, built); err != nil {
		return err
	}

	if b := r.made.Batches; b != nil {
		r.info("token batches written", "counts", b.Counts)
	}

	// account: the books, the manifest. train: data set -> job.
	if err := r.account(ctx, &built.seen); err != nil {
		return err
	}
	r.info("data set complete", "dataset", r.plan.folder.Dataset())
	return r.train(ctx)
}

// info logs a step of the run, with details given as alternating names and values.
func (r *run) info(what string, fields ...any) {
	r.env.Log.Info().Str("run", r.plan.RunID).Fields(fields).Msg(what)
}

// end does the run's work and says how it ended, as far as it got.
func (r *run) end(ctx context.Context, work func(*run, context.Context) error) (*Summary, error) {
	err := work(r, ctx)
	if err == nil {
		err = r.publish(ctx)
	}
	r.books.abort()
	r.count()
	if err != nil {
		err = r.explain(err)
		r.sum.Error = r.env.hide(err.Error())
		if r.sum.Job == nil { // otherwise the status is the job's
			r.sum.Status = runfolder.Failed
		}
	}
	r.unlock()
	merr := r.writeMetrics()
	if err == nil {
		return r.sum, merr
	}
	if merr != nil {
		r.warn("%v", merr)
	}
	return r.sum, err
}

// explain adds advice to an error that may end any stage.
func (r *run) explain(err error) error {
	again := "`nat-go " + r.plan.commandToContinue() + "` continues from here"
	switch {
	case errors.Is(err, context.Canceled) && r.sum.Job == nil:
		if r.lock != nil {
			r.sum.Next = again
		}
		return exit.With(exit.Interrupted, errors.New("interrupted; "+r.plan.leftUndone()))
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return exit.Environmentf("%w: make room on the disk of %s, then %s", err, r.plan.folder, again)
	}
	return err
}

// unlessEnded runs work that reads files needed to set up a run, which may be pipes, and abandons it when ctx ends.
// Nothing has begun by then, and the process ends.
func unlessEnded[T any](ctx context.Context, work func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := work()
		done <- result{v, err} // wait: room for one
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, exit.With(exit.Interrupted, fmt.Errorf("interrupted; nothing was begun: %w", ctx.Err()))
	}
}

// unlock lets others write to the run folder.
func (r *run) unlock() {
	if r.lock != nil {
		r.lock.Close()
		r.lock = nil
	}
}

// count updates the summary with the present counts.
func (r *run) count() {
	m := r.made
	if m.Status == "" { // otherwise the books have been closed
		c := &m.Counts
		c.Examples = r.books.Account(ledger.Source, unitExample).In
		c.Records = r.books.Account(ledger.Gate, unitRecord).In
		c.Kept = r.books.Account(ledger.Curate, unitRecord).Out
		c.Dropped = r.books.DroppedByReason()
		m.Books, m.Counters = r.books.Accounts(), r.books.counters
	}
	r.sum.Counts, r.sum.Accounts, r.sum.Batches = m.Counts, m.Books, m.Batches
	r.sum.Sites, r.sum.Labels = counted(m.Counters, "sites/"), counted(m.Counters, "labels/")
	r.sum.Written = nil
	for _, w := range m.Dataset {
		for _, f := range w.Files {
			r.sum.Written = append(r.sum.Written, writtenFile{Path: f.Path, Rows: f.Rows})
		}
	}
}

// counted sums what builders counted under names with a prefix, by the rest of the name: sites/CLASS/SOURCE/KIND,
// labels/LABEL.
func counted(counters map[string]map[string]int64, prefix string) map[string]int64 {
	sums := map[string]int64{}
	for _, of := range counters {
		for name, n := range of {
			if key, ok := strings.CutPrefix(name, prefix); ok {
				sums[key] += n
			}
		}
	}
	return sums
}

func (r *run) warn(format string, a ...any) {
	r.sum.Warnings = append(r.sum.Warnings, r.env.hide(fmt.Sprintf(format, a...)))
}

// tell passes on the progress of the run.
func (r *run) tell(p Progress) {
	if r.env.Progress != nil {
		r.env.Progress(p)
	}
}
