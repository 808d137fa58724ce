package host

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// selfPath returns the running executable's path.
func selfPath() (string, error) { return os.Executable() }

// residentBytes returns the resident memory of a process that belongs to the same user, as proc_pidinfo of libproc.h
// does with PROC_PIDTASKINFO. The call goes to the system directly, because libproc requires cgo.
func residentBytes(pid int) (int64, bool) {
	const pidInfo, taskInfo = 2, 4 // PROC_INFO_CALL_PIDINFO and PROC_PIDTASKINFO in sys/proc_info.h
	var info struct {              // proc_taskinfo
		virtual, resident uint64
		_                 [80]byte
	}
	size := unsafe.Sizeof(info)
	n, _, err := unix.Syscall6(unix.SYS_PROC_INFO, //nolint:staticcheck // its wrapper would be libproc's
		pidInfo, uintptr(pid), taskInfo, 0, uintptr(unsafe.Pointer(&info)), size)
	return int64(info.resident), err == 0 && n == size
}

// limitMemory does nothing, because a process can't limit another one on this system.
func limitMemory(int, int64) {}
