package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/where"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// A commit makes the groups built so far survive a crash. Each commit requires a sync, so commits are limited by time
// and bytes.
const (
	commitEvery = 2 * time.Second
	commitBytes = 64 << 20
)

// groupsInFlight is the maximum number of groups waiting for results from the builders. The total size of these groups
// is limited by the builders' sessions.
const groupsInFlight = 4096

// Run streams the examples of every collection run through the builders into the record log. One goroutine reads
// examples and sends them to the builders' processes. Another receives the results in order and writes the log.
func (s Stage) Run(ctx context.Context) (*Built, error) {
	return s.record(func(r *recording) (err error) {
		b := &building{recording: r, unit: s.unit(), total: s.Inputs.Bytes()}
		if err := b.openLog(ctx); err != nil || b.log == nil {
			return err // if err is nil, all groups are already in the log
		}
		if s.Spilled != nil {
			if b.order, err = shards.OpenOrder(s.Folder, b.At.Groups); err != nil {
				b.log.Close()
				return exit.Cant("continue the record log", err)
			}
		}
		return b.stream(ctx)
	})
}

// unit returns the run's unit, which is the coarsest one that its builders or dataset.where require.
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

// bytesRead returns the number of input bytes that are in the log.
func (b *building) bytesRead() int64 { return b.Inputs.Before(b.At.Source.Run) + b.At.Source.Offset }

// gather receives the builders' results for each group, in order, and appends them to the log. Once items is closed,
// *fed reports whether all items were sent.
func (b *building) gather(ctx context.Context, items <-chan *item, fed *bool) (err error) {
	last := b.Now()
	defer func() {
		if err != nil && (ctx.Err() != nil || errors.As(err, new(collectionError))) { // commit the logged groups
			_ = b.commit(false)
		}
	}()
	var broken error        // error of a builder for a whole collection run; the next item ends that run
	for it := range items { // wait: feed watches ctx, and items is closed when feed returns
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
		if done := b.bytesRead(); !b.expected && b.total > 0 && done >= b.total/32 && done > 0 {
			b.expected = true
			b.Index.Expect(uint64(1.03 * float64(b.Index.Len()) * float64(b.total) / float64(done)))
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

// reportBuilt reports as progress how many bytes of the inputs are in the log.
func (b *building) reportBuilt() {
	if b.Progress == nil {
		return
	}
	examples := b.Of(ledger.Source, stage.UnitExample).Out // Account.In isn't known until all inputs are read
	b.Tell(stage.Progress{
		Step: "build", Done: b.bytesRead(), Total: b.total, Unit: stage.UnitByte,
		Detail: fmt.Sprintf("%s, %s", ledger.Quantity(examples, stage.UnitExample),
			ledger.Quantity(int64(b.Index.Len()), stage.UnitRecord)),
	})
}

// collectionError is a collection run's failure that makes the whole run fail.
type collectionError struct{ error }

func (e collectionError) Unwrap() error { return e.error }
