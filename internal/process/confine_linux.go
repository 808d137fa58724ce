package process

import (
	"errors"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// confine prevents this thread's children from reading this program's memory and environment and, on kernel 6.12 and
// later, from sending it signals. It uses Landlock, which prevents processes in a domain from reading processes outside
// it. Because a domain must restrict something, this one restricts signals. On kernels that can't restrict signals, it
// restricts renames between folders, and a rule allows them everywhere. Mounts can't be changed in a domain. Without
// Landlock, this program is made unreadable to other processes of the same user. Neither method affects root, so root's
// children lose the capabilities to inspect other processes.
func confine() {
	if !landlocked() {
		undumpable()
	}
	if unix.Geteuid() == 0 {
		for _, capability := range []uintptr{unix.CAP_SYS_PTRACE, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN} {
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0) // fails without permission, or in an old kernel
		}
	}
}

func isMainThread() bool { return unix.Gettid() == unix.Getpid() }

// undumpable prevents other processes of the same user from reading this one, and debuggers from attaching to it.
var undumpable = sync.OnceFunc(func() {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // clearing the flag never fails
})

// Versions of Landlock that added features.
const (
	landlockRefer  = 2 // version from which renames between folders can be allowed
	landlockScopes = 6 // version from which signals can be restricted
)

// landlocked puts this thread in a separate domain, and reports whether that succeeded.
func landlocked() bool {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || version < landlockRefer {
		return false
	}
	var attr struct{ fs, net, scoped uint64 }
	size := unsafe.Sizeof(attr)
	if version >= landlockScopes {
		attr.scoped = unix.LANDLOCK_SCOPE_SIGNAL
	} else {
		attr.fs, size = unix.LANDLOCK_ACCESS_FS_REFER, unsafe.Sizeof(attr.fs)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return false
	}
	rules := os.NewFile(fd, "landlock")
	defer rules.Close()
	if attr.fs != 0 && !allowRenames(fd) {
		return false
	}
	restrict := func() error {
		if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
			return errno
		}
		return nil
	}
	err := restrict()
	if errors.Is(err, unix.EPERM) { // an unprivileged thread must first give up gaining privileges
		if err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err == nil {
			err = restrict()
		}
	}
	return err == nil
}

// allowRenames allows renames between all folders.
func allowRenames(ruleset uintptr) bool {
	root, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(root)
	below := unix.LandlockPathBeneathAttr{Allowed_access: unix.LANDLOCK_ACCESS_FS_REFER, Parent_fd: int32(root)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, ruleset, unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&below)), 0, 0, 0)
	return errno == 0
}
