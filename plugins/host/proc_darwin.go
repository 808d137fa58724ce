package host

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// selfPath is this program's file.
func selfPath() (string, error) { return os.Executable() }

// sysProcAttr puts the process into a group of its own. There is no parent-death signal here: plugins watch their parent.
func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// startTime is when a process started, in microseconds.
func startTime(pid int) (uint64, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0, err
	}
	t := k.Proc.P_starttime
	return uint64(t.Sec)*1e6 + uint64(t.Usec), nil
}

// residentBytes is not known here; the limit is GOMEMLIMIT alone.
func residentBytes(int) (int64, bool) { return 0, false }

func limitMemory(int, int64) {}

// waitGroup waits for the process and kills what is left of its group.
func waitGroup(cmd *exec.Cmd) error {
	err := cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	return err
}
