package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/plugins/internal/wire"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Session is an ordered pipeline through one builder: Recv returns the groups that Send accepts, with their results, in
// the same order. Call Send and CloseSend from one goroutine, and Recv from another.
type Session struct {
	plugin  *Plugin
	builder BuilderInfo
	name    string // the user's name for the builder
	config  []byte

	ctx    context.Context
	cancel context.CancelCauseFunc
	queue  chan *job           // jobs for the workers
	order  chan *job           // jobs for Recv
	window *semaphore.Weighted // bounds the bytes in progress
	wg     sync.WaitGroup
	sent   uint64

	finished atomic.Bool // Recv has returned io.EOF
	failures atomic.Int64
}

// Result is the outcome of a group. If Reason is set, the whole group was dropped, and the result contains no records
// and one drop with unit "group".
type Result struct {
	Group   *ttc.Group
	Records []builders.Record
	Drops   []ledger.Drop
	Counts  []wire.Count
	Reason  ledger.Reason // builder_failed, poison_group, group_too_large, or empty
	// details if Reason is not empty; a *BuilderError or a *PoisonError unless the group is too large
	Err error

	reuse func()
}

// Release makes the records' memory available to later results, if possible. None of the records may be in use.
func (r *Result) Release() {
	if r.reuse != nil {
		r.reuse()
	}
	*r = Result{}
}

// job is a group being processed.
type job struct {
	number uint64
	group  *ttc.Group
	bytes  int64 // bytes taken from the session's window
	alone  int   // number of times the process failed while this was its only job
	result Result
	held   func() // informs the worker that the job's results have been consumed
	done   chan struct{}
}

