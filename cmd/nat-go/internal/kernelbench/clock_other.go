//go:build !linux

package kernelbench

import "time"

// processorTime is the wall's here.
func processorTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
