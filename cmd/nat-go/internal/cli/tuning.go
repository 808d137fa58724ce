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

// softLimit is the size above which the heap is collected more often: otherwise garbage may equal what is live, and an
// input at its limit takes twice the memory. Above it garbage may be a third of what is live; with a fixed limit a
// program that needs more would do little but collect.
const softLimit = 256 << 20

func limitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softLimit)
		followHeap(softLimit)
	}
}

// followHeap adjusts the limit to what is live after each collection, which is when an object without references is
// finalized.
func followHeap(limit int64) {
	runtime.SetFinalizer(new([16]byte), func(*[16]byte) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		if n := memoryLimit(int64(live[0].Value.Uint64())); n != limit {
			limit = n
			debug.SetMemoryLimit(limit)
		}
		followHeap(limit)
	})
}

// memoryLimit returns the limit for a heap with that many live bytes, in steps.
func memoryLimit(live int64) int64 {
	const step = softLimit / 16
	return max(softLimit, (live+live/3+2*step)/step*step)
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
