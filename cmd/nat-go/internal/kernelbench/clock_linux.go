package kernelbench

import (
	"time"

	"golang.org/x/sys/unix"
)

// processorTime returns the processor time of the current thread, which other processes hardly affect.
func processorTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(t.Nano())
}
