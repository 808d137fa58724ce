package finetune

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// gather receives the builders' results for each group, in order, and appends them to the log. Once items is closed,
// *fed tells whether all items were sent.
func (b *building) gather(ctx context.Context, items <-chan *item, fed *bool) (err error) {
	last := b.env.Now()
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
			b.at.Source = it.at
		default:
			broken, err = b.logGroup(ctx, it)
			if err == nil && b.plan.Compat.WholeRuns() {
				continue // the group is a whole collection run, which is committed at its end
			}
		}
		if err != nil {
			return err
		}
		b.at.Groups = it.done
		b.order.Add(it.first)
		if last, err = b.commitWhenDue(last); err != nil {
			return err
		}
		// Once 1/32 of the inputs is in the log, estimate how many records they will yield, so that the index doesn't
		// have to grow repeatedly.
		if done := b.bytesRead(); !b.expected && b.total > 0 && done >= b.total/32 && done > 0 {
			b.expected = true
			b.index.Expect(uint64(1.03 * float64(b.index.Len()) * float64(b.total) / float64(done)))
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
	if it.fail != nil && !b.plan.trainer.ContinueOnCollectionError {
		return collectionError{exit.Failedf("collection run %d failed: %w", it.at.Run, it.fail)}
	}
	b.at.Source = source.Cursor{Run: it.at.Run + 1}
	b.at.Inputs = append(b.at.Inputs, it.input)
	b.at.Seen.Add(&it.seen)
	if it.fail != nil {
		b.at.Failed = append(b.at.Failed, it.at.Run)
		b.out.warn("collection run %d failed: %v; %s", it.at.Run, it.fail, b.plan.Compat.FailedRun())
	}
	if len(it.drops) == 0 {
		return nil
	}
	return b.append(&ttc.Group{}, it.drops, nil)
}

// logGroup receives and logs the builders' output for a group. If the group is a whole collection run and a builder
// failed on it, it logs nothing, and broken is the builder's error.
func (b *building) logGroup(ctx context.Context, it *item) (broken, err error) {
	results, err := it.receiveResults(ctx, b.builders, b.unit)
	if err != nil {
		return nil, err
	}
	if b.plan.Compat.WholeRuns() {
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
	if !b.plan.Compat.WholeRuns() {
		b.at.Source = it.at
	}
	return nil, nil
}

// receiveResults receives every builder's results for a group, part by part.
func (it *item) receiveResults(ctx context.Context, from []*builder, unit builders.Unit) ([][]*result, error) {
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
	f.Account(ledger.Source, unitExample, 0, int64(len(g.Examples)))
	keep := &keeping{runFilter: b.where}
	if len(keep.Clauses) > 0 && results != nil {
		keep.subject.InGroup(g)
	}
	for i, parts := range results {
		first := 0
		for _, res := range parts {
			b.builders[i].log(f, i, first, res, keep)
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
	now := b.env.Now()
	if now.Sub(last) < commitEvery && !now.Before(last) &&
		b.log.Uncommitted() < cmp.Or(b.env.CommitBytes, commitBytes) {
		return last, nil
	}
	return now, b.commit(false)
}

func (b *recording) commit(done bool) error {
	at, err := json.Marshal(b.at)
	if err != nil {
		return err
	}
	if err = b.order.Sync(); err == nil {
		err = b.log.Commit(at, done)
	}
	return cant("commit the record log", err)
}

// reportBuilt reports as progress how many bytes of the inputs are in the log.
func (b *building) reportBuilt() {
	if b.env.Progress == nil {
		return
	}
	examples := b.out.books.Account(ledger.Source, unitExample).Out // Account.In isn't known until all inputs are read
	b.out.tell(Progress{
		Step: "build", Done: b.bytesRead(), Total: b.total, Unit: UnitByte,
		Detail: fmt.Sprintf("%s, %s", ledger.Quantity(examples, unitExample),
			ledger.Quantity(int64(b.index.Len()), unitRecord)),
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
