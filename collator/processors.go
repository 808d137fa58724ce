package collator

import (
	"runtime"
	"sync"
)

// processors serializes changes of GOMAXPROCS, which is the process's as a whole.
var processors sync.Mutex

// spareProcessors fits the runtime to workers that are in the tokenizer library most of the time, until the function it
// returns is called.
//
// A call of the library holds one of the runtime's processors (GOMAXPROCS), and when there is no idle one its monitor takes
// it away after 20 microseconds, every time, for work that there may not be: the worker then waits to get it back, and the
// monitor, which otherwise sleeps, interrupts the workers' cores all the while. So there are spare ones, half as many as
// workers, for up to a quarter are the garbage collector's.
func spareProcessors(workers int) (restore func()) {
	add := func(n int) {
		if n != 0 {
			processors.Lock()
			defer processors.Unlock()
			runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + n)
		}
	}
	add(workers / 2)
	return func() { add(-(workers / 2)) }
}
