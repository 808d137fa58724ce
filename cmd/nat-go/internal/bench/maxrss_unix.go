//go:build unix

package bench

import (
	"os"
	"runtime"
	"syscall"
)

// maxResident returns the peak memory of the largest process that was waited for.
func maxResident(s *os.ProcessState) int64 {
	r, ok := s.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" { // on macOS, Maxrss is in bytes
		return int64(r.Maxrss) //nolint:unconvert // its type differs between systems
	}
	return int64(r.Maxrss) * 1024 //nolint:unconvert // as above
}
