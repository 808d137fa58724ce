package heapstart

import (
	"os"
	"runtime/debug"
)

// percent is GOGC until main has tuned the collector: the heap may grow to 16 MiB.
const percent = 400

func init() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
