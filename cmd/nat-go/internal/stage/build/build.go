package build

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/compat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/marks"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/where"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/group"
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

// Cursor is a run's position in its inputs, as recorded by a commit of the log.
type Cursor struct {
	Source source.Cursor  `json:"source"`
	Inputs []source.Input `json:"inputs,omitempty"` // inputs read to the end
	Failed []int          `json:"failed,omitempty"` // collection runs that were skipped because they failed
	Seen   source.Stats   `json:"seen"`             // counts for the collection runs read to the end
	Groups int64          `json:"groups,omitempty"` // number of groups done; set if the run's unit isn't the example
}

// Stage builds records: from inputs with Run, or from the logs of finished runs with Join.
type Stage struct {
	*stage.Account
	Folder   runfolder.Folder
	Rules    curate.Rules // of the index; zero if this process doesn't decide on records
	Gates    curate.Gates
	Where    where.Filter[*where.Subject] // dataset.where
	Marks    *marks.File                  // a user's marks on records; nil means none
	Compat   compat.Mode
	History  *compat.History // NAT's report of the run
	Builders []*Builder

	Inputs     stage.Inputs
	GroupBytes int64                                     // maximum size of a group
	KeepGoing  bool                                      // whether to use the other collection runs if one fails
	Spill      *group.Spill                              // stores the examples, instead of building records from them; may be nil
	Spilled    func(context.Context, *group.Index) error // adds the examples that other processes stored; may be nil
	Order      bool                                      // whether to keep the positions of the groups for a merge
	Logged     func(*recordlog.Group, recordlog.Commit)  // called for each group that is already in the log; may be nil
}

// Built holds the records, in addition to the record log.
type Built struct {
	Index *curate.Index // the caller closes it
	Marks *marks.Matches
	At    Cursor // position in the inputs up to which groups are in the log
}

// recording writes groups to the record log, and adds them to the index and the account.
type recording struct {
	Stage
	*Built
	log     *recordlog.Writer
	frame   *recordlog.Builder           // frame for the group being logged
	where   where.Filter[*where.Subject] // selects the records that are used
	order   *shards.Order                // the positions of the groups in the log; nil unless Stage.Order is set
	scratch []curate.Entry
}

// record calls work with a recording, and completes what was built.
func (s Stage) record(work func(*recording) error) (*Built, error) {
	b := &recording{Stage: s, Built: &Built{Index: curate.NewIndex(s.Rules, string(s.Folder)), Marks: s.Marks.Matches()}}
	_, b.where = s.Where.Split(where.ExampleFields)
	if err := work(b); err != nil {
		b.Index.Close()
		return nil, err
	}
	for _, a := range b.At.Seen.Accounts() {
		b.In(a.Stage, a.Unit, a.In)
		if a.Unit != stage.UnitExample { // used examples are counted when their groups are logged
			b.Out(a.Stage, a.Unit, a.Out)
		}
	}
	return b.Built, nil
}

// building streams the examples through the builders.
type building struct {
	*recording
	unit     builders.Unit
	unmet    int64 // examples dropped by dataset.where in the collection runs read so far
	expected bool  // whether the index has an estimate of the number of records
}

// Run streams the examples of every collection run through the builders into the record log. One goroutine reads
// examples and sends them to the builders' processes. Another receives the results in order and writes the log.
func (s Stage) Run(ctx context.Context) (*Built, error) {
	return s.record(func(r *recording) (err error) {
		b := &building{recording: r, unit: s.unit()}
		if err := b.openLog(ctx); err != nil || b.log == nil {
			return err // all groups are already in the log if it is nil
		}
		if s.Order {
			if b.order, err = shards.OpenOrder(s.Folder, b.At.Groups); err != nil {
				b.log.Close()
				return exit.Cant("continue the record log", err)
			}
		}
		return b.stream(ctx)
	})
}

// unit returns the run's unit: the coarsest one that its builders or dataset.where require.
func (s Stage) unit() builders.Unit {
	unit := builders.UnitExample
	if s.Where.Names(where.GroupFields) {
		unit = builders.UnitTask
	}
	for _, x := range s.Builders {
		unit = max(unit, x.Unit)
	}
	return unit
}

func (b *building) stream(ctx context.Context) error {
	defer b.log.Close()
	defer b.order.Close()
	b.frame = recordlog.NewBuilder(lists.Map(b.Builders, func(x *Builder) string { return x.Name }))
	items := make(chan *item, groupsInFlight)
	from := b.At
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
	if b.Compat.WholeRuns() && errors.As(err, new(collectionError)) {
		b.leaveCollected()
	}
	return err
}

// leaveCollected writes NAT's files for the collection runs that precede the failed one, as NAT does.
func (b *building) leaveCollected() {
	folder := b.Folder
	err := b.Compat.WriteTrajectories(folder.Format(dataset.Trajectories), folder.Records(), b.RunID, nil)
	if err == nil {
		err = b.History.WriteProgress(folder)
	}
	if err != nil {
		b.Warn("cannot write the examples collected before the failure: %v", err)
	}
}

