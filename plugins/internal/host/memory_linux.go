package host

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// selfPath returns the path of the running executable. The link works even if the file has been replaced.
func selfPath() (string, error) { return "/proc/self/exe", nil }

// residentBytes returns the resident memory of a process.
func residentBytes(pid int) (int64, bool) {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(statm)
	if len(fields) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize()), err == nil
}

// limitMemory sets a hard limit in addition to the sampled one: private memory may be at most twice the sampled limit
// plus 512 MiB.
func limitMemory(pid int, bytes int64) {
	n := uint64(2*bytes + 512<<20)
	_ = unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: n, Max: n}, nil)
}
