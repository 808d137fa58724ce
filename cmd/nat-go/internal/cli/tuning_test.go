package cli

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// Whatever needs more memory than the soft limit gets it: with a fixed limit, it would do little but collect garbage.
func TestSoftLimitFollowsWhatIsAlive(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	limitMemory()
	if got := debug.SetMemoryLimit(-1); got != softLimit {
		t.Errorf("at first the limit is %d, want %d", got, softLimit)
	}
	held := make([]byte, 2*softLimit) // never written, so nothing is resident
	deadline := time.Now().Add(time.Minute)
	for debug.SetMemoryLimit(-1) <= int64(len(held)) {
		runtime.GC()
		time.Sleep(time.Millisecond) // finalizers run beside
		if time.Now().After(deadline) {
			t.Fatalf("the limit is %d MiB while %d MiB are alive", debug.SetMemoryLimit(-1)>>20, len(held)>>20)
		}
	}
	runtime.KeepAlive(held)
}
