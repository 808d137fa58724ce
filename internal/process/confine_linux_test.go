package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestConfinedWithoutLandlock repeats the test of confinement in a process for which the kernel has no Landlock, as
// this user and, if that is root, as another.
func TestConfinedWithoutLandlock(t *testing.T) {
	if os.Getenv("NATGO_TEST_FILTERED") != "" {
		t.Skip("SKIPPED: the process is filtered")
	}
	users := map[string]*syscall.Credential{"this user": nil}
	if os.Geteuid() == 0 {
		const nobody = 65534
		users["another user"] = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	for name, user := range users {
		for _, without := range []string{"", "1"} {
			t.Run(name+", filtered "+without, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "tmp")
				err := os.Mkdir(dir, 0o700)
				if err == nil && user != nil {
					err = os.Chown(dir, int(user.Uid), int(user.Gid))
				}
				for up := filepath.Dir(dir); err == nil && up != os.TempDir(); up = filepath.Dir(up) {
					err = os.Chmod(up, 0o711) //nolint:gosec // empty but for dir
				}
				if err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command("/proc/self/exe", "-test.run=^TestConfinedProgramSeesNoOthers$", "-test.v")
				cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: user}
				cmd.Env = append(os.Environ(), "NATGO_TEST_FILTERED="+without, "TMPDIR="+dir)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				} else {
					t.Logf("%s", out)
				}
			})
		}
	}
}

// withoutLandlock has the kernel answer as one without Landlock, that knows no tracing either, from now on.
func withoutLandlock() error {
	const returnENOSYS = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_LANDLOCK_CREATE_RULESET, Jt: 1},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PTRACE, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: returnENOSYS},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread() // the thread that sets the filter must have given up new privileges itself
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	// For all threads: each that starts a program asks for itself. Those that exist need the promise, too.
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return errno
	}
	return nil
}

// TestGoInThread checks that no function gets the main thread, which programs could be confined in together with it.
func TestGoInThread(t *testing.T) {
	for range 1000 {
		id := make(chan int)
		goInThread(func() { id <- unix.Gettid() })
		if <-id == os.Getpid() {
			t.Fatal("it ran in the main thread")
		}
	}
}

// undumped reports whether this program can't be dumped.
func undumped() bool {
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	return err == nil && dumpable == 0
}
