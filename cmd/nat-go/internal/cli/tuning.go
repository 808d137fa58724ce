package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// collector controls how often garbage is collected. With GOGC alone, a small heap would be collected for every other
// frame of the built-in builders, which have little live memory at any time, and five times while a run starts.
var collector struct {
	sync.Mutex
	percent uint64 // of live memory plus slack; the heap may grow by it; 0 means GOGC decides
	floor   uint64 // bytes to which it may always grow
	current int    // the last value set for GOGC
	limit   int64  // the last memory limit set; 0 means GOMEMLIMIT decides
}

const (
	// slack is added to the live memory before the percentage is applied, so that a small heap may hold relatively more
	// garbage.
	slack = 8 << 20
	// standardFloor is for commands that don't state a floor.
	standardFloor = 16 << 20
	// runFloor is the size to which a run's heap grows anyway, unless its input is small.
	runFloor = 36 << 20
	// shardFloor is for the commands that divide a run, which are limited by processors rather than by memory: it cuts
	// the number of collections to a third.
	shardFloor   = 64 << 20
	shardPercent = 100
)

// collectOften keeps the peak memory of a run low: little memory is live at a time, so collecting more often than Go
// does by default cuts the peak by a fifth.
func collectOften(percent, floor uint64) {
	collector.Lock()
	defer collector.Unlock()
	if collector.percent > 0 {
		collector.percent, collector.floor = percent, floor
		tune()
	}
}

const (
	// softLimit is the size above which the heap is collected more often: otherwise garbage may equal the live memory,
	// and an input at its limit would take twice the memory. Above it garbage may be a third of the live memory; under
	// a fixed limit, a program that needs more would do little but collect.
	softLimit = 256 << 20
	// minLimit is the limit while little memory is live. A limit makes the runtime return unused memory immediately;
	// otherwise it keeps the memory for seconds, which adds a tenth to a run's peak.
	minLimit = 43 << 20
)

// tuneCollector starts tuning the collector, unless the environment configures it.
func tuneCollector() {
	collector.Lock()
	defer collector.Unlock()
	if os.Getenv("GOGC") == "" {
		collector.percent, collector.floor = 100, standardFloor
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		collector.limit = minLimit
		debug.SetMemoryLimit(minLimit)
	}
	if collector.percent > 0 || collector.limit > 0 {
		tune()
		followHeap()
	}
}

// followHeap adjusts the collector to the live memory after each collection, from the finalizer of an unreferenced
// object.
func followHeap() {
	runtime.SetFinalizer(new([16]byte), func(*[16]byte) {
		collector.Lock()
		defer collector.Unlock()
		tune()
		followHeap()
	})
}

// tune applies the changed settings.
func tune() {
	heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/gogc:percent"}}
	metrics.Read(heap)
	live, percent := heap[0].Value.Uint64(), heap[1].Value.Uint64()
	if collector.percent > 0 {
		percent = gcPercent(live, collector.percent, collector.floor)
		if n := int(percent); n != collector.current {
			collector.current = n
			debug.SetGCPercent(n)
		}
	}
	if collector.limit > 0 {
		if n := memoryLimit(live, percent); n != collector.limit {
			collector.limit = n
			debug.SetMemoryLimit(n)
		}
	}
}

// gcPercent returns GOGC, in steps, for a heap with that many live bytes.
func gcPercent(live, percent, floor uint64) uint64 {
	const step, least = 5, 4 << 20 // the runtime's own minimum heap
	live = max(live, least)
	grow := (live + slack) / 100 * percent
	if live+grow < floor {
		grow = floor - live
	}
	return (grow*100/live + step - 1) / step * step
}

// memoryLimit returns the limit, in steps, for a heap with that many live bytes that may grow by a percentage of them
// before it is collected.
func memoryLimit(live, percent uint64) int64 {
	const step = softLimit / 16
	if most := (live + live/3 + 2*step) / step * step; most > softLimit {
		return int64(most)
	}
	const fine = softLimit / 64
	return int64(min(softLimit, max(minLimit, (live+live*min(percent, 1000)/100+fine)/fine*fine)))
}

// leaveCores leaves half of the cores to the host, which has as much to do as the builders: on two cores, threads of
// this process looking for work cost a run a twentieth of its time.
func leaveCores() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS((runtime.GOMAXPROCS(0) + 1) / 2)
	}
}

// collatePercent is GOGC while token rows are made. They produce much garbage on a small heap: two workers that collect
// it as often as the rest of a run does lose a tenth of their time.
const collatePercent = 300

// whileCollating tunes the runtime for making token rows, until the function it returns is called.
//
// The workers are in the tokenizer library most of the time. A call into the library holds one of the runtime's
// processors (GOMAXPROCS), and if none is idle the runtime's monitor takes it away after 20 microseconds, every time,
// for work that may not exist: the worker then waits to get it back, and the monitor, which otherwise sleeps, keeps
// interrupting the workers' cores. So it adds spare processors, half as many as workers, because the garbage collector
// may use up to a quarter.
func whileCollating() (done func()) {
	collector.Lock()
	percent, floor := collector.percent, collector.floor
	collector.Unlock()
	collectOften(collatePercent, floor)
	workers := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(workers + workers/2)
	return func() {
		runtime.GOMAXPROCS(workers)
		collectOften(percent, floor)
	}
}
