package finetune

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/internal/where"
	"github.com/nat-go/nat-go/plugins/host"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/group"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// item is a group for the builders, drops without a group, or the end of a collection run. A group comes with the
// source's drops that precede it.
type item struct {
	position
	group *ttc.Group
	parts []*ttc.Group // one group per example, for builders that work on examples
	end   bool
	fail  error // at the end of a collection run: why it failed
}

// position describes how far a feeder has got.
type position struct {
	at    source.Cursor
	drops []ledger.Drop // drops since the last item
	// If the run's unit is larger than an example:
	done  int64        // number of groups up to and including the last group sent
	first shards.Place // position of that group's first example
	// At the end of a collection run:
	input source.Input
	seen  source.Stats
}

// partsFor divides the group for a builder. It returns the whole group if the builder and the run have the same unit,
// and one group per example otherwise.
func (it *item) partsFor(b *builder, unit builders.Unit) []*ttc.Group {
	if len(it.group.Examples) <= 1 || b.unit != builders.UnitExample && b.unit == unit {
		return []*ttc.Group{it.group}
	}
	if it.parts == nil {
		for _, ex := range it.group.Examples {
			it.parts = append(it.parts, &ttc.Group{Key: ex.ID, Examples: []*ttc.Example{ex}})
		}
	}
	return it.parts
}

// feed reads the collection runs and sends groups to the builders. A group is a single example, a whole collection run,
// or a task, whose examples may come from several collection runs. To continue after a crash, a run that forms tasks
// rereads all inputs, because a commit doesn't include the index.
func (b *building) feed(ctx context.Context, from cursor, items chan<- *item) error {
	f := &feeder{of: b, items: items}
	err := f.feedAll(ctx, from)
	if err != nil && !errors.Is(err, errFed) {
		return err
	}
	for _, x := range b.builders {
		x.session.CloseSend()
	}
	return nil
}

