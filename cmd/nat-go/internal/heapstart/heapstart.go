package heapstart

import (
	"os"
	"runtime/debug"
)

// percent is the GOGC value that applies until package cli tunes the collector. With it, the first collection starts
// when the heap reaches 16 MiB.
const percent = 400

func init() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
