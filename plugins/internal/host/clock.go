package host

import (
	"sync"
	"time"
)

var epoch = time.Now()

// monotonic is the time since this program started, which cannot be set.
func monotonic() time.Duration { return time.Since(epoch) }

// patience is the factor by which a plugin may exceed its timeout on a group for which it reports progress.
const patience = 10

// clock measures a plugin's work for the current group. Signs of life postpone one deadline; the other is postponed
// only by results, in proportion to their size: sending a byte now and then gains no time there.
type clock struct {
	mu     sync.Mutex
	alive  time.Duration // time of the last sign of life
	due    time.Duration // when it was given the group
	bytes  int64         // of results for it
	taken  int64         // frames consumed since, judging by the credits it granted
	frames int64         // frames it was sent in total
}

// start starts the clock for a group.
func (c *clock) start() {
	c.mu.Lock()
	c.alive, c.due, c.bytes, c.taken = monotonic(), monotonic(), 0, 0
	c.mu.Unlock()
}

// sign records a sign of life.
func (c *clock) sign() {
	c.mu.Lock()
	c.alive = monotonic()
	c.mu.Unlock()
}

// results records the size of the group's results so far.
func (c *clock) results(bytes int64) {
	c.mu.Lock()
	c.bytes = bytes
	c.mu.Unlock()
}

// took records that frames were consumed, counting no more than were sent.
func (c *clock) took(n, sent int64) {
	c.mu.Lock()
	if n = min(n, sent-c.frames); n > 0 {
		c.frames += n
		c.taken += n
	}
	c.mu.Unlock()
}

// skip excludes a period during which the plugin could do nothing.
func (c *clock) skip(d time.Duration) {
	c.mu.Lock()
	c.alive = min(c.alive+d, monotonic())
	c.due = min(c.due+d, monotonic())
	c.mu.Unlock()
}

// read returns how long there has been no sign of life, and how long the group has taken, minus what its results and
// frames are worth: a sixtieth of the limit per MiB.
func (c *clock) read(limit time.Duration) (quiet, fruitless time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := monotonic()
	mib := (c.bytes + c.taken*frameWorth) >> 20
	return now - c.alive, now - c.due - time.Duration(mib)*(limit/60)
}

// frameWorth is the worth of a consumed frame.
const frameWorth = 256 << 10