func (f *feeder) feedAll(ctx context.Context, from cursor) error {
	b := f.of
	s := b.plan.shard
	var tasks *group.Index
	switch {
	case s.stores():
		f.index = s.spill
	case b.unit != builders.UnitExample && !b.plan.Compat.WholeRuns():
		var err error
		if tasks, err = f.newIndex(); err != nil {
			return exit.With(exit.Environment, err)
		}
		defer tasks.Close()
		f.index, f.logged = tasks, from.Source
	}
	for f.k = range b.in.paths {
		switch {
		case !b.in.reads(f.k) || f.index == nil && f.k < from.Source.Run:
			continue
		case tasks != nil && f.k == from.Source.Run && tasks.Len()+b.unmet != from.Seen.Examples:
			return exit.Environmentf("inputs had %d examples before the run was interrupted and have %d now: they changed, "+
				"so the run can't be resumed", from.Seen.Examples, tasks.Len()+b.unmet)
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
	if err := s.addTo(ctx, tasks); err != nil {
		return err
	}
	f.k, f.done, f.logged = len(b.in.paths), from.Groups, source.Cursor{}
	return f.sendGroups(ctx, tasks)
}

// newIndex returns an index that groups examples by task, or by collection run if that is the run's unit.
func (f *feeder) newIndex() (*group.Index, error) {
	b := f.of
	opt := group.Options{Dir: string(b.plan.folder), Limits: group.Limits{Bytes: int64(b.plan.config.Limits.Group)}}
	if b.unit == builders.UnitRun {
		opt.By = group.Run
	}
	return group.New(host.NewExampleCodec(), opt)
}

// errFed stops feedAll if a failed collection run makes the whole run fail. feed doesn't return it, so the preceding
// groups are still built, and gather then reports the failure.
var errFed = errors.New("collection run failed")

// collectionError is a collection run's failure that makes the whole run fail.
type collectionError struct{ error }

func (e collectionError) Unwrap() error { return e.error }

// sendGroups sends the index's groups that haven't been sent yet.
func (f *feeder) sendGroups(ctx context.Context, index *group.Index) error {
	for g, err := range index.Groups(f.done) {
		if err != nil {
			return exit.With(exit.Environment, err)
		}
		f.done++
		if g.Refused != nil {
			f.first = placeOf(g.Refused.First)
			f.drops = append(f.drops, dropOf(g.Refused.First, ledger.Drop{
				Stage: ledger.Source, Reason: builders.GroupTooLarge, Unit: stage.UnitExample, Count: g.Refused.Examples,
				Detail: g.Refused.Error(),
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

// dropOf returns d as the drop of an example, or of a part of it.
func dropOf(ex *ttc.Example, d ledger.Drop) ledger.Drop {
	d.Run, d.Example, d.File, d.Offset, d.Index = ex.Run, ex.ID, ex.File, ex.Offset, -1
	return d
}

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
	whole := f.of.plan.Compat.WholeRuns()
	switch {
	case ctx.Err() != nil:
		return cmp.Or(err, ctx.Err())
	case f.k < f.logged.Run:
		return f.checkEnd(err)
	case err != nil:
		if whole {
			f.drops, f.seen = nil, source.Stats{}
		}
		if !f.of.plan.trainer.ContinueOnCollectionError {
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
		return exit.Environmentf("collection run %d could be read before the run was interrupted, and can't now: %w", f.k, err)
	case err == nil && f.failed:
		return exit.Environmentf("collection run %d couldn't be read before the run was interrupted, and can now: "+
			"start a new run", f.k)
	}
	return nil
}

// read reads the collection run. It sends the examples, stores them in the index, or holds them for readRun.
func (f *feeder) read(ctx context.Context) error {
	rd := f.reader(ctx)
	rd.lowerLimit()
	defer func() {
		rd.close()
		f.seen = rd.seen
		f.of.unmet += rd.unmet
	}()
	for {
		next, err := rd.next(ctx)
		f.drops = append(f.drops, next.drops...)
		if errors.Is(err, io.EOF) {
			rd.close()
			if n := len(rd.inputs); n > 0 {
				f.input = rd.inputs[n-1]
			}
			return nil
		}
		if err != nil {
			return err
		}
		f.at = next.at
		switch {
		case f.of.plan.Compat.WholeRuns():
			if next.example != nil {
				f.held = append(f.held, next.example)
			}
		case f.index != nil || next.example == nil:
			err = f.keep(ctx, next.example)
		default:
			err = f.send(ctx, &ttc.Group{Key: next.example.ID, Examples: []*ttc.Example{next.example}})
		}
		if err != nil {
			return err
		}
	}
}

// reader returns the collection run's reader, reusing the one that was started ahead of time.
func (f *feeder) reader(ctx context.Context) *reader {
	if rd := f.of.ahead; rd != nil && f.k == 0 {
		f.of.ahead = nil
		return rd
	}
	return newReader(ctx, f.of.in, f.k, f.resume)
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
	for _, b := range f.of.builders { // set it.parts before another goroutine can access it
		it.partsFor(b, f.of.unit)
	}
	if err := f.push(ctx, it); err != nil {
		return err
	}
	if len(g.Examples) == 0 { // builders don't get an empty collection run
		return nil
	}
	for _, b := range f.of.builders {
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

// A reader reads at most this many bytes ahead in an input, because queued examples take up memory. The higher limit
// applies while the builders are starting, and is about as much as can be read in that time. The lower limit applies
// after that, and is enough to keep the builders busy.
const (
	aheadBytes  = 12 << 20
	steadyBytes = 2 << 20
)

// reader reads a collection run in its own goroutine, somewhat ahead of the consumer of its examples.
type reader struct {
	out    chan reading
	ahead  atomic.Int64  // bytes of the input waiting to be consumed
	most   atomic.Int64  // maximum value of ahead; an example larger than this is queued alone
	taken  chan struct{} // receives a value when an example is consumed
	cancel context.CancelFunc
	done   chan struct{} // closed when reading has ended; only then may the fields below be read
	seen   source.Stats
	unmet  int64 // number of examples that dataset.where drops
	inputs []source.Input
}

// reading is an example, or the error that ended reading, such as io.EOF.
type reading struct {
	example *ttc.Example // nil if dataset.where drops the example
	at      source.Cursor
	drops   []ledger.Drop // the source's drops that precede the example
	err     error
	bytes   int64 // size of the example in the input
}

// newReader starts reading collection run k, after position resume or, if that is nil, from the beginning.
func newReader(ctx context.Context, in *inputs, k int, resume *source.Cursor) *reader {
	rd := &reader{out: make(chan reading, 256), taken: make(chan struct{}, 1), done: make(chan struct{})}
	rd.most.Store(aheadBytes)
	ctx, rd.cancel = context.WithCancel(ctx)
	go func() {
		defer close(rd.done)
		rd.read(ctx, in, k, resume)
	}()
	return rd
}

func (rd *reader) read(ctx context.Context, in *inputs, k int, resume *source.Cursor) {
	var next reading
	held := heldDrops{seen: map[stage.DropKind]int{}, rest: map[stage.DropKind]int{}}
	src, err := in.open(ctx, in.paths[k], source.Options{
		Drop:   func(d ledger.Drop) { d.Run = k; held.add(d) },
		Resume: resume,
		Inputs: in.began[k : k+1],
		Part:   in.parts[k],
	})
	if err != nil {
		next.drops, next.err = held.take(), err
		rd.send(ctx, next)
		return
	}
	defer src.Close()
	models, subject := map[string]int64{}, where.Subject{}
	at, end := in.bounds(k)
	if resume != nil {
		at = *resume
	}
	for {
		before := at.Offset
		if end > 0 && at.Row >= end {
			next.err = in.ended(k, at)
		} else if next.example, next.at, next.err = src.Next(ctx); next.err == nil {
			at = next.at
			next.example.Run, next.at.Run = k, k
			if in.plan.verdict != nil {
				in.plan.verdict.Give(next.example)
			}
			if in.plan.scores != nil {
				in.plan.scores.Give(next.example)
			}
			subject.Example = next.example
			if clause := in.where.FirstFailing(&subject); clause != "" {
				why := ledger.Drop{Stage: ledger.Source, Reason: where.NotMet, Unit: stage.UnitExample, Detail: clause}
				held.add(dropOf(next.example, why))
				next.example = nil
				rd.unmet++
			} else if in.models {
				countModels(models, next.example)
			}
			next.bytes = max(at.Offset-before, 0)
		} else if errors.Is(next.err, io.EOF) {
			next.err = in.exhausted(k, src.Inputs())
		}
		next.drops = held.take()
		rd.seen, rd.inputs = *src.Stats(), src.Inputs()
		rd.seen.Models = models
		if next.err == nil && rd.seen.ReadyPairs > 0 && in.lower != "" {
			next.err = exit.Failedf("%s names the better side of its pairs, which gets the higher score, but "+
				"trajectory_builders.%s has score_direction: lower, which would reverse each pair: remove it",
				in.paths[k], in.lower)
		}
		if !rd.send(ctx, next) || next.err != nil {
			return
		}
		next = reading{}
	}
}

// bounds returns the position at which to start reading path k, and the row before which to stop. A row of 0 means the
// end of the file.
func (in *inputs) bounds(k int) (from source.Cursor, end int64) {
	if p := in.parts[k]; p != nil {
		return p.From, p.To.Row
	}
	return from, in.plan.Limit
}

// heldDrops holds the drops that belong to the next reading. For each kind, it keeps as many as dropped.jsonl lists,
// plus one that counts the rest. This bounds the memory for a file whose lines are all dropped.
type heldDrops struct {
	drops []ledger.Drop
	seen  map[stage.DropKind]int
	rest  map[stage.DropKind]int // index in drops of the drop that counts the rest
}

func (h *heldDrops) add(d ledger.Drop) {
	k := stage.KindOf(&d)
	h.seen[k]++
	switch n := h.seen[k]; {
	case n <= stage.MaxListed:
		h.drops = append(h.drops, d)
	case n == stage.MaxListed+1:
		d.Count = d.N()
		h.rest[k] = len(h.drops)
		h.drops = append(h.drops, d)
	default:
		h.drops[h.rest[k]].Count += d.N()
	}
}

func (h *heldDrops) take() []ledger.Drop {
	drops := h.drops
	h.drops = nil
	clear(h.seen)
	return drops
}

// send puts an example into the queue once there is room for it. It returns false if the reader is stopped.
func (rd *reader) send(ctx context.Context, next reading) bool {
	for rd.ahead.Load() > 0 && rd.ahead.Load()+next.bytes > rd.most.Load() {
		select {
		case <-rd.taken:
		case <-ctx.Done():
			return false
		}
	}
	rd.ahead.Add(next.bytes)
	select {
	case rd.out <- next:
		return true
	case <-ctx.Done():
		return false
	}
}

// lowerLimit lowers the limit on bytes read ahead. It is called when the builders have started.
func (rd *reader) lowerLimit() { rd.most.Store(steadyBytes) }

// next returns the next example. Once it returns an error, there aren't any more examples.
func (rd *reader) next(ctx context.Context) (reading, error) {
	select {
	case next := <-rd.out:
		rd.ahead.Add(-next.bytes)
		select {
		case rd.taken <- struct{}{}:
		default:
		}
		return next, next.err
	case <-ctx.Done():
		return reading{}, context.Cause(ctx)
	}
}

// close stops the reader and waits for it to finish. The fields seen, unmet and inputs may be read once close returns.
func (rd *reader) close() {
	if rd != nil {
		rd.cancel()
		<-rd.done // wait: the reader was cancelled
	}
}

// readAhead starts reading the first input while the builders start. It does nothing if reading has to wait for the
// position from which a resumed run continues, for the tokenizer that checks claims, or for the agent that produces the
// input. It doesn't open pipes either, because that may block.
func (r *run) readAhead(ctx context.Context) error {
	in := r.in
	if !r.plan.resume && !in.canProve() && in.collect == nil && len(in.began) > 0 && in.began[0].Size > 0 {
		r.ahead = newReader(ctx, in, 0, nil)
	}
	return nil
}
