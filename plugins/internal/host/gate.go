package host

import (
	"context"
	"sync"
)

// gate lets many workers share an instance, or one use it exclusively. A process serves the sessions of several
// builders, so a crash affects them all; a worker searching for the culprit must be alone, or the others would seem to
// be at fault.
type gate struct {
	mu      sync.Mutex
	sharing int
	alone   bool
	waiting int           // number of workers that want exclusive use
	changed chan struct{} // closed and replaced on each change
	wanted  chan struct{} // closed while a goroutine waits for exclusive use
}

func newGate() *gate { return &gate{changed: make(chan struct{}), wanted: make(chan struct{})} }

// share waits while another goroutine has or wants exclusive use. The channel is closed once one wants it: then finish
// and release.
func (g *gate) share(ctx context.Context) (<-chan struct{}, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.alone || g.waiting > 0 {
		if err := g.wait(ctx); err != nil {
			return nil, err
		}
	}
	g.sharing++
	return g.wanted, nil
}

func (g *gate) release() {
	g.mu.Lock()
	g.sharing--
	g.change()
	g.mu.Unlock()
}

// lock waits until no other goroutine uses the instance.
func (g *gate) lock(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting++
	if g.waiting == 1 {
		close(g.wanted)
	}
	var err error
	for (g.alone || g.sharing > 0) && err == nil {
		err = g.wait(ctx)
	}
	g.waiting--
	if g.waiting == 0 {
		g.wanted = make(chan struct{})
	}
	g.alone = g.alone || err == nil
	g.change()
	return err
}

func (g *gate) unlock() {
	g.mu.Lock()
	g.alone = false
	g.change()
	g.mu.Unlock()
}

func (g *gate) change() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// wait waits for a change, without holding the lock.
func (g *gate) wait(ctx context.Context) error {
	changed := g.changed
	g.mu.Unlock()
	defer g.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
