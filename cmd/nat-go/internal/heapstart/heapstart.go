package heapstart

import (
	"os"
	"runtime/debug"
)

// Percent is GOGC until main has tuned the collector: the heap may grow to 16 MiB.
const Percent = 400

func init() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(Percent)
	}
}
