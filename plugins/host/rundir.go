package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// A run directory holds the sockets of one Plugin and a file for each of its processes. Its name and theirs are a process id
// and when that process started, so that another host can tell what is left over and kill what is still running, and
// nothing else: process ids are reused, the pair is not.

const maxSocketPath = 100 // of the 104 bytes that macOS has and the 108 of Linux

// newRunDir sweeps what ended hosts left and makes a directory of our own.
func newRunDir() (string, error) {
	base, err := runBase()
	if err != nil {
		return "", err
	}
	sweep(base)
	self := os.Getpid()
	dir, err := os.MkdirTemp(base, identity(self)+".")
	if err != nil {
		return "", fmt.Errorf("can't make a folder for plugin sockets: %w", err)
	}
	// go-plugin adds plugin-dir<random>/plugin<random>.
	if n := len(dir) + len("/plugin-dir/plugin") + 2*10; n > maxSocketPath {
		os.RemoveAll(dir)
		return "", fmt.Errorf("socket paths under %s would have %d bytes; systems allow about %d: set XDG_RUNTIME_DIR to a shorter folder", base, n, maxSocketPath)
	}
	return dir, nil
}

// runBase is a folder of the user's that nobody else can enter, with a short path.
func runBase() (string, error) {
	base := fmt.Sprintf("/tmp/nat-go-%d", os.Getuid())
	if x := os.Getenv("XDG_RUNTIME_DIR"); x != "" && len(x) < 50 {
		base = filepath.Join(x, "nat-go")
	}
	if err := os.Mkdir(base, 0o700); err != nil && !os.IsExist(err) {
		return "", fmt.Errorf("can't make a folder for plugin sockets: %w", err)
	}
	info, err := os.Lstat(base)
	if err != nil {
		return "", err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm() != 0o700 || !ok || int(st.Uid) != os.Getuid() {
		return "", fmt.Errorf("%s must be a folder of yours with mode 0700, because plugin sockets lie in it; it is %s", base, info.Mode())
	}
	return base, nil
}

// identity names a process for good.
func identity(pid int) string {
	start, err := startTime(pid)
	if err != nil {
		return strconv.Itoa(pid) + ".0"
	}
	return fmt.Sprintf("%d.%s", pid, strconv.FormatUint(start, 36))
}

// lives reports whether the process of an identity is the one that runs under its id now.
func lives(id string) (pid int, alive bool) {
	pid, err := strconv.Atoi(strings.SplitN(id, ".", 2)[0])
	if err != nil || pid <= 1 {
		return 0, false
	}
	return pid, identity(pid) == id && !strings.HasSuffix(id, ".0")
}

// sweep kills the plugins of hosts that are gone and removes their folders.
func sweep(base string) {
	dirs, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, d := range dirs {
		parts := strings.SplitN(d.Name(), ".", 3)
		if len(parts) != 3 {
			continue
		}
		if _, alive := lives(parts[0] + "." + parts[1]); alive {
			continue
		}
		dir := filepath.Join(base, d.Name())
		files, _ := os.ReadDir(dir)
		for _, f := range files {
			if pid, alive := lives(f.Name()); alive {
				_ = syscall.Kill(-pid, syscall.SIGKILL)
			}
		}
		os.RemoveAll(dir)
	}
}
