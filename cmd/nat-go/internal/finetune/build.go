package finetune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/group"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// A commit makes what was built so far survive a crash. It costs a sync, so it is made at intervals.
const commitEvery = 2 * time.Second

// CommitBytes is how many bytes of the record log a crash may cost. Tests lower it.
var CommitBytes int64 = 64 << 20

// groupsInFlight bounds the groups that are on their way through the builders; the sessions' own credits bound the bytes.
const groupsInFlight = 4096

// cursor is where a run stands in its inputs: what a commit of the log records.
type cursor struct {
	Source source.Cursor  `json:"source"`
	Inputs []source.Input `json:"inputs,omitempty"` // those read to their end
	Failed []int          `json:"failed,omitempty"` // collection runs that failed and were passed over
	Seen   source.Stats   `json:"seen"`             // counts of the collection runs read to their end
	Groups int64          `json:"groups,omitempty"` // groups done, where the run's unit is more than an example

	committed bool // read from a log, not new
}

// item is a group on its way, with what the source dropped before it; or drops alone; or the end of a collection run.
type item struct {
	group *ttc.Group
	parts []*ttc.Group // its examples as groups of their own, for builders of that unit
	drops []ledger.Drop
	at    source.Cursor
	done  int64 // groups up to this one, where the run's unit is more than an example
	// At the end of a collection run:
	end   bool
	input source.Input
	seen  source.Stats
	fail  error // why the collection run failed
}

// build streams the examples of every collection run through the builders into the record log. One goroutine reads and
// sends, one takes the results in order and writes the log; the builders' processes work in between.
func (r *run) build(ctx context.Context) error {
	log, from, err := r.openLog()
	if err != nil {
		return err
	}
	if err := r.openIndex(); err != nil {
		return err
	}
	if r.plan.resume && from.committed {
		if err := r.replay(ctx); err != nil {
			return err
		}
	}
	if log == nil {
		r.seen, r.inputs = from.Seen, from.Inputs
		return nil
	}
	defer log.Close()
	r.frame = recordlog.NewBuilder(r.stageNames())
	items := make(chan item, groupsInFlight)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(items)
		return r.feed(ctx, from, items)
	})
	g.Go(func() error { return r.gather(ctx, log, from, items) })
	if err := g.Wait(); err != nil {
		var failed *collectionError
		if r.plan.Compat && errors.As(err, &failed) {
			return r.leaveCollected(err)
		}
		return err
	}
	r.endBuilders()
	return nil
}

// feed reads the collection runs and sends their groups to the builders.
func (r *run) feed(ctx context.Context, from cursor, items chan<- item) error {
	feed := r.feedExamples
	if r.grouped() {
		feed = r.feedGroups
	}
	if err := feed(ctx, from, items); err != nil && !errors.Is(err, errFed) {
		return err
	}
	for _, s := range r.stages {
		s.session.CloseSend()
	}
	return nil
}

// errFed ends the feeding at a collection run that failed: what was sent before is still built, and the failure told in
// its turn.
var errFed = errors.New("a collection run failed")

// collectionError is why a collection run failed, and the run with it.
type collectionError struct {
	run int
	err error
}

func (e *collectionError) Error() string {
	return fmt.Sprintf("collection run %d failed: %v", e.run, e.err)
}

func (e *collectionError) Unwrap() error { return e.err }

// feedExamples sends each example as it is read.
func (r *run) feedExamples(ctx context.Context, from cursor, items chan<- item) error {
	for k := from.Source.Run; k < len(r.plan.inputs.paths); k++ {
		var resume *source.Cursor
		if k == from.Source.Run && from.Source.Row > 0 {
			at := from.Source
			at.Run = 0
			resume = &at
		}
		f := feeder{run: r, k: k, items: items}
		if err := f.collect(ctx, resume, false); err != nil {
			return err
		}
	}
	return nil
}

