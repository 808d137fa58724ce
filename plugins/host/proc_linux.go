package host

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// selfPath is this program's file. The link works even if the file has been replaced since.
func selfPath() (string, error) { return "/proc/self/exe", nil }

// sysProcAttr puts the process into a group of its own, and has it killed when the thread that made it ends.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// startTime is when a process started, in clock ticks since boot.
func startTime(pid int) (uint64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field is the name in parentheses, which may hold anything. starttime is field 22.
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 {
		return 0, errors.New("no name in stat")
	}
	fields := bytes.Fields(stat[i+1:])
	if len(fields) < 20 {
		return 0, errors.New("stat is too short")
	}
	if fields[0][0] == 'Z' {
		return 0, errors.New("it has ended")
	}
	return strconv.ParseUint(string(fields[19]), 10, 64)
}

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

// waitGroup waits for the process and kills what is left of its group before its id becomes free.
func waitGroup(cmd *exec.Cmd) error {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	return cmd.Wait()
}