// openLog starts the log, or continues the log of an interrupted run and calls take for its groups. b.log remains nil
// if all groups are already in the log.
func (b *recording) openLog(ctx context.Context) (err error) {
	dir := b.Folder.Records()
	c, err := recordlog.ReadCommit(dir)
	switch {
	case err == nil:
		return b.continueLog(ctx, c)
	case !errors.Is(err, fs.ErrNotExist):
		return exit.With(exit.Environment, err)
	}
	b.log, err = recordlog.Create(dir)
	return exit.Cant("start the record log", err)
}

func (b *recording) continueLog(ctx context.Context, c recordlog.Commit) (err error) {
	dir := b.Folder.Records()
	if len(c.Cursor) > 0 {
		if err := json.Unmarshal(c.Cursor, &b.At); err != nil {
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
			if b.Logged != nil {
				b.Logged(g, c)
			}
			err = b.take(g)
		}
		if err != nil {
			if b.log != nil {
				b.log.Close()
			}
			return err
		}
		b.Tell(stage.Progress{
			Step: "read finished work", Done: int64(b.Index.Len()), Total: int64(c.Records), Unit: stage.UnitRecord,
		})
	}
	return nil
}

// take adds the records of a logged group to curation's index, and everything else in the group to the books.
func (b *recording) take(g *recordlog.Group) (err error) {
	if b.scratch, err = b.Index.AddGroup(b.scratch[:0], g, b.Gates); err != nil {
		return err
	}
	b.book(g)
	b.bookEntries(g, b.scratch)
	return nil
}

// book adds a group's drops, accounts and counters to b.books, and calls recordNames for each builder.
func (b *recording) book(g *recordlog.Group) {
	for _, d := range g.Drops {
		b.Drop(d)
	}
	stage.AddAccounts(b.Book, g.Accounts)
	for _, c := range g.Counts {
		b.Count(c.Builder, c.Name, c.N)
	}
	for _, x := range b.Builders {
		x.recordNames(g)
	}
}

// bookEntries adds the gate's drops to the books, looks up the marks on the records, and adds a group to NAT's history.
// The gate's drops are listed later, together with curation's, in log order.
func (b *recording) bookEntries(g *recordlog.Group, all []curate.Entry) {
	b.History.Add(g)
	var passed int64
	for i := range all {
		e := &all[i]
		b.Built.Marks.Add(e.Content, e.Ordinal)
		if reason, dropped := e.Drop.Reason(); dropped {
			b.Book.Drop(ledger.Drop{Stage: ledger.Gate, Reason: reason, Unit: stage.UnitRecord})
		} else {
			passed++
		}
	}
	b.In(ledger.Gate, stage.UnitRecord, int64(len(all)))
	b.Out(ledger.Gate, stage.UnitRecord, passed)
}

// bytesRead returns the number of input bytes that are in the log, and of all inputs.
func (b *building) bytesRead() (done, total int64) {
	before, total := b.Inputs.Size(b.At.Source.Run)
	return before + b.At.Source.Offset, total
}

