//go:build linux

package hostile

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// limitMemory has the kernel kill a command and everything it starts at memoryLimit, if we are allowed to create a
// control group: the kernel sees every page, while polling misses what comes and goes in between. The returned function
// reports, after the command has ended, whether that happened.
func limitMemory(t *testing.T, cmd *exec.Cmd) (killed func() bool) {
	t.Helper()
	for _, g := range []struct{ root, limit, events string }{
		{"/sys/fs/cgroup", "memory.max", "memory.events"},
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.oom_control"},
	} {
		dir := filepath.Join(g.root, fmt.Sprintf("nat-go-test-%d-%d", os.Getpid(), time.Now().UnixNano()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err != nil { // a plain folder
			_ = os.Remove(dir)
			continue
		}
		t.Cleanup(func() { // its processes may take a moment to disappear
			for range 100 {
				if os.Remove(dir) == nil {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
			t.Errorf("%s can't be removed: processes of the command are left", dir)
		})
		if _, err := os.Stat(filepath.Join(dir, g.limit)); err != nil {
			continue // this hierarchy has no memory controller
		}
		if err := os.WriteFile(filepath.Join(dir, g.limit), []byte(strconv.Itoa(memoryLimit)), 0o644); err != nil {
			t.Fatal(err)
		}
		sh, err := exec.LookPath("sh")
		if err != nil {
			t.Fatal(err)
		}
		enter := []string{"sh", "-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(dir, "cgroup.procs"), cmd.Path}
		cmd.Args = slices.Concat(enter, cmd.Args[1:])
		cmd.Path = sh
		return func() bool {
			events, err := os.ReadFile(filepath.Join(dir, g.events))
			if err != nil {
				t.Error(err)
			}
			for line := range strings.Lines(string(events)) {
				if n, is := strings.CutPrefix(line, "oom_kill "); is && strings.TrimSpace(n) != "0" {
					return true
				}
			}
			return false
		}
	}
	t.Log("no control group can be made here: peaks are polled")
	return func() bool { return false }
}
