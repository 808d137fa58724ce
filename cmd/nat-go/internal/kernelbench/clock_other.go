//go:build !linux

package bench

import "time"

// processorTime is the wall's here.
func processorTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
