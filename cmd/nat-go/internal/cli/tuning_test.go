package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// TestSoftLimitFollowsWhatIsAlive checks that the limit grows with a heap that is larger than the soft limit: with a
// fixed limit, the program would do little but collect garbage.
func TestSoftLimitFollowsWhatIsAlive(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	t.Setenv("GOGC", "")
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	tuneCollector()
	// The limit may be higher already: the tests before this one may have left more memory in use.
	if got := debug.SetMemoryLimit(-1); got < minLimit || got > softLimit {
		t.Errorf("at first the limit is %d, want %d to %d", got, minLimit, softLimit)
	}
	held := make([]byte, 2*softLimit) // never written, so nothing is resident
	deadline := time.Now().Add(time.Minute)
	for debug.SetMemoryLimit(-1) <= int64(len(held)) {
		runtime.GC()
		time.Sleep(time.Millisecond) // finalizers run concurrently
		if time.Now().After(deadline) {
			t.Fatalf("the limit is %d MiB while %d MiB are alive", debug.SetMemoryLimit(-1)>>20, len(held)>>20)
		}
	}
	runtime.KeepAlive(held)
}

// TestGCPercent checks that a heap grows to the floor before it is collected, and above it by a percentage of what is
// live and of the slack.
func TestGCPercent(t *testing.T) {
	for _, c := range []struct{ live, percent, floor, least, most uint64 }{ // MiB
		{0, 40, 26, 26, 27},
		{8, 40, 26, 26, 27},
		{20, 40, 26, 31, 33},
		{100, 40, 26, 143, 149},
		{2, 50, 8, 10, 11},
		{4, 100, 16, 16, 17},
		{400, 5, 0, 420, 441},
	} {
		t.Run(fmt.Sprintf("%d MiB, %d %%", c.live, c.percent), func(t *testing.T) {
			live := max(4, c.live)
			goal := live + live*gcPercent(c.live<<20, c.percent, c.floor<<20)/100
			if goal < c.least || goal > c.most {
				t.Errorf("the heap grows to %d MiB, want %d to %d", goal, c.least, c.most)
			}
		})
	}
}

// TestMemoryLimit checks that the limit leaves a heap what it may grow to by its percentage, up to the soft limit, and
// above that a third of what is live.
func TestMemoryLimit(t *testing.T) {
	for _, c := range []struct{ live, percent, least, most uint64 }{ // MiB
		{0, 100, minLimit >> 20, minLimit >> 20},
		{16, 100, minLimit >> 20, minLimit >> 20},
		{30, 100, 60, 64},
		{32, 50, 48, 52},
		{30, 300, 120, 124},
		{100, 100, 200, 204},
		{150, 100, 256, 256},
		{150, 1 << 60, 256, 256}, // GOGC=off
		{192, 100, 256, 288},
		{300, 100, 400, 432},
		{3000, 25, 4000, 4032},
	} {
		t.Run(fmt.Sprintf("%d MiB, %d %%", c.live, c.percent), func(t *testing.T) {
			if got := uint64(memoryLimit(c.live<<20, c.percent)) >> 20; got < c.least || got > c.most {
				t.Errorf("the limit is %d MiB, want %d to %d", got, c.least, c.most)
			}
		})
	}
}
