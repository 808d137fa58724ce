package build

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/plugins/host"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/group"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// feed reads the collection runs and sends groups to the builders. A group is a single example, a whole collection run,
// or a task, whose examples may come from several collection runs. To continue after a crash, a run that forms tasks
// rereads all inputs, because a commit doesn't include the index.
func (b *building) feed(ctx context.Context, from Cursor, items chan<- *item) error {
	f := &feeder{of: b, items: items}
	err := f.feedAll(ctx, from)
	if err != nil && !errors.Is(err, errFed) {
		return err
	}
	for _, x := range b.Builders {
		x.session.CloseSend()
	}
	return nil
}

func (f *feeder) feedAll(ctx context.Context, from Cursor) error {
	b := f.of
	var tasks *group.Index
	switch {
	case b.Spill != nil:
		f.index = b.Spill
	case b.unit != builders.UnitExample && !b.Compat.WholeRuns():
		var err error
		if tasks, err = f.newIndex(); err != nil {
			return exit.With(exit.Environment, err)
		}
		defer tasks.Close()
		f.index, f.logged = tasks, from.Source
	}
	for f.k = range b.Inputs.Runs() {
		switch {
		case !b.Inputs.Reads(f.k) || f.index == nil && f.k < from.Source.Run:
			continue
		case tasks != nil && f.k == from.Source.Run && tasks.Len()+b.unmet != from.Seen.Examples:
			return exit.Environmentf("inputs had %d examples before the run was interrupted and have %d now: they "+
				"changed, so the run can't be resumed", from.Seen.Examples, tasks.Len()+b.unmet)
		}
		one := *f
		one.failed = tasks != nil && slices.Contains(from.Failed, f.k)
		if f.index == nil && f.k == from.Source.Run && from.Source.Row > 0 {
			at := from.Source
			at.Run = 0
			one.resume = &at
		}
		if err := one.readRun(ctx); err != nil {
			return err
		}
	}
	if tasks == nil {
		return nil
	}
	if b.Spilled != nil {
		if err := b.Spilled(ctx, tasks); err != nil {
			return err
		}
	}
	f.k, f.done, f.logged = b.Inputs.Runs(), from.Groups, source.Cursor{}
	return f.sendGroups(ctx, tasks)
}

// newIndex returns an index that groups examples by task, or by collection run if that is the run's unit.
func (f *feeder) newIndex() (*group.Index, error) {
	b := f.of
	opt := group.Options{Dir: string(b.Folder), Limits: group.Limits{Bytes: b.GroupBytes}}
	if b.unit == builders.UnitRun {
		opt.By = group.Run
	}
	return group.New(host.NewExampleCodec(), opt)
}

// errFed stops feedAll if a failed collection run makes the whole run fail. feed doesn't return it, so the preceding
// groups are still built, and gather then reports the failure.
var errFed = errors.New("collection run failed")