// Open opens a session with a builder. config is a JSON object, and name is the user's name for the builder. If the
// plugin rejects the config, the error is a *ConfigError. Cancelling ctx ends the session.
func (p *Plugin) Open(ctx context.Context, builder, name string, config []byte) (*Session, error) {
	info, err := p.Builder(builder)
	if err != nil {
		return nil, err
	}
	found, err := p.Validate(ctx, builder, config)
	if err != nil {
		return nil, err
	}
	if err := refusal(name, found); err != nil {
		return nil, err
	}
	s := &Session{
		plugin: p, builder: info, name: name, config: config,
		queue: make(chan *job, queuedJobs), order: make(chan *job, maxJobs),
		window: semaphore.NewWeighted(int64(p.spec.Window)),
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	for _, in := range p.instances {
		w := &worker{session: s, instance: in}
		s.wg.Go(w.run)
	}
	return s, nil
}

// maxJobs bounds the number of groups in progress, regardless of size; queuedJobs bounds the number that no worker has
// taken yet.
const (
	maxJobs    = 4096
	queuedJobs = 64
)

// Send passes a group to the session. It waits while Spec.Window bytes of groups are in progress. The group must not
// change until Recv has returned it. The error is the reason why the session ended.
func (s *Session) Send(ctx context.Context, g *ttc.Group) error {
	s.sent++
	size := sizeOf(g)
	// A group larger than the window is processed on its own.
	j := &job{number: s.sent, group: g, bytes: int64(min(size, s.plugin.spec.Window)), done: make(chan struct{})}
	var tooLarge error
	if limit := s.plugin.spec.GroupLimit; size > limit {
		tooLarge = fmt.Errorf("group %q is %d MiB; limits.group allows %d MiB", g.Key, size>>20, limit>>20)
		j.bytes = 0
	}
	if err := s.acquire(ctx, j.bytes); err != nil {
		return s.end(err)
	}
	select {
	case s.order <- j:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ctx.Done():
		return s.end(nil)
	}
	if tooLarge != nil {
		s.refuse(j, builders.GroupTooLarge, tooLarge)
		return nil
	}
	select {
	case s.queue <- j:
		return nil
	case <-ctx.Done():
		s.cancel(ctx.Err()) // j is already in s.order, but no worker will take it
		return ctx.Err()
	case <-s.ctx.Done():
		return s.end(nil)
	}
}

// CloseSend marks the end of the groups to send.
func (s *Session) CloseSend() {
	close(s.queue)
	close(s.order)
}

// Recv returns the next group's result, or io.EOF after the last. Any other error ends the session: the context's, or a
// *circuitError.
func (s *Session) Recv(ctx context.Context) (Result, error) {
	var j *job
	select {
	case next, ok := <-s.order:
		if !ok {
			s.finished.Store(true)
			return Result{}, io.EOF
		}
		j = next
	case <-ctx.Done():
		return Result{}, ctx.Err()
	case <-s.ctx.Done():
		return Result{}, s.end(nil)
	}
	select {
	case <-j.done:
	case <-ctx.Done():
		return Result{}, ctx.Err()
	case <-s.ctx.Done():
		return Result{}, s.end(nil)
	}
	s.window.Release(j.bytes)
	if j.held != nil {
		j.held()
	}
	return j.result, nil
}

// Close ends the session, including the work in progress.
func (s *Session) Close() {
	if s.finished.Load() { // the streams end by themselves
		late := time.AfterFunc(s.plugin.spec.CallTimeout, func() { s.cancel(errStopped) })
		defer late.Stop()
	} else {
		s.cancel(errStopped)
	}
	s.wg.Wait() // wait: the session is cancelled above or by the timer
	s.cancel(errStopped)
}

// end returns the reason why the session ended.
func (s *Session) end(err error) error {
	if cause := context.Cause(s.ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return cmp.Or(err, s.ctx.Err())
}

// refuse completes a job by dropping its group.
func (s *Session) refuse(j *job, reason ledger.Reason, err error) {
	drops := []ledger.Drop{groupDrop(j.group, s.name, reason, err.Error())}
	j.result = Result{Group: j.group, Reason: reason, Err: err, Drops: drops}
	close(j.done)
}

// failed completes a job whose group the builder failed on.
func (s *Session) failed(j *job, message, stack string) {
	err := &BuilderError{Builder: s.name, Group: j.group.Key, Message: message, Stack: stack}
	s.refuse(j, builders.BuilderFailed, err)
}

// answer checks the result for a job and passes it to Recv.
func (s *Session) answer(j *job, r *wire.Results, reuse func()) {
	s.plugin.hide(r)
	if r.Failure != "" {
		s.logFailure(j.group, r)
		s.failed(j, r.Failure, r.Stack)
		return
	}
	j.result = Result{Group: j.group, Drops: r.Drops, Counts: r.Counts, reuse: reuse}
	for i := range r.Drops {
		cleanDrop(&r.Drops[i], s.plugin.spec, s.name)
	}
	if err := countDrops(r.Drops); err != nil {
		s.failed(j, err.Error(), "")
		return
	}
	kept := r.Records[:0]
	held := spans{group: j.group}
	for _, rec := range r.Records {
		reason, err := checkRecord(j.group, rec, s.builder.Kinds)
		if err == nil {
			kept = append(kept, rec)
			held.add(rec)
			if err := held.check(s.plugin.spec.OutputLimit, s.plugin.spec.OutputSetting); err != nil {
				s.failed(j, err.Error(), "")
				return
			}
			continue
		}
		d := groupDrop(j.group, s.name, reason, "the record "+err.Error())
		d.Unit, d.Turn = "record", rec.Header().Turn
		if i := rec.Header().Example; i >= 0 && i < len(j.group.Examples) {
			ex := j.group.Examples[i]
			d.Run, d.Example, d.File, d.Offset = ex.Run, ex.ID, ex.File, ex.Offset
		}
		j.result.Drops = append(j.result.Drops, d)
	}
	j.result.Records = kept
	close(j.done)
}

// loggedFailures is the maximum number of failed groups logged per builder. Every failed group also has its own drop.
const loggedFailures = 3

func (s *Session) logFailure(g *ttc.Group, r *wire.Results) {
	n := s.failures.Add(1)
	if n > loggedFailures {
		return
	}
	s.plugin.log.Warn().Str("builder", s.name).Str("group", g.Key).Str("stack", r.Stack).
		Msg("the builder failed on a group: " + firstLine(r.Failure))
	if n == loggedFailures {
		s.plugin.log.Warn().Str("builder", s.name).Msg("further groups that the builder fails on are dropped without being logged")
	}
}

// acquire takes bytes from the window, waiting until the caller's or the session's context ends.
func (s *Session) acquire(ctx context.Context, bytes int64) error {
	if s.window.TryAcquire(bytes) {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(s.ctx.Err()) })()
	if s.window.Acquire(ctx, bytes) != nil {
		return context.Cause(ctx)
	}
	return nil
}
