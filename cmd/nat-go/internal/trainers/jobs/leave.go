package jobs

import (
	"context"
	"os"
	"syscall"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
)

// Grace is the time for which a wait continues after the first interrupt. A second interrupt during this time cancels
// the job.
const Grace = 3 * time.Second

// Leave is a user's request, by signal, to leave a wait. The first signal detaches, a second interrupt within Grace
// cancels the job, and a third signal ends all waiting. A nil Leave never ends a wait.
type Leave struct {
	// Told is called at the first interrupt, to explain that a second interrupt cancels the job. It may be nil.
	Told func()
	// Forced is called at the third signal, while the job is still being cancelled. It may be nil.
	Forced func()

	once, twice chan struct{} // closed at the first and the second signal, respectively
	code        int           // set before once is closed
}

// NewLeave returns a Leave that interprets signals as requests until ctx is done.
func NewLeave(ctx context.Context, signals <-chan os.Signal) *Leave {
	l := &Leave{once: make(chan struct{}), twice: make(chan struct{})}
	go l.listen(ctx, signals)
	return l
}

func (l *Leave) listen(ctx context.Context, signals <-chan os.Signal) {
	for n := range 3 {
		select {
		case <-ctx.Done():
			return
		case s := <-signals:
			switch {
			case n == 0:
				l.code = exit.Interrupted
				if s == syscall.SIGTERM {
					l.code = exit.Terminated
				}
				close(l.once)
			case n == 1:
				close(l.twice)
			case l.Forced != nil:
				l.Forced()
			}
		}
	}
}

// Code returns the exit code for the first signal that was received.
func (l *Leave) Code() int {
	if !l.left() {
		return 0
	}
	return l.code
}

// Context returns a context that is cancelled at the first signal.
func (l *Leave) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if l != nil {
		go func() {
			select {
			case <-l.once:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, cancel
}

func (l *Leave) left() bool {
	if l == nil {
		return false
	}
	select {
	case <-l.once:
		return true
	default:
		return false
	}
}

// isSecond reports whether a second interrupt arrived within Grace. There is no grace period after a SIGTERM, because
// the process will soon be killed.
func (l *Leave) isSecond(ctx context.Context) bool {
	if l.Code() == exit.Terminated {
		return false
	}
	if l.Told != nil {
		l.Told()
	}
	select {
	case <-l.twice:
		return true
	case <-time.After(Grace):
	case <-ctx.Done():
	}
	return false
}
