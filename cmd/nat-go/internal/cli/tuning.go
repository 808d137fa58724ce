package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// collectOften keeps the peak memory of a run low: there is little live memory at a time, so collecting more often than
// Go does by default saves a fifth of it. The percentage counts the ballast as live.
func collectOften(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

const (
	// softLimit is the size above which the heap is collected more often: otherwise garbage may equal what is live, and
	// an input at its limit takes twice the memory. Above it garbage may be a third of what is live; with a fixed limit
	// a program that needs more would do little but collect.
	softLimit = 256 << 20
	// leastLimit is the limit while little is live, the ballast included. A limit makes the runtime give back at once
	// what it no longer needs; otherwise it keeps that for seconds, a tenth of a run's peak.
	leastLimit = 47 << 20
)

func limitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(leastLimit)
		followHeap(leastLimit)
	}
}

// followHeap adjusts the limit to what is live after each collection, which is when an object without references is
// finalized.
func followHeap(limit int64) {
	runtime.SetFinalizer(new([16]byte), func(*[16]byte) {
		heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/gogc:percent"}}
		metrics.Read(heap)
		if n := memoryLimit(heap[0].Value.Uint64(), heap[1].Value.Uint64()); n != limit {
			limit = n
			debug.SetMemoryLimit(limit)
		}
		followHeap(limit)
	})
}

// memoryLimit returns the limit, in steps, for a heap with that many live bytes that may grow by a percentage of them
// before it is collected.
func memoryLimit(live, percent uint64) int64 {
	const step = softLimit / 16
	if most := (live + live/3 + 2*step) / step * step; most > softLimit {
		return int64(most)
	}
	const fine = softLimit / 64
	return int64(min(softLimit, max(leastLimit, (live+live*min(percent, 1000)/100+fine)/fine*fine)))
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
// interrupting the workers' cores. So there are spare ones, half as many as workers, because the garbage collector may
// use up to a quarter.
func whileCollating() (done func()) {
	percent := 0
	if os.Getenv("GOGC") == "" {
		percent = debug.SetGCPercent(collatePercent)
	}
	workers := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(workers + workers/2)
	return func() {
		runtime.GOMAXPROCS(workers)
		if percent != 0 {
			debug.SetGCPercent(percent)
		}
	}
}
