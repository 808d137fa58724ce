//go:build linux && amd64

package resume

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/bench"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"
)

// shiftClock changes the clock seen by a process and everything it started, as `date -s` does for the whole machine:
// the code with which programs read the time without the kernel (the vDSO, which both Go and libc use) is replaced by
// code that asks the kernel and adds to its answer. Only the time of day moves; the monotonic clock, timers and file
// times stay the same, as they do when somebody sets the clock.
var shiftClock = func(t *testing.T, pid int, by time.Duration) {
	t.Helper()
	for _, p := range append(bench.Children(pid), pid) {
		err := shiftOne(p, by)
		gone := errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH)
		gone = gone || errors.Is(err, syscall.EIO) // a process that is ending has no memory any more
		if err != nil && !gone {
			t.Errorf("can't set the clock of process %d: %v", p, err)
		}
	}
}

// TestClockSet: a plugin that hangs is noticed even if the clock is set back, and one that works is not thought to hang
// because the clock is set forward.
func TestClockSet(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	hostile := filepath.Join(t.TempDir(), "hostile")
	build := exec.Command("go", "build", "-o", hostile, "../../../../../plugins/internal/host/testdata/plugin")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("can't build the hostile plugin: %v\n%s", err, out)
	}
	for _, c := range []struct {
		do   string
		by   time.Duration
		code int
		says string
	}{
		{"stop", -24 * time.Hour, 1, "was unresponsive"},
		{"hang", -24 * time.Hour, 1, "was unresponsive"},
		{"slow with progress", 24 * time.Hour, 0, "completed"},
		{"slow with progress", -24 * time.Hour, 0, "completed"},
	} {
		t.Run(fmt.Sprint(c.do, c.by), func(t *testing.T) {
			t.Parallel()
			b := &bed{Bed: e2e.NewFolder(t)}
			b.Write(t, "in.json", e2e.SmallInput)
			b.Write(t, "finetune.yml", fmt.Sprintf(`
trajectory_builders: {b: {_type: hostile/pairs, at: "*", do: %q}}
sources: {runs: {_type: workflow_output, path: in.json}}
plugins: {hostile: {path: %q, timeout: 2s}}
dataset: {formats: [trl]}
finetuning: {enabled: true, trajectory_builder: b}
`, c.do, hostile))
			cmd := b.Run(nil, "out")
			var errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &errs, &errs
			e2e.Start(t, cmd)
			begun := filepath.Join(b.Dir, "out", "r", "records", "begun.json")
			for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				if _, err := os.Stat(begun); err == nil && len(bench.Children(cmd.Process.Pid)) > 0 {
					break
				}
			}
			time.Sleep(200 * time.Millisecond) // until the group is being worked on
			shiftClock(t, cmd.Process.Pid, c.by)
			hung := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
			defer hung.Stop()
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(errs.String(), c.says) {
				t.Errorf("exit %d, want %d and %q: %s", code, c.code, c.says, &errs)
			}
			if c.code == 0 {
				b.madeAt(t, c.by)
			}
		})
	}
}

// madeAt checks whether a run saw the clock that was set.
func (b *bed) madeAt(t *testing.T, by time.Duration) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.Dir, "out", "r", "data_collection_progress.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var made struct {
		At time.Time `json:"timestamp"`
	}
	if err := json.Unmarshal(text, &made); err != nil {
		t.Fatal(err)
	}
	if off := time.Until(made.At) - by; off < -time.Hour || off > time.Hour {
		t.Errorf("the clock was not set: the run was made at %s", made.At)
	}
}

// shifted asks the kernel and, for the time of day, adds to the seconds:
//
//	mov eax, 228; syscall; test edi, edi; jnz end; mov rcx, [rip+4]; add [rsi], rcx; end: ret
var shifted = []byte{
	0xb8, 228, 0, 0, 0, 0x0f, 0x05, 0x85, 0xff, 0x75, 0x0a, 0x48, 0x8b, 0x0d, 0x04, 0, 0, 0, 0x48, 0x01, 0x0e, 0xc3,
}

// shiftOne writes it over a process's vDSO while none of its threads is executing it.
func shiftOne(pid int, by time.Duration) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }() // it may have gone
	begin, end, err := vdso(pid)
	if err != nil {
		return err
	}
	for range 100 {
		away, err := outside(pid, begin, end)
		if err != nil {
			return err
		}
		if away {
			return overwrite(pid, begin, end, by)
		}
		_ = syscall.Kill(pid, syscall.SIGCONT)
		time.Sleep(time.Millisecond)
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	return errors.New("a thread never leaves the vDSO")
}

func vdso(pid int) (begin, end uint64, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "[vdso]") {
			_, err := fmt.Sscanf(line, "%x-%x", &begin, &end)
			return begin, end, err
		}
	}
	return 0, 0, os.ErrNotExist // it has ended
}

// outside waits until all threads have stopped and reports whether none of them stopped there.
func outside(pid int, begin, end uint64) (bool, error) {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		if len(tasks) == 0 {
			return false, os.ErrNotExist
		}
		stopped, inside := true, false
		for _, task := range tasks {
			call, err := os.ReadFile(filepath.Join(task, "syscall"))
			if err != nil {
				continue // the thread has ended
			}
			fields := strings.Fields(string(call))
			stat, _ := os.ReadFile(filepath.Join(task, "stat"))
			if bytes.Contains(stat, []byte(") Z ")) || bytes.Contains(stat, []byte(") X ")) {
				return false, os.ErrNotExist // it has ended
			}
			if !bytes.Contains(stat, []byte(") T ")) {
				stopped = false
				break
			}
			at, _ := strconv.ParseUint(strings.TrimPrefix(fields[len(fields)-1], "0x"), 16, 64)
			inside = inside || begin <= at && at < end
		}
		if stopped {
			return !inside, nil
		}
	}
	return false, errors.New("it does not stop")
}

func overwrite(pid int, begin, end uint64, by time.Duration) error {
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	image := make([]byte, end-begin)
	if _, err := mem.ReadAt(image, int64(begin)); err != nil {
		return err
	}
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return err
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return err
	}
	code := binary.LittleEndian.AppendUint64(append([]byte(nil), shifted...), uint64(int64(by/time.Second)))
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" && s.Size >= uint64(len(code)) {
			_, err := mem.WriteAt(code, int64(begin+s.Value))
			return err
		}
	}
	return errors.New("its vDSO has no __vdso_clock_gettime")
}