// sendGroups sends the index's groups that haven't been sent yet.
func (f *feeder) sendGroups(ctx context.Context, index *group.Index) error {
	for g, err := range index.Groups(f.done) {
		if err != nil {
			return exit.With(exit.Environment, err)
		}
		f.done++
		if g.Refused != nil {
			f.first = placeOf(g.Refused.First)
			f.drops = append(f.drops, stage.DropOf(g.Refused.First, ledger.Drop{
				Stage: ledger.Source, Reason: builders.GroupTooLarge, Unit: stage.UnitExample,
				Count: g.Refused.Examples, Detail: g.Refused.Error(),
			}))
			err = f.push(ctx, &item{})
		} else {
			f.first = placeOf(g.Examples[0])
			err = f.send(ctx, g.Group)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// placeOf returns the position of an example in the inputs.
func placeOf(ex *ttc.Example) shards.Place { return shards.Place{Run: int64(ex.Run), Row: ex.Row} }

// feeder reads the collection runs. Each collection run is read with a copy of the feeder.
type feeder struct {
	position
	of     *building
	k      int // the collection run
	items  chan<- *item
	resume *source.Cursor // continue after this position; nil means from the start
	held   []*ttc.Example // the whole collection run, if it is used as a unit
	index  interface {
		Add(ex *ttc.Example) error
	} // stores examples for grouping; nil if examples aren't grouped
	logged source.Cursor // if index is set, the position up to which drops are already in the log
	failed bool          // if index is set, whether the collection run failed before the interruption
}

// readRun reads the collection run and sends an item for its end, unless the end is already in the log. If the input
// can't be read, the whole run fails, unless the trainer's continue_on_collection_error is set.
func (f *feeder) readRun(ctx context.Context) error {
	err := f.read(ctx)
	whole := f.of.Compat.WholeRuns()
	switch {
	case ctx.Err() != nil:
		return cmp.Or(err, ctx.Err())
	case f.k < f.logged.Run:
		return f.checkEnd(err)
	case err != nil:
		if whole {
			f.drops, f.seen = nil, source.Stats{}
		}
		if !f.of.KeepGoing {
			return errors.Join(f.push(ctx, &item{end: true, fail: err}), errFed)
		}
	case whole: // build even an empty collection run, because NAT writes a file for it
		if err := f.send(ctx, &ttc.Group{Key: strconv.Itoa(f.k), Examples: f.held}); err != nil {
			return err
		}
	}
	return f.push(ctx, &item{end: true, fail: err})
}

// checkEnd returns an error if a collection run that could be read before the interruption can't be read now, or vice
// versa.
func (f *feeder) checkEnd(err error) error {
	switch {
	case err != nil && !f.failed:
		return exit.Environmentf("collection run %d was readable before the interruption, but isn't now: %w", f.k, err)
	case err == nil && f.failed:
		return exit.Environmentf("collection run %d wasn't readable before the interruption, but is now: "+
			"start a new run", f.k)
	}
	return nil
}

// read reads the collection run. It sends the examples, stores them in the index, or holds them for readRun.
func (f *feeder) read(ctx context.Context) (err error) {
	rd := f.of.Inputs.Open(ctx, f.k, f.resume)
	defer func() {
		read := rd.Close()
		f.seen = read.Seen
		f.of.unmet += read.Unmet
		if err == nil {
			f.input = read.Input
		}
	}()
	for {
		next, err := rd.Next(ctx)
		f.drops = append(f.drops, next.Drops...)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		f.at = next.At
		switch {
		case f.of.Compat.WholeRuns():
			if next.Example != nil {
				f.held = append(f.held, next.Example)
			}
		case f.index != nil || next.Example == nil:
			err = f.keep(ctx, next.Example)
		default:
			err = f.send(ctx, &ttc.Group{Key: next.Example.ID, Examples: []*ttc.Example{next.Example}})
		}
		if err != nil {
			return err
		}
	}
}

// keep adds an example, if there is one, to the index. The drops before the example are logged in a separate frame, so
// that the log doesn't depend on how the inputs are divided. Drops that were already logged before an interruption are
// skipped.
func (f *feeder) keep(ctx context.Context, ex *ttc.Example) error {
	if ex != nil {
		if err := f.index.Add(ex); err != nil {
			return exit.With(exit.Environment, err)
		}
	}
	switch {
	case f.at.Run < f.logged.Run || f.at.Run == f.logged.Run && f.at.Row <= f.logged.Row:
		f.drops = nil
	case len(f.drops) > 0:
		return f.push(ctx, &item{})
	}
	return nil
}

// send sends a group to every builder, and to the gather method, which waits for the results.
func (f *feeder) send(ctx context.Context, g *ttc.Group) error {
	it := &item{group: g}
	for _, b := range f.of.Builders { // set it.parts before another goroutine can access it
		it.partsFor(b, f.of.unit)
	}
	if err := f.push(ctx, it); err != nil {
		return err
	}
	if len(g.Examples) == 0 { // builders don't get an empty collection run
		return nil
	}
	for _, b := range f.of.Builders {
		for _, part := range it.partsFor(b, f.of.unit) {
			if err := b.session.Send(ctx, part); err != nil {
				return b.failed(err)
			}
		}
	}
	return nil
}

func (f *feeder) push(ctx context.Context, it *item) error {
	it.position, f.drops = f.position, nil
	it.at.Run = f.k
	select {
	case f.items <- it:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
