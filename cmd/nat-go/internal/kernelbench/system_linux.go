package kernelbench

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// large allocates n numbers on large pages, if the system has them, so that measurements don't include the cost of
// small pages. The memory remains allocated until the process ends.
func large[T any](n int) []T {
	var z T
	const page = 2 << 20
	size := (n*int(unsafe.Sizeof(z)) + page - 1) / page * page
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return make([]T, n)
	}
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // on failure, the memory has small pages
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
}

// processorTime returns the processor time of the current thread, which other processes hardly affect.
func processorTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(t.Nano())
}
