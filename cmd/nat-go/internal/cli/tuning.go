package cli

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"

	"golang.org/x/sys/unix"
)

// collector holds the settings of the garbage collector. With Go's defaults, the built-in builders' process, which
// has little live memory, would collect garbage on every other frame, and a run would do so five times during
// startup.
var collector struct {
	sync.Mutex
	percent uint64 // percentage of live memory plus slack by which the heap may grow; 0 if the user set GOGC
	floor   uint64 // number of bytes to which the heap may always grow
	current int    // the last value set for GOGC
	limit   int64  // the last memory limit set; 0 if the user set GOMEMLIMIT
}

const (
	// slack is added to the live memory before the percentage is applied, so that a small heap may hold relatively more
	// garbage.
	slack = 8 << 20
	// standardFloor is the floor for commands that don't call setHeapGrowth.
	standardFloor = 16 << 20
	// runFloor is the size up to which a run's heap may always grow, unless the input is small.
	runFloor = 36 << 20
	// shardFloor is the floor for the commands that plan, build and merge shards. These commands are limited by
	// processors rather than by memory, and a larger floor reduces the number of collections.
	shardFloor   = 64 << 20
	shardPercent = 100
)

// setHeapGrowth sets the percentage and the floor, unless the user set GOGC. A run uses less than Go's default of 100
// percent, because it has little live memory, so more frequent collections reduce its peak at little cost.
func setHeapGrowth(percent, floor uint64) {
	collector.Lock()
	defer collector.Unlock()
	if collector.percent > 0 {
		collector.percent, collector.floor = percent, floor
		tune()
	}
}

const (
	// softLimit is the heap size above which garbage may be at most about a third of the live memory. With GOGC alone,
	// garbage may be as large as the live memory, and the largest allowed input would take twice the memory. Beyond
	// softLimit, the limit grows with the live memory, because a program that exceeds a fixed limit would spend most of
	// its time collecting garbage.
	softLimit = 256 << 20
	// minLimit is the memory limit while little memory is live. A limit makes the runtime return unused memory
	// immediately. Otherwise, the runtime keeps it for seconds, which increases a run's peak.
	minLimit = 43 << 20
)

// tuneCollector starts tuning GOGC and the memory limit, unless the environment sets them.
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

// tune adjusts GOGC and the memory limit to the live memory. The caller holds collector's lock.
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

// gcPercent returns a value for GOGC, rounded up to a multiple of a step. It lets the heap grow by the given percentage
// of live+slack bytes, or to floor bytes if that is more.
func gcPercent(live, percent, floor uint64) uint64 {
	const step, least = 5, 4 << 20 // least is the runtime's minimum heap size
	live = max(live, least)
	grow := (live + slack) / 100 * percent
	if live+grow < floor {
		grow = floor - live
	}
	return (grow*100/live + step - 1) / step * step
}

// memoryLimit returns the memory limit, rounded to a multiple of a step, for a heap with the given number of live bytes
// and GOGC at percent.
func memoryLimit(live, percent uint64) int64 {
	const step = softLimit / 16
	if most := (live + live/3 + 2*step) / step * step; most > softLimit {
		return int64(most)
	}
	const fine = softLimit / 64
	return int64(min(softLimit, max(minLimit, (live+live*min(percent, 1000)/100+fine)/fine*fine)))
}

// collatePercent is the percentage used while token rows are being built, which produces a lot of garbage on a small
// heap. With the percentage for the rest of a run, the workers would spend too much time on collections.
const collatePercent = 240

// whileCollating tunes the runtime for building token rows, until the function it returns is called.
//
// The workers spend most of their time in the tokenizer library. A call into the library holds one of the runtime's
// processors (GOMAXPROCS). If none is idle, the runtime's monitor takes the processor away after 20 microseconds, even
// if it isn't needed elsewhere. The worker then waits to get it back, and the monitor, which otherwise sleeps, keeps
// interrupting the workers' cores. whileCollating therefore adds half as many processors as there are workers. The
// garbage collector may use up to a quarter of all processors.
func whileCollating() (done func()) {
	collector.Lock()
	percent, floor := collector.percent, collector.floor
	collector.Unlock()
	setHeapGrowth(collatePercent, floor)
	workers := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(workers + workers/2)
	return func() {
		runtime.GOMAXPROCS(workers)
		setHeapGrowth(percent, floor)
	}
}

// minSpace is the address space that a run needs. Go and the tokenizer library reserve more than they use, and
// terminate the program if that fails.
const minSpace = 2 << 30

// checkSpace returns an error if the limit on the address space (ulimit -v) is too low.
func checkSpace() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &limit); err != nil {
		return nil //nolint:nilerr // the limit is unknown, so assume that it is high enough
	}
	return checkSpaceLimit(uint64(limit.Cur)) //nolint:unconvert // it is signed on FreeBSD
}

func checkSpaceLimit(limit uint64) error {
	if limit >= minSpace {
		return nil
	}
	return fmt.Errorf("address space is limited to %d MiB (ulimit -v), and nat-go needs %d MiB: raise the limit",
		limit>>20, minSpace>>20)
}
