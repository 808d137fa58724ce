package process

import (
	"hash/fnv"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A brand is a process's soft limit on the time that a realtime thread may run without blocking (RLIMIT_RTTIME), set
// to a value that encodes the process's marks. Children inherit the brand even if they lose their environment,
// session and parent; only a process that sets this limit loses the brand. The value is at least 146,000 years, which
// no other process uses. The two halves of its low 62 bits are hashes of the two marks.
const (
	brandBit  = 1 << 62
	brandHalf = 31
	brandMask = 1<<brandHalf - 1
)

func brandOf(mark string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(mark)) // writing to a hash never fails
	return h.Sum64() & brandMask
}

// launch starts a command and brands it. A confined command is traced (see attributes), so that it is branded before
// it executes its first instruction. A command that can't be traced, or isn't confined, may start children before it
// is branded, and a child whose parent has ended by then isn't branded.
func launch(cmd *exec.Cmd, with, mark string) (*exec.Cmd, error) {
	err := cmd.Start()
	if err != nil && cmd.SysProcAttr.Ptrace { // the error may be from tracing or from starting
		cmd.SysProcAttr.Ptrace = false
		cmd = &exec.Cmd{
			Path: cmd.Path, Args: cmd.Args, Dir: cmd.Dir, Env: cmd.Env, SysProcAttr: cmd.SysProcAttr,
			Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr, ExtraFiles: cmd.ExtraFiles,
		}
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	pid := cmd.Process.Pid
	if cmd.SysProcAttr.Ptrace {
		_ = waitFor(pid, unix.WSTOPPED|unix.WEXITED)
		defer func() { _ = unix.PtraceDetach(pid) }() // fails if the process has been killed
	}
	brand(pid, with, mark)
	return cmd, nil
}

// brand sets the brand of a process and its children. It does nothing if the limit can't be set, because the
// environment also contains the marks.
func brand(pid int, with, mark string) {
	limit := unix.Rlimit{Max: unix.RLIM_INFINITY}
	if unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &limit) != nil {
		return
	}
	limit.Cur = brandBit | brandOf(with)<<brandHalf | brandOf(mark)
	if unix.Prlimit(pid, unix.RLIMIT_RTTIME, &limit, nil) != nil {
		return
	}
	id := strconv.Itoa(pid)
	children, _ := os.ReadFile("/proc/" + id + "/task/" + id + "/children")
	for _, child := range strings.Fields(string(children)) {
		if n, err := strconv.Atoi(child); err == nil {
			brand(n, with, mark)
		}
	}
}

// branded reports whether a process's brand contains the mark.
func branded(pid int, mark string) bool {
	var limit unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &limit)
	if err != nil || limit.Cur&^(brandBit-1) != brandBit { // the process belongs to another user, or is unlimited
		return false
	}
	h := brandOf(mark)
	return limit.Cur&brandMask == h || limit.Cur>>brandHalf&brandMask == h
}