// collect reads one collection run. That the input can't be read ends the run, or only the collection run where the config
// says so. failed says that it did so in the part of the run that is done.
func (f *feeder) collect(ctx context.Context, resume *source.Cursor, failed bool) error {
	r, k := f.run, f.k
	err := f.read(ctx, resume)
	if ctx.Err() == nil && k < f.told.Run {
		return f.again(failed, err)
	}
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		if r.plan.Compat { // NAT leaves out all of it
			f.drops, f.seen = nil, source.Stats{}
		}
		if !r.plan.trainer.ContinueOnCollectionError {
			return errors.Join(f.push(ctx, item{end: true, fail: err}), errFed)
		}
	} else if r.plan.Compat {
		// A collection run is one group, and even an empty one is built: NAT writes a file for it.
		if err := f.send(ctx, &ttc.Group{Key: strconv.Itoa(k), Examples: f.held}); err != nil {
			return err
		}
	}
	return f.push(ctx, item{end: true, input: f.input, seen: f.seen, fail: err})
}

// feeder reads one collection run.
type feeder struct {
	run   *run
	k     int
	items chan<- item
	drops []ledger.Drop
	held  []*ttc.Example // the whole run, in compat
	index *group.Index   // where examples are kept to be grouped, else nil
	told  source.Cursor  // with index: what was dropped up to here is in the log already
	done  int64          // groups sent, of those that are counted
	at    source.Cursor
	input source.Input
	seen  source.Stats
}

func (f *feeder) read(ctx context.Context, resume *source.Cursor) error {
	rd := f.run.reader(ctx, f.k, resume)
	rd.steady()
	defer func() {
		rd.close()
		f.seen = rd.seen
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
		ex := next.example
		f.at = next.at
		if f.run.plan.Compat {
			f.held = append(f.held, ex)
			continue
		}
		if f.index != nil {
			if err := f.keep(ctx, ex); err != nil {
				return err
			}
			continue
		}
		if err := f.send(ctx, &ttc.Group{Key: ex.ID, Examples: []*ttc.Example{ex}}); err != nil {
			return err
		}
	}
}

// send gives a group to every builder, and notes that its results are due.
func (f *feeder) send(ctx context.Context, g *ttc.Group) error {
	it := item{group: g}
	for _, s := range f.run.stages { // split it before another goroutine has it
		it.partsFor(s, f.run.unit())
	}
	if err := f.push(ctx, it); err != nil {
		return err
	}
	if len(g.Examples) == 0 { // a collection run of nothing: there is nothing to ask of a builder
		return nil
	}
	for _, s := range f.run.stages {
		for _, part := range it.partsFor(s, f.run.unit()) {
			if err := s.session.Send(ctx, part); err != nil {
				return s.failed(err)
			}
		}
	}
	return nil
}

