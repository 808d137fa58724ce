//go:build !linux

package kernelbench

import "time"

// processorTime returns wall-clock time on systems other than Linux.
func processorTime() time.Duration { return time.Duration(time.Now().UnixNano()) }

func large[T any](n int) []T { return make([]T, n) }
