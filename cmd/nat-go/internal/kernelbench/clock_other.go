//go:build !linux

package kernelbench

import "time"

// processorTime is wall-clock time here.
func processorTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
