package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/nat-go/nat-go/plugins/internal/wire"
	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
)

// worker passes a session's groups through one instance.
type worker struct {
	session  *Session
	instance *instance
	heldBack atomic.Int64  // bytes of results that Recv has not taken
	taken    chan struct{} // signalled when Recv takes results
}

// run serves the session's queue until the session ends.
func (w *worker) run() {
	w.taken = make(chan struct{}, 1)
	ctx := w.session.ctx
	var backlog []*job // jobs taken from the queue and sent without success; they are resent in order
	for {
		wanted, err := w.instance.gate.share(ctx)
		if err != nil {
			return
		}
		inHand, more, err := w.attempt(ctx, &backlog, w.session.queue, wanted)
		w.instance.gate.release()
		switch {
		case errors.Is(err, errYielded):
			backlog = append(inHand, backlog...)
		case err != nil:
			if !w.recover(ctx, inHand, err) {
				return
			}
		case !more:
			return
		}
	}
}

// recover continues after a failure: the groups in progress are resent, with exclusive use of the instance, to find the
// one that makes the process fail. It reports whether the session continues.
func (w *worker) recover(ctx context.Context, inHand []*job, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	if fatal(ctx, err) {
		w.session.cancel(err)
		return false
	}
	w.session.plugin.log.Warn().Str("plugin", w.session.plugin.spec.Name).Int("groups_in_hand", len(inHand)).
		Err(err).Msg("the plugin failed; restarting it")
	for len(inHand) > 0 {
		// Never wait for results to be consumed while holding the instance exclusively, because their consumer may be
		// waiting for a builder that needs the instance.
		if !w.room(ctx) || w.instance.gate.lock(ctx) != nil {
			return false
		}
		inHand, err = w.isolate(ctx, inHand)
		w.instance.gate.unlock()
		if err != nil {
			if ctx.Err() == nil {
				w.session.cancel(err)
			}
			return false
		}
	}
	return true
}

