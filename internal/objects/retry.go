package objects

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/nat-go/nat-go/internal/httpclient"
)

// Limits on retries.
const (
	maxTries     = 10
	firstPause   = 200 * time.Millisecond // pause before the first retry, doubled for each later one
	maxPause     = 20 * time.Second
	stallTimeout = time.Minute // a request without progress for this long is cancelled and retried
	minProgress  = 64 << 10    // minimum number of bytes that counts as progress
)

// patience counts the attempts at one operation.
type patience struct {
	s     *Storage
	tries int
}

// waitForRetry waits before the next attempt. It returns false if no attempt is left or ctx is done.
func (p *patience) waitForRetry(ctx context.Context, e *Error) bool {
	if p.tries++; e.final || p.tries >= maxTries {
		return false
	}
	pause := min(p.s.pause<<(p.tries-1), maxPause)
	pause = pause/2 + rand.N(pause/2+1) // random, so that clients don't retry simultaneously
	if s, err := strconv.Atoi(e.pause); err == nil && s > 0 {
		pause = min(max(pause, time.Duration(s)*time.Second), maxPause)
	}
	return httpclient.Sleep(ctx, pause)
}

// try repeats an idempotent operation until it succeeds, or fails in a way that makes retries pointless.
func (s *Storage) try(ctx context.Context, p, doing string, do func(context.Context) error) error {
	left := patience{s: s}
	for {
		err := s.once(ctx, do)
		if err == nil {
			return nil
		}
		e := explain(ctx, p, doing, err, s.hidden)
		if !left.waitForRetry(ctx, e) {
			return e
		}
	}
}

// once makes a single attempt, and cancels it if it sends and receives too little.
func (s *Storage) once(ctx context.Context, do func(context.Context) error) error {
	ctx, w := s.watch(ctx)
	defer w.stop()
	return w.why(do(ctx))
}

// watch cancels a request that sends and receives too little.
type watch struct {
	timer  *time.Timer
	cancel context.CancelFunc
	ctx    context.Context
	most   time.Duration
	once   sync.Once

	mu    sync.Mutex    // a service may answer before it has received the whole request
	left  time.Duration // time left for the next minProgress bytes
	bytes int           // bytes transferred since left was last set to most
}

var errSilent = errors.New("request stalled for a minute")

type watchKey struct{}

func (s *Storage) watch(ctx context.Context) (context.Context, *watch) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{most: s.silence, left: s.silence, cancel: func() { cancel(nil) }}
	w.timer = time.AfterFunc(s.silence, func() { cancel(errSilent) })
	w.ctx = context.WithValue(ctx, watchKey{}, w)
	return w.ctx, w
}

// moved counts bytes and the time they took, and reports whether there was progress.
func (w *watch) moved(n int, took time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bytes += n; w.bytes < minProgress {
		w.left = max(0, w.left-took)
		return false
	}
	w.bytes, w.left = 0, w.most
	return true
}

// wait restarts the timer for the next bytes.
func (w *watch) wait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Reset(w.left)
}

func (w *watch) stop() {
	w.once.Do(func() {
		w.timer.Stop()
		w.cancel()
	})
}

// why returns errSilent for an error from a request that the watch cancelled, and any other error unchanged.
func (w *watch) why(err error) error {
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(context.Cause(w.ctx), errSilent) {
		return errSilent
	}
	return err
}

// moving is a request's body that notifies the request's watch of each piece read.
type moving struct {
	io.ReadSeeker
	w *watch
}

func (m moving) Read(p []byte) (int, error) {
	n, err := m.ReadSeeker.Read(p)
	if m.w.moved(n, 0) || err != nil { // after the body, the time limit for the response applies
		m.w.timer.Reset(m.w.most)
	}
	return n, err
}

// watched is a body that ends its request when it is closed.
type watched struct {
	io.ReadCloser
	w *watch
}

// Read waits for data. Time that the reader spends between calls doesn't count toward the time limit.
func (b *watched) Read(p []byte) (int, error) {
	began := time.Now()
	b.w.wait()
	n, err := b.ReadCloser.Read(p)
	b.w.timer.Stop()
	b.w.moved(n, time.Since(began))
	return n, b.w.why(err)
}

func (b *watched) Close() error {
	defer b.w.stop()
	return b.ReadCloser.Close()
}