func (f *feeder) push(ctx context.Context, it item) error {
	it.at, it.drops, it.done = f.at, f.drops, f.done
	it.at.Run = f.k
	f.drops = nil
	select {
	case f.items <- it:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// gather takes the builders' results of each group, in order, and appends them to the log.
func (r *run) gather(ctx context.Context, log *recordlog.Writer, at cursor, items <-chan item) (err error) {
	last := r.env.Now()
	defer func() {
		if err != nil && (ctx.Err() != nil || errors.As(err, new(*collectionError))) { // keep what is done
			_ = r.commit(log, at, false)
		}
	}()
	var broken error // in compat: the builder failed on the collection run, which ends next
	for it := range items {
		switch {
		case it.end:
			if broken != nil {
				it.fail, it.seen, it.drops, broken = broken, source.Stats{}, nil, nil
			}
			if it.fail != nil && !r.plan.trainer.ContinueOnCollectionError {
				return exit.With(exit.Failed, &collectionError{it.at.Run, it.fail})
			}
			at.Source = source.Cursor{Run: it.at.Run + 1}
			at.Inputs = append(at.Inputs, it.input)
			at.Seen.Add(&it.seen)
			if it.fail != nil {
				at.Failed = append(at.Failed, it.at.Run)
				r.warn("collection run %d failed: %v; %s", it.at.Run, it.fail, r.lost())
			}
			if len(it.drops) > 0 {
				if err := r.append(log, &ttc.Group{}, it.drops, nil); err != nil {
					return err
				}
			}
		case it.group == nil:
			if err := r.append(log, &ttc.Group{}, it.drops, nil); err != nil {
				return err
			}
			at.Source = it.at
		default:
			results, err := r.results(ctx, &it)
			if err != nil {
				return err
			}
			if broken = r.failedRun(results); broken != nil {
				continue
			}
			if err := r.append(log, it.group, it.drops, results); err != nil {
				return err
			}
			if r.plan.Compat {
				continue // the group is the whole collection run, which is committed with its end
			}
			at.Source = it.at
		}
		at.Groups = it.done
		now := r.env.Now()
		// A clock that was set back must not put off the next commit.
		if due := now.Sub(last) >= commitEvery || now.Before(last); due || log.Uncommitted() >= CommitBytes {
			if err := r.commit(log, at, false); err != nil {
				return err
			}
			last = now
		}
		r.expectRecords(&at)
		r.building(&at)
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	r.seen, r.inputs = at.Seen, at.Inputs
	return r.commit(log, at, true)
}

// lost says what becomes of a collection run that failed.
func (r *run) lost() string {
	if r.plan.Compat {
		return "all of it is left out, as NAT does"
	}
	return "what was read of it before is used"
}

// failedRun is why a builder failed on a collection run in compat, where the run is one group and NAT loses all of it.
func (r *run) failedRun(results [][]*stageResult) error {
	for _, parts := range results {
		for _, res := range parts {
			if r.plan.Compat && res.Reason != "" {
				return res.Err
			}
		}
	}
	return nil
}

func (r *run) commit(log *recordlog.Writer, at cursor, done bool) error {
	b, err := json.Marshal(at)
	if err != nil {
		return err
	}
	if err := log.Commit(b, done); err != nil {
		return exit.Environmentf("can't commit the record log: %w", err)
	}
	return nil
}

// append adds a group's frame to the log.
func (r *run) append(log *recordlog.Writer, g *ttc.Group, drops []ledger.Drop, results [][]*stageResult) error {
	b := r.frame
	b.Begin(g)
	for _, d := range drops {
		b.Drop(d)
	}
	b.Account(ledger.Source, "example", 0, int64(len(g.Examples)))
	for i, parts := range results {
		first := 0
		for _, res := range parts {
			r.stages[i].settle(b, i, first, res)
			first += len(res.Group.Examples)
		}
	}
	if err := log.Append(b.Group()); err != nil {
		return exit.Environmentf("can't write the record log: %w", err)
	}
	if err := r.take(b.Group()); err != nil {
		return err
	}
	for _, parts := range results {
		for _, res := range parts {
			res.Release()
		}
	}
	return nil
}

// openLog starts the log, or goes on with one that a run left behind. A nil log means that all groups are in already.
func (r *run) openLog() (*recordlog.Writer, cursor, error) {
	var at cursor
	if !r.plan.resume {
		log, err := recordlog.Create(r.plan.folder.Records())
		if err != nil {
			return nil, at, exit.Environmentf("can't start the record log: %w", err)
		}
		return log, at, nil
	}
	c, err := recordlog.ReadCommit(r.plan.folder.Records())
	if errors.Is(err, fs.ErrNotExist) { // the run died before its first commit
		if err := recordlog.Remove(r.plan.folder.Records()); err != nil {
			return nil, at, exit.Environmentf("can't start the record log: %w", err)
		}
		log, err := recordlog.Create(r.plan.folder.Records())
		if err != nil {
			return nil, at, exit.Environmentf("can't start the record log: %w", err)
		}
		return log, at, nil
	}
	if err != nil {
		return nil, at, exit.With(exit.Environment, err)
	}
	if len(c.Cursor) > 0 {
		if err := json.Unmarshal(c.Cursor, &at); err != nil {
			return nil, at, exit.Environmentf("the record log's commit is damaged: %w", err)
		}
	}
	at.committed = true
	if c.Done {
		return nil, at, nil
	}
	log, err := recordlog.Open(r.plan.folder.Records())
	if err != nil {
		return nil, at, exit.Environmentf("can't go on with the record log: %w", err)
	}
	return log, at, nil
}

func (r *run) stageNames() []string {
	names := make([]string, len(r.stages))
	for i, s := range r.stages {
		names[i] = s.name
	}
	return names
}
