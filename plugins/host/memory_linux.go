package host

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// selfPath is this program's file. The link works even if the file has been replaced since.
func selfPath() (string, error) { return "/proc/self/exe", nil }

// residentBytes is how much memory a process has.
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

// limitMemory is the backstop of the sampled limit: no more private memory than twice that and a little.
func limitMemory(pid int, bytes int64) {
	n := uint64(2*bytes + 512<<20)
	_ = unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: n, Max: n}, nil)
}
