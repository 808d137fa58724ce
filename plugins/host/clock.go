package host

import (
	"sync"
	"time"
)

var epoch = time.Now()

// monotonic is the time since this program started, which nobody can set.
func monotonic() time.Duration { return time.Since(epoch) }

// patience is how many times its timeout a plugin may take for a group that it reports progress on.
const patience = 10

// clock measures what a plugin does for the group that is due. Signs of life keep one deadline away; the other only
// results do, by as much as they are: who sends a byte now and then gets no more time by it.
type clock struct {
	mu     sync.Mutex
	alive  time.Duration // when it last gave a sign of life
	due    time.Duration // since when it has the group
	bytes  int64         // that came of it
	taken  int64         // frames that it took in meanwhile, by the credits that it granted
	frames int64         // that it was credited for in all
}

// start starts the time for a group.
func (c *clock) start() {
	c.mu.Lock()
	c.alive, c.due, c.bytes, c.taken = monotonic(), monotonic(), 0, 0
	c.mu.Unlock()
}

// sign notes a sign of life.
func (c *clock) sign() {
	c.mu.Lock()
	c.alive = monotonic()
	c.mu.Unlock()
}

// results notes how many bytes of results of the group there are.
func (c *clock) results(bytes int64) {
	c.mu.Lock()
	c.bytes = bytes
	c.mu.Unlock()
}

// took notes that frames were taken in, no more than were sent.
func (c *clock) took(n, sent int64) {
	c.mu.Lock()
	if n = min(n, sent-c.frames); n > 0 {
		c.frames += n
		c.taken += n
	}
	c.mu.Unlock()
}

// skip leaves a time out of account, in which the plugin could do nothing.
func (c *clock) skip(d time.Duration) {
	c.mu.Lock()
	c.alive = min(c.alive+d, monotonic())
	c.due = min(c.due+d, monotonic())
	c.mu.Unlock()
}

// read returns for how long there was no sign of life, and how long the group takes, less what its results and frames
// are worth: a sixtieth of the limit for each MiB.
func (c *clock) read(limit time.Duration) (quiet, fruitless time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := monotonic()
	mib := (c.bytes + c.taken*frameWorth) >> 20
	return now - c.alive, now - c.due - time.Duration(mib)*(limit/60)
}

// frameWorth is what a frame that was taken in counts for.
const frameWorth = 256 << 10
