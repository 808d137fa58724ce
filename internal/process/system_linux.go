package process

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes gives the program its own session, or a process group. Unless c.Survives is set, the kernel kills the
// program when the thread that created it ends. A confined program is traced, so that it waits for launch before its
// first instruction. Other programs are not traced, because tracing would prevent them from gaining privileges.
func attributes(c *Config) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: !c.Group, Setpgid: c.Group, Ptrace: c.Confined}
	if !c.Survives {
		a.Pdeathsig = syscall.SIGKILL
	}
	return a
}

// await waits for the program to end and calls ended before its process id is freed.
func await(cmd *exec.Cmd, ended func()) error {
	_ = waitFor(cmd.Process.Pid, unix.WEXITED)
	ended()
	return cmd.Wait()
}

// waitFor waits for a change in a child's state without reaping the child.
func waitFor(pid, change int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, change|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// list returns the processes that have not ended.
func list() (all []entry) {
	dir, _ := os.ReadDir("/proc")
	for _, d := range dir {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		if e, ok := livingEntry(pid); ok {
			all = append(all, e)
		}
	}
	return all
}

// livingEntry returns a process that has not ended.
func livingEntry(pid int) (e entry, ok bool) {
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	// The second field is the name in parentheses, which may contain anything. Then come state, parent, group, session
	// and, as the 22nd field overall, the start in clock ticks since boot.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 || fields[0][0] == 'Z' || fields[0][0] == 'X' {
		return e, false
	}
	e.pid = pid
	e.parent, _ = strconv.Atoi(string(fields[1]))
	e.group, _ = strconv.Atoi(string(fields[2]))
	e.session, _ = strconv.Atoi(string(fields[3]))
	start, err := strconv.ParseUint(string(fields[19]), 10, 64)
	e.start = start
	return e, err == nil
}

func startTime(pid int) uint64 {
	e, _ := livingEntry(pid)
	return e.start
}

// Stopped reports whether a process is stopped by a signal (SIGSTOP).
func Stopped(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	return err == nil && len(fields) > 0 && (fields[0][0] == 'T' || fields[0][0] == 't')
}

// Boot returns a name for this system's current boot that is unique among systems and boots, or "" if it is unknown.
func Boot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(id))
}

// marksSeen is true, because the marks of other processes can be read on this system.
const marksSeen = true

// maxEnviron is the maximum number of bytes of a process's environment that are searched.
const maxEnviron = 8 << 20

// hasMark looks for the mark in a process's limit and environment. hidden reports whether the environment appears to
// be empty. If so, the process may be replacing its program (execve), which hides its environment, may be ending, or
// may have no variables.
func hasMark(pid int, mark string) (has, hidden bool) {
	if mark == "" {
		return false, false
	}
	if branded(pid, mark) {
		return true, false
	}
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false, false
	}
	defer f.Close()
	env, _ := io.ReadAll(io.LimitReader(f, maxEnviron))
	for _, v := range bytes.Split(env, []byte{0}) {
		if bytes.HasPrefix(v, []byte(markVariable+"=")) && bytes.Contains(v, []byte(mark)) {
			return true, false
		}
	}
	return false, len(env) == 0
}
