package collator

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// room is what the collations that are running have asked of the Go runtime, which has it for the process as a whole.
var room struct {
	sync.Mutex
	running int
	percent int // garbage collection as it was before the first
}

// makeRoom fits the runtime to workers that are in the tokenizer library most of the time, until the function it returns is
// called.
//
// A call of the library holds one of the runtime's processors (GOMAXPROCS), and when there is no idle one its monitor takes
// it away after 20 microseconds, every time, for work that there may not be: the worker then waits to get it back, and the
// monitor, which otherwise sleeps, interrupts the workers' cores all the while. So there are spare ones, half as many as
// workers, for up to a quarter are the garbage collector's.
//
// Rows are much garbage on a small heap, and collecting it takes cores from the workers. So there may be garbageRoom of it, at
// least as much as what is alive, unless the user has said how much (GOGC). A limit (GOMEMLIMIT) is kept.
func makeRoom(workers int) (restore func()) {
	spare := workers / 2
	room.Lock()
	defer room.Unlock()
	if spare > 0 {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + spare)
	}
	if room.running++; room.running == 1 {
		room.percent = debug.SetGCPercent(garbagePercent())
		if room.percent != 100 {
			debug.SetGCPercent(room.percent)
		}
	}
	return func() {
		room.Lock()
		defer room.Unlock()
		if spare > 0 {
			runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) - spare)
		}
		if room.running--; room.running == 0 {
			debug.SetGCPercent(room.percent)
		}
	}
}

// garbageRoom is how many bytes of garbage there may be.
const garbageRoom = 256 << 20

// garbagePercent is garbageRoom in percent of what is alive.
func garbagePercent() int {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return int(max(100, 100*garbageRoom/max(1<<20, live[0].Value.Uint64())))
}
