package collator

import (
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
)

// TestMakeRoom: collations at the same time leave the runtime as it was.
func TestMakeRoom(t *testing.T) {
	processors, percent := runtime.GOMAXPROCS(0), debug.SetGCPercent(100)
	defer debug.SetGCPercent(percent)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			defer makeRoom(1 + i)()
			if got := runtime.GOMAXPROCS(0); got < processors+(1+i)/2 {
				t.Errorf("%d processors for %d workers, of %d", got, 1+i, processors)
			}
		})
	}
	all.Wait()
	if got := runtime.GOMAXPROCS(0); got != processors {
		t.Errorf("%d processors, were %d", got, processors)
	}
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("GOGC is %d, was 100", got)
	}
	debug.SetGCPercent(37) // as a user wants it
	restore := makeRoom(2)
	if got := debug.SetGCPercent(37); got != 37 {
		t.Errorf("GOGC is %d, the user said 37", got)
	}
	restore()
	if got := debug.SetGCPercent(37); got != 37 {
		t.Errorf("GOGC is %d, the user said 37", got)
	}
}
