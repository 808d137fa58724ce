package host

import (
	"context"
	"math"
	"sync"

	"golang.org/x/sync/semaphore"
)

// gate lets many workers share an instance, or one worker use it exclusively. A process serves the sessions of
// several builders, so a crash affects them all. A worker that searches for the group that makes the process fail
// needs exclusive use, because groups of other workers could also make it fail.
type gate struct {
	uses    *semaphore.Weighted // a shared use takes one unit, an exclusive use all; first come, first served
	mu      sync.Mutex
	waiting int           // number of workers that want exclusive use
	wanted  chan struct{} // closed while a goroutine waits for exclusive use
}

const allUses = math.MaxInt64

func newGate() *gate {
	return &gate{uses: semaphore.NewWeighted(allUses), wanted: make(chan struct{})}
}

// share acquires one use, waiting while another goroutine has or wants exclusive use. The returned channel is closed
// when a goroutine wants exclusive use. The caller must then finish and call release.
func (g *gate) share(ctx context.Context) (<-chan struct{}, error) {
	if err := g.uses.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wanted, nil
}

func (g *gate) release() { g.uses.Release(1) }

// lock waits until no other goroutine is using the instance.
func (g *gate) lock(ctx context.Context) error {
	g.want(1)
	defer g.want(-1)
	return g.uses.Acquire(ctx, allUses)
}

// want adjusts the number of workers that want exclusive use.
func (g *gate) want(change int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting += change; change < 0 && g.waiting == 0 {
		g.wanted = make(chan struct{})
	} else if change > 0 && g.waiting == 1 {
		close(g.wanted)
	}
}

func (g *gate) unlock() { g.uses.Release(allUses) }
