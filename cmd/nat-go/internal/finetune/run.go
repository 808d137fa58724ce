package finetune

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/nat-go/nat-go/builders/dpo"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/compat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Run does what the request asks for. The summary is returned even with an error, as far as the run got; the error
// carries the exit code.
func Run(ctx context.Context, req Request, env Env) (*Summary, error) {
	if req.Plan {
		return planned(ctx, req, env)
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
		return p.discard(sum, err)
	}
	return sum, err
}

// open makes the plan of a request. The plan of a folder that exists holds its lock, even with an error.
func open(ctx context.Context, req Request, env Env) (*plan, error) {
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

// run is what every stage of a run needs, and what the stages pass on.
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

	started   *processes
	in        *inputs
	ahead     *reader // of the first input, until it is used
	tokens    *tokens
	builders  []*builder
	built     *built
	decisions *curate.Decisions
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
		sum: &Summary{
			RunID: p.RunID, Status: runfolder.Failed, Chosen: p.chosen, Counts: noCounts(), Also: p.also,
			NotStarted: !p.resume,
		},
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

// A stage is a step of a run. It takes what earlier stages left in the run, records its drops, and leaves in the run
// folder the state that a later command continues from.
type stage func(context.Context) error

// stages returns the stages of the run, in order.
func (r *run) stages() []stage {
	p := r.plan
	switch {
	case p.complete != nil:
		return []stage{r.submit}
	case p.Divide != nil:
		return []stage{r.start, r.find, r.openTokens, r.openBuilders, r.divide}
	case p.shard != nil && p.shard.stage == shards.Write:
		return []stage{r.sealed, r.lockShard, r.sealed, r.openTokens, r.writeShard}
	case p.shard.stores():
		return []stage{
			r.sealed, r.lockShard, r.sealed, r.openTokens, r.listDrops, r.find, r.store, r.shardDone,
		}
	case p.shard != nil:
		return []stage{
			r.sealed, r.lockShard, r.sealed, r.openTokens, r.listDrops, r.find, r.start, r.openBuilders, r.build,
			r.prepareRows, r.shardDone,
		}
	case p.merging != nil && p.merging.leave && p.merging.cut != nil:
		return []stage{r.alreadyLeft}
	case p.join != nil:
		return []stage{
			r.mayPublish, r.openTokens, r.openJoined, r.listDrops, r.joinRuns, r.curate, r.write, r.inheritAnswers,
			r.collate, r.writeBegun, r.account,
		}
	}
	records := []stage{r.openBuilders, r.collect, r.build, r.curate}
	dataSet := []stage{r.write, r.collate, r.account, r.train}
	if m := p.merging; m != nil {
		if records = []stage{r.joinShards}; m.leave {
			dataSet = []stage{r.leaveWriting}
		}
	}
	return slices.Concat([]stage{r.start, r.find, r.openTokens, r.openFolder, r.listDrops}, records, dataSet)
}

// errSealed ends a run whose output is there already.
var errSealed = errors.New("sealed")

// work goes through the stages.
func (r *run) work(ctx context.Context) error {
	defer r.close()
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

// close ends what the stages left open.
func (r *run) close() {
	r.tokens.close()
	r.ahead.close()
	if r.built != nil && r.built.index != nil {
		r.built.index.Close()
	}
	r.started.close()
	r.started.wait()
}

// scored reports if scores supplied alongside the inputs belong to none of their examples because the keys don't match,
// and how many scores each rule gave.
func (r *run) scored() {
	p := r.plan
	if p.resume || p.shard != nil || p.merging != nil || r.built.seen.Examples == 0 {
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

// info logs a step of the run, with details given as alternating names and values.
func (r *run) info(what string, fields ...any) {
	r.env.Log.Info().Str("run", r.plan.RunID).Fields(fields).Msg(what)
}

// end does the run's work and says how it ended, as far as it got.
func (r *run) end(ctx context.Context) (*Summary, error) {
	err := r.work(ctx)
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
