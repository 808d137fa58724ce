package collator

import (
	"runtime"
	"sync"
	"testing"
)

// TestSpareProcessors: collations at the same time leave the runtime as it was.
func TestSpareProcessors(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			defer spareProcessors(1 + i)()
			if got := runtime.GOMAXPROCS(0); got < before+(1+i)/2 {
				t.Errorf("%d processors for %d workers, of %d", got, 1+i, before)
			}
		})
	}
	all.Wait()
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("%d processors, were %d", got, before)
	}
}
