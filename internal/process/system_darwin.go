package process

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes gives the program its own session, or a process group. This system lacks a parent-death signal.
func attributes(c *Config) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: !c.Group, Setpgid: c.Group}
}

// await waits for the program to end and calls ended.
func await(cmd *exec.Cmd, ended func()) error {
	err := cmd.Wait()
	ended()
	return err
}

// States of a process in sys/proc.h.
const (
	stopped = 4 // SSTOP
	zombie  = 5 // SZOMB
)

// list returns the processes that have not ended.
func list() []entry {
	procs, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	var all []entry
	for i := range procs {
		p := &procs[i]
		if p.Proc.P_stat == zombie {
			continue
		}
		pid := int(p.Proc.P_pid)
		session, err := unix.Getsid(pid)
		if err != nil {
			session = 0
		}
		t := p.Proc.P_starttime
		all = append(all, entry{pid, int(p.Eproc.Ppid), int(p.Eproc.Pgid), session, uint64(t.Sec)*1e6 + uint64(t.Usec)})
	}
	return all
}

func startTime(pid int) uint64 {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0
	}
	t := k.Proc.P_starttime
	return uint64(t.Sec)*1e6 + uint64(t.Usec)
}

// Stopped reports whether a process is stopped by a signal (SIGSTOP).
func Stopped(pid int) bool {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	return err == nil && k.Proc.P_stat == stopped
}

// Boot returns a name for this system's current boot that is unique among systems and boots, or "" if it is unknown.
func Boot() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}

// marksSeen is false, because the marks of other processes can't be read on this system.
const marksSeen = false

// hasMark always returns false: the environment of other processes can't be read.
func hasMark(int, string) (has, hidden bool) { return false, false }

// launch starts a command without branding it, because limits of other processes can't be read or set.
func launch(cmd *exec.Cmd, _, _ string) (*exec.Cmd, error) { return cmd, cmd.Start() }

// branded always returns false on this system.
func branded(int, string) bool { return false }
