package finetune

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/internal/where"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// A commit makes the groups built so far survive a crash. It costs a sync, so commits are spaced by time and bytes.
const (
	commitEvery = 2 * time.Second
	commitBytes = 64 << 20
)

// groupsInFlight is the maximum number of groups waiting for results from the builders. The builders' sessions bound
// their total size.
const groupsInFlight = 4096

// cursor is a run's position in its inputs, as recorded by a commit of the log.
type cursor struct {
	Source source.Cursor  `json:"source"`
	Inputs []source.Input `json:"inputs,omitempty"` // inputs read to the end
	Failed []int          `json:"failed,omitempty"` // collection runs that were skipped because they failed
	Seen   source.Stats   `json:"seen"`             // counts for the collection runs read to the end
	Groups int64          `json:"groups,omitempty"` // number of groups done; set if the run's unit isn't the example
}

// recording writes groups to the record log, and adds them to the index and the books. Later stages use its index,
// marks and position in addition to the log.
type recording struct {
	*run
	index   *curate.Index // index of the records; nil after curation
	log     *recordlog.Writer
	frame   *recordlog.Builder // frame for the group being logged
	where   runFilter          // selects the records that are used
	marked  marked
	at      cursor        // position in the inputs up to which groups are in the log
	order   *shards.Order // in a shard's Group stage, the positions of the groups in the log; otherwise nil
	scratch []curate.Entry
}

// newRecording stores a recording with a new index in r.built.
func newRecording(r *run) (b *recording, err error) {
	b = &recording{run: r, marked: marked{seen: map[string]bool{}}}
	_, b.where = r.plan.where.Split(where.ExampleFields)
	b.index, err = curate.NewIndex(r.plan.indexRules(), string(r.plan.folder))
	r.built = b
	return b, err
}

// building is the stage that builds records.
type building struct {
	*recording
	unit     builders.Unit
	total    int64 // total bytes of all inputs; 0 means unknown
	unmet    int64 // examples dropped by dataset.where in the collection runs read so far
	expected bool  // whether the index has an estimate of the number of records
}

// build streams the examples of every collection run through the builders into the record log. One goroutine reads
// examples and sends them to the builders' processes. Another receives the results in order and writes the log.
func (r *run) build(ctx context.Context) (err error) {
	if r.tokens != nil && r.in.canProve(r.plan) {
		r.in.prove = prover{r.plan.config.Collator.Policy, r.tokens}.prove
	}
	defer r.started.close() // once the records are built, close the builders in the background
	log, err := newRecording(r)
	if err != nil {
		return err
	}
	b := &building{recording: log, unit: unitOf(r.plan, r.builders), total: r.in.bytes()}
	if err := b.openLog(ctx); err != nil {
		return err
	}
	if b.log != nil { // nil if all groups are already in the log
		if b.order, err = r.plan.shard.openOrder(b.at.Groups); err != nil {
			b.log.Close()
			return err
		}
		if err := b.stream(ctx); err != nil {
			return err
		}
	}
	if b.finish(); r.plan.divided != nil {
		for _, b := range r.builders {
			if err := checkNames(b); err != nil {
				return err
			}
		}
	}
	r.reportScores()
	r.out.info("records built", "examples", b.at.Seen.Examples, "candidates", b.at.Seen.Candidates,
		"records", r.out.books.Account(ledger.Gate, unitRecord).In)
	return nil
}

// unitOf returns the run's unit: the coarsest one that its builders or dataset.where require.
func unitOf(p *plan, all []*builder) builders.Unit {
	unit := builders.UnitExample
	if p.where.Names(where.GroupFields) {
		unit = builders.UnitTask
	}
	for _, x := range all {
		unit = max(unit, x.unit)
	}
	return unit
}

// finish adds the inputs to the manifest, and their counts to the manifest and the books, once the log is complete. It
// frees the memory that is needed only for writing the log.
func (b *recording) finish() {
	b.log, b.frame, b.scratch = nil, nil, nil
	b.out.made.Inputs, b.out.made.Counts.Candidates = b.at.Inputs, b.at.Seen.Candidates
	for _, a := range b.at.Seen.Accounts() {
		b.out.books.In(a.Stage, a.Unit, a.In)
		if a.Unit != unitExample { // used examples are counted when their groups are logged
			b.out.books.Out(a.Stage, a.Unit, a.Out)
		}
	}
}

// indexRules returns the rules for the index. They are empty if this process doesn't decide on records.
func (p *plan) indexRules() curate.Rules {
	// Decisions depend on the records from all shards, so the first merge makes them.
	if p.shard != nil || p.isDecided() {
		return curate.Rules{}
	}
	rules := p.rules
	rules.Name = p.exampleOf
	return rules
}

