package host

import (
	"sync"
	"time"
)

var epoch = time.Now()

// monotonic returns the time since this program started, which is unaffected by changes to the system clock.
func monotonic() time.Duration { return time.Since(epoch) }

// patience is the factor by which a plugin may exceed its timeout on a group for which it reports progress.
const patience = 10

// clock measures how long a plugin has been working on the current group. Each sign of life extends the deadline for
// the next one, but not the deadline for the group.
type clock struct {
	mu    sync.Mutex
	alive time.Duration // time of the last sign of life
	due   time.Duration // time when the plugin was given the group
}

// start starts the clock for a group.
func (c *clock) start() {
	c.mu.Lock()
	c.alive, c.due = monotonic(), monotonic()
	c.mu.Unlock()
}

// sign records a sign of life.
func (c *clock) sign() {
	c.mu.Lock()
	c.alive = monotonic()
	c.mu.Unlock()
}

// skip excludes a period during which the plugin could not work.
func (c *clock) skip(d time.Duration) {
	c.mu.Lock()
	c.alive = min(c.alive+d, monotonic())
	c.due = min(c.due+d, monotonic())
	c.mu.Unlock()
}

// read returns the time since the last sign of life, and the time spent on the group.
func (c *clock) read() (quiet, fruitless time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := monotonic()
	return now - c.alive, now - c.due
}