// gather receives the builders' results for each group, in order, and appends them to the log. Once items is closed,
// *fed tells whether all items were sent.
func (b *building) gather(ctx context.Context, items <-chan *item, fed *bool) (err error) {
	last := b.Now()
	defer func() {
		if err != nil && (ctx.Err() != nil || errors.As(err, new(collectionError))) { // commit the logged groups
			_ = b.commit(false)
		}
	}()
	var broken error        // error of a builder that failed on a whole collection run, whose end is the next item
	for it := range items { // wait: feed watches ctx, and items is closed when it ends
		if it.end && broken != nil {
			it.fail, it.seen, it.drops, broken = broken, source.Stats{}, nil, nil
		}
		switch {
		case it.end:
			err = b.endRun(it)
		case it.group == nil:
			err = b.append(&ttc.Group{}, it.drops, nil)
			b.At.Source = it.at
		default:
			broken, err = b.logGroup(ctx, it)
			if err == nil && b.Compat.WholeRuns() {
				continue // the group is a whole collection run, which is committed at its end
			}
		}
		if err != nil {
			return err
		}
		b.At.Groups = it.done
		b.order.Add(it.first)
		if last, err = b.commitWhenDue(last); err != nil {
			return err
		}
		// Once 1/32 of the inputs is in the log, estimate how many records they will yield, so that the index doesn't
		// have to grow repeatedly.
		if done, total := b.bytesRead(); !b.expected && total > 0 && done >= total/32 && done > 0 {
			b.expected = true
			b.Index.Expect(uint64(1.03 * float64(b.Index.Len()) * float64(total) / float64(done)))
		}
		b.reportBuilt()
	}
	if !*fed { // return an error, so that the log isn't treated as complete
		<-ctx.Done() // wait: if feed fails, ctx is cancelled
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return b.commit(true)
}

// endRun records the end of a collection run. It returns the collection run's failure if that makes the whole run fail.
func (b *building) endRun(it *item) error {
	if it.fail != nil && !b.KeepGoing {
		return collectionError{exit.Failedf("collection run %d failed: %w", it.at.Run, it.fail)}
	}
	b.At.Source = source.Cursor{Run: it.at.Run + 1}
	b.At.Inputs = append(b.At.Inputs, it.input)
	b.At.Seen.Add(&it.seen)
	if it.fail != nil {
		b.At.Failed = append(b.At.Failed, it.at.Run)
		b.Warn("collection run %d failed: %v; %s", it.at.Run, it.fail, b.Compat.FailedRun())
	}
	if len(it.drops) == 0 {
		return nil
	}
	return b.append(&ttc.Group{}, it.drops, nil)
}

// logGroup receives and logs the builders' output for a group. If the group is a whole collection run and a builder
// failed on it, it logs nothing, and broken is the builder's error.
func (b *building) logGroup(ctx context.Context, it *item) (broken, err error) {
	results, err := it.receiveResults(ctx, b.Builders, b.unit)
	if err != nil {
		return nil, err
	}
	if b.Compat.WholeRuns() {
		for _, parts := range results {
			for _, res := range parts {
				if res.Reason != "" {
					return res.Err, nil
				}
			}
		}
	}
	if err := b.append(it.group, it.drops, results); err != nil {
		return nil, err
	}
	if !b.Compat.WholeRuns() {
		b.At.Source = it.at
	}
	return nil, nil
}

// receiveResults receives every builder's results for a group, part by part.
func (it *item) receiveResults(ctx context.Context, from []*Builder, unit builders.Unit) ([][]*result, error) {
	if len(it.group.Examples) == 0 {
		return nil, nil
	}
	results := make([][]*result, len(from))
	for i, x := range from {
		for _, g := range it.partsFor(x, unit) {
			res, err := x.receive(ctx, g)
			if err != nil {
				return nil, err
			}
			results[i] = append(results[i], res)
		}
	}
	return results, nil
}

// append builds a group's frame from the source's drops and the builders' results, and adds it to the log, the index
// and the books.
func (b *recording) append(g *ttc.Group, drops []ledger.Drop, results [][]*result) error {
	f := b.frame
	f.Begin(g)
	for _, d := range drops {
		f.Drop(d)
	}
	f.Account(ledger.Source, stage.UnitExample, 0, int64(len(g.Examples)))
	keep := &keeping{Filter: b.where}
	if len(keep.Clauses) > 0 && results != nil {
		keep.subject.InGroup(g)
	}
	for i, parts := range results {
		first := 0
		for _, res := range parts {
			b.Builders[i].log(f, i, first, res, keep)
			first += len(res.Group.Examples)
		}
	}
	if err := b.log.Append(f.Group()); err != nil {
		return logError("write the record log", err)
	}
	if err := b.take(f.Group()); err != nil {
		return err
	}
	for _, parts := range results {
		for _, res := range parts {
			res.Release()
		}
	}
	return nil
}

// commitWhenDue commits if enough time has passed since the last commit, or enough has been appended. It also commits
// if the clock was set back, which would otherwise delay commits. It returns the time of the last commit.
func (b *building) commitWhenDue(last time.Time) (time.Time, error) {
	now := b.Now()
	if now.Sub(last) < commitEvery && !now.Before(last) &&
		b.log.Uncommitted() < cmp.Or(b.CommitBytes, commitBytes) {
		return last, nil
	}
	return now, b.commit(false)
}

func (b *recording) commit(done bool) error {
	at, err := json.Marshal(b.At)
	if err != nil {
		return err
	}
	if err = b.order.Sync(); err == nil {
		err = b.log.Commit(at, done)
	}
	return exit.Cant("commit the record log", err)
}

// reportBuilt reports as progress how many bytes of the inputs are in the log.
func (b *building) reportBuilt() {
	if b.Progress == nil {
		return
	}
	done, total := b.bytesRead()
	examples := b.Of(ledger.Source, stage.UnitExample).Out // Account.In isn't known until all inputs are read
	b.Tell(stage.Progress{
		Step: "build", Done: done, Total: total, Unit: stage.UnitByte,
		Detail: fmt.Sprintf("%s, %s", ledger.Quantity(examples, stage.UnitExample),
			ledger.Quantity(int64(b.Index.Len()), stage.UnitRecord)),
	})
}

// rebase makes a record's references to a part of a group refer to the whole group. The part begins at example first.
func rebase(r builders.Record, first int) {
	r.Header().Example += first
	for _, c := range builders.Contents(r) {
		if c.Ref.Part != builders.InlineText && c.Ref.Part != builders.InlineMessages {
			c.Ref.Example += first
		}
	}
}

// logError wraps an error from the record log. An error without an exit code gets Failed if the log is full, and
// Environment otherwise, because a retry may succeed.
func logError(what string, err error) error {
	code := exit.Environment
	if errors.Is(err, recordlog.ErrFull) {
		code = exit.Failed
	}
	return exit.Default(code, fmt.Errorf("can't %s: %w", what, err))
}