func (b *building) stream(ctx context.Context) error {
	defer b.log.Close()
	defer b.order.Close()
	names := make([]string, len(b.builders))
	for i, x := range b.builders {
		names[i] = x.name
	}
	b.frame = recordlog.NewBuilder(names)
	items := make(chan *item, groupsInFlight)
	from := b.at
	fed := false // whether all items were sent; written before items is closed
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		defer close(items)
		err = b.feed(ctx, from, items)
		fed = err == nil
		return err
	})
	g.Go(func() error { return b.gather(ctx, items, &fed) })
	err := g.Wait() // wait: both goroutines watch ctx
	if b.plan.Compat.WholeRuns() && errors.As(err, new(collectionError)) {
		b.leaveCollected()
	}
	return err
}

// leaveCollected writes NAT's files for the collection runs that precede the failed one, as NAT does.
func (b *building) leaveCollected() {
	folder := b.plan.folder
	err := b.plan.Compat.WriteTrajectories(folder.Format(dataset.Trajectories), folder.Records(), b.plan.RunID, nil)
	if err == nil {
		err = b.out.history.WriteProgress(folder)
	}
	if err != nil {
		b.out.warn("cannot write the examples collected before the failure: %v", err)
	}
}

// openLog starts the log, or continues the log of an interrupted run and calls take for its groups. b.log remains nil
// if all groups are already in the log.
func (b *recording) openLog(ctx context.Context) (err error) {
	dir := b.plan.folder.Records()
	c, err := recordlog.ReadCommit(dir)
	switch {
	case err == nil:
		return b.continueLog(ctx, c)
	case !errors.Is(err, fs.ErrNotExist):
		return exit.With(exit.Environment, err)
	}
	b.log, err = recordlog.Create(dir)
	return cant("start the record log", err)
}

func (b *recording) continueLog(ctx context.Context, c recordlog.Commit) (err error) {
	dir := b.plan.folder.Records()
	if len(c.Cursor) > 0 {
		if err := json.Unmarshal(c.Cursor, &b.at); err != nil {
			return exit.Environmentf("damaged commit in the record log: %w", err)
		}
	}
	if !c.Done {
		if b.log, err = recordlog.Open(dir); err != nil {
			return exit.Environmentf("can't continue the record log: %w", err)
		}
	}
	for g, err := range recordlog.GroupsAhead(dir) {
		if err = cmp.Or(exit.Default(exit.Environment, err), context.Cause(ctx)); err == nil {
			b.plan.merging.divide(g, c.Bytes)
			err = b.take(g)
		}
		if err != nil {
			if b.log != nil {
				b.log.Close()
			}
			return err
		}
		b.out.tell(Progress{
			Step: "read finished work", Done: int64(b.index.Len()), Total: int64(c.Records), Unit: unitRecord,
		})
	}
	return nil
}

// take adds the records of a logged group to curation's index, and everything else in the group to the books.
func (b *recording) take(g *recordlog.Group) (err error) {
	if b.scratch, err = b.index.AddGroup(b.scratch[:0], g, b.plan.gates()); err != nil {
		return err
	}
	b.book(g)
	b.bookEntries(g, b.scratch)
	return nil
}

// book adds a group's drops, accounts and counters to b.out.books, and calls recordNames for each builder.
func (b *recording) book(g *recordlog.Group) {
	for _, d := range g.Drops {
		b.out.books.drop(d)
	}
	AddAccounts(b.out.books.Book, g.Accounts)
	for _, c := range g.Counts {
		b.out.books.count(c.Builder, c.Name, c.N)
	}
	for _, x := range b.builders {
		x.recordNames(g)
	}
}

// bookEntries adds the gate's drops to the books, looks up the marks on the records, and adds a group to NAT's history.
// The gate's drops are listed later, together with curation's, in log order.
func (b *recording) bookEntries(g *recordlog.Group, all []curate.Entry) {
	b.out.history.Add(g)
	var passed int64
	for i := range all {
		e := &all[i]
		if b.plan.marks != nil {
			b.marked.lookUp(b.plan.marks, e.Content, e.Ordinal)
		}
		if reason, dropped := e.Drop.Reason(); dropped {
			b.out.books.Drop(ledger.Drop{Stage: ledger.Gate, Reason: reason, Unit: unitRecord})
		} else {
			passed++
		}
	}
	b.out.books.In(ledger.Gate, unitRecord, int64(len(all)))
	b.out.books.Out(ledger.Gate, unitRecord, passed)
}

// bytesRead returns the number of input bytes that are in the log.
func (b *building) bytesRead() int64 {
	done := b.at.Source.Offset
	for k := range min(b.at.Source.Run, len(b.in.began)) {
		done += b.in.began[k].Size
	}
	return done
}