// room waits, without holding a lock, until Recv has taken enough results for more to be added. It returns false if the
// context ends first.
func (w *worker) room(ctx context.Context) bool {
	for w.full() {
		select {
		case <-w.taken:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// full reports whether too many results are waiting for Recv, so that no more may be added.
func (w *worker) full() bool { return w.heldBack.Load() > heldLimit }

// isolate resends the jobs that a failing process was working on, one by one, each after the previous answer. If the
// process fails again, only one job can be the cause; because that job was also in progress at the earlier failure,
// it counts as poison. isolate returns the jobs that it didn't send because too many results are waiting to be
// consumed.
//
// If a process was killed, the group may not be the cause, because a user, or the system if it lacks memory, may have
// killed it. The group it was working on is then tried alone aloneTries times.
//
// Bisection would require a restart for each step, and find only one such group.
func (w *worker) isolate(ctx context.Context, js []*job) (rest []*job, err error) {
	for len(js) > 0 {
		inHand, _, err := w.attempt(ctx, &js, nil, nil)
		if err == nil {
			return js, nil
		}
		if fatal(ctx, err) {
			return nil, err
		}
		for _, j := range inHand { // at most one job
			if j.alone++; outside(err) && j.alone < aloneTries {
				js = append([]*job{j}, js...)
				continue
			}
			poison := &PoisonError{Builder: w.session.name, Group: j.group.Key, Err: err}
			w.session.plugin.log.Error().Err(poison).Msg("dropping a group that makes the plugin fail")
			w.session.refuse(j, poisonGroup, poison)
		}
	}
	return nil, nil
}

const aloneTries = 3

// fatal reports whether an error ends the session rather than the incarnation.
func fatal(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.As(err, new(*circuitError)) || errors.As(err, new(*ConfigError)) ||
		errors.Is(err, errStopped) || errors.Is(err, errNoCredit)
}

// attempt sends jobs over one stream, first those taken from the backlog, until the feed ends, pause is closed, or
// something fails. Without a feed, it sends one at a time (in lockstep), until the backlog ends. It returns the jobs
// that were taken and still lack a result; more reports whether the feed may contain more.
func (w *worker) attempt(
	ctx context.Context, backlog *[]*job, feed <-chan *job, pause <-chan struct{},
) (inHand []*job, more bool, err error) {
	inc, err := w.instance.incarnation(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.session.cancel(err)
		}
		return nil, false, err
	}
	spec := &w.session.plugin.spec
	a := &attempt{
		worker: w, inc: inc, backlog: backlog, feed: feed, pause: pause, lockstep: feed == nil,
		credit: make(chan struct{}, maxCredit), results: make(chan frame, wire.InitialCredit),
		ahead: semaphore.NewWeighted(aheadLimit), received: make(chan struct{}), idle: make(chan struct{}, 1),
	}
	a.granted.Store(wire.InitialCredit)
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	defer a.cancel(nil)
	if err = a.open(spec.CallTimeout); err == nil {
		a.exchange()
		err = context.Cause(a.ctx)
	}
	if err == nil {
		a.close(spec.CallTimeout)
		return nil, a.more, nil
	}
	if ctx.Err() != nil { // the session has ended; the process is fine
		return a.jobs, true, ctx.Err()
	}
	if _, ok := errors.AsType[*ConfigError](err); ok {
		w.session.cancel(err)
		return nil, false, err
	}
	if !ours(err) {
		err = inc.reason(err)
	}
	inc.fail(err) // a process that failed on one stream isn't used for another
	switch {
	case errors.Is(err, errYielded):
		return a.jobs, true, err
	case errors.Is(err, errNoEnd): // everything is answered
		w.session.plugin.log.Warn().Str("plugin", spec.Name).Msg("the plugin answered all groups and then did not end the stream; its process was ended")
		return nil, a.more, nil
	}
	return a.jobs, true, inc.crash(w.session.plugin, err)
}

// exchange sends jobs and receives results until the stream ends or something cancels the attempt.
func (a *attempt) exchange() {
	var wg sync.WaitGroup
	wg.Go(func() {
		more, err := a.send()
		a.more = more
		if err != nil {
			a.cancel(err)
		}
	})
	wg.Go(func() {
		err := a.read()
		if errors.Is(err, errProtocol) {
			a.cancel(err) // cancel at once, because an earlier send may be waiting for the consumer
		}
		a.readErr = err
		close(a.results)
	})
	wg.Go(func() {
		if err := a.receive(); err != nil {
			a.cancel(err)
		}
		close(a.received)
	})
	wg.Go(a.watch)
	wg.Wait() // wait: the goroutines end with the attempt's context, which watch cancels at a deadline
}

// ours reports whether an error was raised by the host itself, rather than returned by a call.
func ours(err error) bool {
	return errors.As(err, new(*deadlineError)) || errors.As(err, new(*wire.OutputLimitError)) ||
		errors.Is(err, errProtocol) || errors.Is(err, errNoCredit) || errors.Is(err, errYielded) ||
		errors.Is(err, errNoEnd)
}

// attempt is one Build stream.
type attempt struct {
	*worker
	inc    *incarnation
	ctx    context.Context
	cancel context.CancelCauseFunc
	id     string
	stream pb.Builder_BuildClient
	sendMu sync.Mutex
	ended  bool          // the stream is half-closed
	credit chan struct{} // one token per frame that the host may send
	more   bool

	backlog  *[]*job         // jobs to send before the feed's; a job is removed when it is taken
	feed     <-chan *job     // nil in lockstep
	pause    <-chan struct{} // closed when another goroutine wants exclusive use of the instance
	lockstep bool            // the worker has exclusive use of the instance
	idle     chan struct{}   // in lockstep, receives a token once the group has been answered
	received chan struct{}   // closed when the receiver is done
	sent     atomic.Bool     // the sender is done
	starved  atomic.Bool     // the sender is waiting for credit
	lastSent atomic.Uint64   // number of the last group that was sent completely
	waiting  atomic.Bool     // the consumer is slow, which is not the plugin's fault
	clock    clock

	granted atomic.Int64        // total number of frames that the plugin may send
	results chan frame          // frames read but not consumed; the plugin's credit limits their number
	ahead   *semaphore.Weighted // bounds the bytes of the frames read ahead
	readErr error               // why reading ended; set before results is closed

	mu   sync.Mutex
	jobs []*job // jobs sent but without a result, in order
}

// maxCredit is the maximum number of unused credits that a plugin may grant the host.
const maxCredit = 1 << 10

// heldLimit is the maximum number of result bytes that may wait for Recv before the plugin gets no more credit.
const heldLimit = 8 << 20

// aheadLimit is the maximum number of frame bytes read before earlier ones are consumed.
const aheadLimit = 4 << 20

// frame is a message with parts, along with its size.
type frame struct {
	*pb.BuildResponse
	bytes int64
}

// deadlineError reports that the plugin gave no sign of life, or finished no group, for too long.
type deadlineError struct{ what string }

func (e *deadlineError) Error() string { return e.what }

func (a *attempt) open(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(a.ctx, timeout)
	defer cancel()
	s := a.session
	m, err := a.inc.rpc.Open(ctx, &pb.OpenRequest{
		Builder: s.builder.Name, Config: s.config, Name: s.name, ProtocolMinor: wire.Minor,
	})
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded {
			return &deadlineError{fmt.Sprintf("no answer to Open within %s", timeout)}
		}
		return err
	}
	if err := refusal(s.name, s.plugin.findings(m.GetFindings())); err != nil {
		return err
	}
	if m.GetSession() == "" {
		return protocolErrorf("missing session id in the plugin's answer to Open")
	}
	a.id = m.GetSession()
	for range wire.InitialCredit {
		a.credit <- struct{}{} // wait: the channel has capacity for the initial credit
	}
	a.clock.start()
	if a.stream, err = a.inc.rpc.Build(a.ctx); err != nil {
		return err
	}
	if err = a.stream.Send(&pb.BuildRequest{Session: a.id}); errors.Is(err, io.EOF) {
		_, err = a.stream.Recv()
	}
	return err
}

func (a *attempt) close(timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_, _ = a.inc.rpc.Close(ctx, &pb.CloseRequest{Session: a.id})
}

// linger is the time for which a partly filled frame waits for more data.
const linger = 2 * time.Millisecond

// send writes jobs to the stream. It reports whether the feed may contain more.
func (a *attempt) send() (more bool, err error) {
	w := wire.NewGroupWriter(func(m *pb.BuildRequest) error {
		a.starved.Store(true)
		select {
		case <-a.credit:
		case <-a.ctx.Done():
			return context.Cause(a.ctx)
		}
		a.starved.Store(false)
		last := m.Parts[len(m.Parts)-1]
		whole := last.Group
		if !last.End {
			whole-- // the plugin can't answer a group that it has only partly received
		}
		a.lastSent.Store(whole)
		err := a.write(m)
		if errors.Is(err, io.EOF) { // the stream has ended; the receiver reports the reason
			<-a.ctx.Done()
			err = context.Cause(a.ctx)
		}
		return err
	})
	idle := time.NewTimer(linger)
	defer idle.Stop()
	for {
		j, more, err := a.next(idle, w)
		if j == nil {
			if err == nil {
				err = w.Flush()
			}
			if err == nil {
				a.sent.Store(true)
				err = a.endIfDone()
			}
			return more, err
		}
		a.mu.Lock()
		if len(a.jobs) == 0 {
			a.clock.start() // the plugin had nothing to do until now
		}
		a.jobs = append(a.jobs, j)
		a.mu.Unlock()
		if err := w.Group(j.number, j.group); err != nil {
			return true, err
		}
		if a.lockstep {
			if err := w.Flush(); err != nil {
				return true, err
			}
			select {
			case <-a.idle:
			case <-a.ctx.Done():
				return true, context.Cause(a.ctx)
			}
		}
	}
}

// next returns the next job, or nil at the end of the feed and, with more set, when another goroutine wants the
// instance or too many results are waiting. While it waits for a job, it sends the partly filled frame.
func (a *attempt) next(idle *time.Timer, w *wire.GroupWriter) (j *job, more bool, err error) {
	if a.lockstep && a.full() {
		return nil, true, nil
	}
	select {
	case <-a.pause:
		return nil, true, nil
	default:
	}
	if list := *a.backlog; len(list) > 0 {
		*a.backlog = list[1:]
		return list[0], false, nil
	}
	if a.lockstep {
		return nil, false, nil
	}
	idle.Reset(linger)
	select {
	case j = <-a.feed:
		return j, false, nil
	case <-a.ctx.Done():
		return nil, true, context.Cause(a.ctx)
	case <-idle.C:
	}
	if err := w.Flush(); err != nil {
		return nil, true, err
	}
	select {
	case j = <-a.feed:
		return j, false, nil
	case <-a.pause:
		return nil, true, nil
	case <-a.ctx.Done():
		return nil, true, context.Cause(a.ctx)
	}
}

func (a *attempt) write(m *pb.BuildRequest) error {
	a.sendMu.Lock()
	defer a.sendMu.Unlock()
	if a.ended {
		return nil // a plugin that has nothing more to send doesn't need the credit
	}
	return a.stream.Send(m)
}

// endIfDone half-closes the stream once all groups have been sent and answered, but not earlier, because credits travel
// on the same stream.
func (a *attempt) endIfDone() error {
	a.mu.Lock()
	done := a.sent.Load() && len(a.jobs) == 0
	a.mu.Unlock()
	a.sendMu.Lock()
	defer a.sendMu.Unlock()
	if !done || a.ended {
		return nil
	}
	a.ended = true
	a.clock.start()
	return a.stream.CloseSend()
}

// read reads the stream to its end, independently of the consumer, so that the credits that the plugin grants and
// uses are counted immediately.
func (a *attempt) read() error {
	spent := int64(0)
	for {
		m, err := a.stream.Recv()
		if status.Code(err) == codes.ResourceExhausted {
			return protocolErrorf("message is too large: %s; a plugin may send at most %d MiB, and must accept %d MiB",
				status.Convert(err).Message(), wire.FrameLimitBytes>>20, 8*wire.FrameLimitBytes>>20)
		}
		if err != nil {
			return err
		}
		a.clock.sign() // any message counts, even if it only reports progress
		for range m.GetCredit() {
			select {
			case a.credit <- struct{}{}: // wait: default applies if the channel is full
			default:
				return protocolErrorf("plugin granted credit for more than %d frames", maxCredit)
			}
		}
		if len(m.GetParts()) == 0 {
			continue
		}
		if granted := a.granted.Load(); spent == granted {
			return protocolErrorf("plugin sent one frame more than the %d that it had credit for; a "+
				"plugin must wait for credit before each frame that has parts", granted)
		}
		spent++
		f := frame{m, min(int64(proto.Size(m)), aheadLimit)}
		if err := a.ahead.Acquire(a.ctx, f.bytes); err != nil {
			return context.Cause(a.ctx)
		}
		a.results <- f // wait: the channel has capacity for every frame that the plugin has credit for
	}
}

// receive processes the frames until the stream ends.
func (a *attempt) receive() error {
	reader := wire.RecordReader{Limit: a.session.plugin.spec.OutputLimit}
	for f := range a.results { // wait: read closes it, at the latest when the attempt's context ends
		a.ahead.Release(f.bytes)
		for _, part := range f.GetParts() {
			if err := a.part(&reader, part); err != nil {
				return err
			}
		}
		if err := a.grant(); err != nil {
			return err
		}
		if err := a.endIfDone(); err != nil {
			return err
		}
	}
	if !errors.Is(a.readErr, io.EOF) {
		return a.readErr
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.jobs); n > 0 || !a.sent.Load() {
		return protocolErrorf("missing answers for %d groups: the plugin ended the stream", n)
	}
	return nil
}

func (a *attempt) part(reader *wire.RecordReader, part *pb.ResultPart) error {
	a.mu.Lock()
	var j *job
	if len(a.jobs) > 0 {
		j = a.jobs[0]
	}
	a.mu.Unlock()
	if j == nil || j.number != part.GetGroup() {
		return protocolErrorf("answer to group %d is out of order", part.GetGroup())
	}
	r, err := reader.Part(part, j.group)
	if _, ok := errors.AsType[*wire.OutputLimitError](err); ok {
		return fmt.Errorf("builder produced %w; the limit is %s", err, a.session.plugin.spec.OutputSetting)
	}
	if err != nil {
		return protocolErrorf("%w", err)
	}
	if r == nil {
		return nil
	}
	a.clock.start()
	n := int64(r.Bytes)
	a.heldBack.Add(n)
	j.held = func() {
		a.heldBack.Add(-n)
		select {
		case a.taken <- struct{}{}:
		default:
		}
	}
	a.mu.Lock()
	a.jobs = a.jobs[1:]
	a.mu.Unlock()
	a.session.answer(j, r, func() { reader.Reuse(r) })
	a.instance.step(finished, nil)
	if a.lockstep {
		a.idle <- struct{}{} // wait: the channel has capacity for one token, and only one group is in progress
	}
	return nil
}

// grant lets the plugin send another frame for each one consumed, as soon as the consumer has room for it. A worker
// that has exclusive use of the instance, or holds it while another goroutine wants it, does not wait for the consumer,
// which may itself be waiting for the instance.
func (a *attempt) grant() error {
	if !a.lockstep && a.full() {
		a.waiting.Store(true)
		from := monotonic()
		for a.full() {
			select {
			case <-a.taken:
			case <-a.pause:
				return errYielded
			case <-a.inc.dead:
				return a.inc.cause
			case <-a.ctx.Done():
				return context.Cause(a.ctx)
			}
		}
		a.clock.skip(monotonic() - from)
		a.waiting.Store(false)
	}
	a.granted.Add(1)
	err := a.write(&pb.BuildRequest{Credit: 1})
	if errors.Is(err, io.EOF) {
		return nil // the stream has ended; Recv reports the reason
	}
	return err
}

// watch ends the attempt if the plugin is working on groups and, for too long, gives no sign of life or finishes no
// group.
func (a *attempt) watch() {
	limit := a.session.plugin.spec.BatchTimeout
	for next := limit; ; {
		asked := monotonic()
		select {
		case <-time.After(next):
		case <-a.received:
			return
		case <-a.ctx.Done():
			return
		}
		if late := monotonic() - asked - next; late > stall {
			a.clock.skip(late) // the host was suspended, and possibly the plugin, too
		}
		next = limit
		if !a.waiting.Load() {
			var err error
			if next, err = a.overdue(limit); err != nil {
				a.cancel(err)
				return
			}
		}
	}
}

// stall is the delay with which a timer may fire on a busy machine.
const stall = time.Second

// overdue returns an error if the plugin has missed a deadline; otherwise, it returns the time until the next check.
func (a *attempt) overdue(limit time.Duration) (next time.Duration, err error) {
	a.sendMu.Lock()
	ended := a.ended
	a.sendMu.Unlock()
	a.mu.Lock()
	idle := len(a.jobs) == 0
	answered := idle || a.jobs[0].number > a.lastSent.Load() // all groups sent so far have been answered
	a.mu.Unlock()
	name := a.session.plugin.spec.Name
	quiet, fruitless := a.clock.read()
	switch {
	case idle && ended && fruitless >= limit:
		return 0, errNoEnd
	case idle:
		return limit, nil
	case quiet >= limit && a.inc.wake():
		a.clock.skip(quiet)
		return limit, nil
	case quiet >= limit && answered && a.starved.Load():
		return 0, fmt.Errorf("%w for %s, although all groups sent have been answered: a plugin must grant "+
			"credit for each frame it has consumed", errNoCredit, limit)
	case quiet >= limit:
		return 0, &deadlineError{fmt.Sprintf("plugin was unresponsive for %s while it had groups to work on "+
			"(plugins.%s.timeout)", limit, name)}
	case fruitless >= patience*limit:
		return 0, &deadlineError{fmt.Sprintf("plugin gave signs of life for %s but did not finish a group in that "+
			"time (the limit is ten times plugins.%s.timeout)", patience*limit, name)}
	}
	return max(min(limit-quiet, patience*limit-fruitless), time.Millisecond), nil
}
