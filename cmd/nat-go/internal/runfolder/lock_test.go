package runfolder

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestLockIsReleasedDespiteCopies copies a lock's descriptor, as a process has it that is being started while the lock
// is released.
func TestLockIsReleasedDespiteCopies(t *testing.T) {
	folder := Folder(t.TempDir())
	first, err := folder.Lock("first")
	if err != nil {
		t.Fatal(err)
	}
	copied, err := unix.Dup(int(first.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(copied)
	first.keep = true // the next holder reads who it was
	first.Close()
	second, err := folder.Lock("second")
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
}

// TestLockOutlivesItsHolder has a lock held by a copy of its descriptor while the process that took it is dead.
func TestLockOutlivesItsHolder(t *testing.T) {
	folder := Folder(t.TempDir())
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Skip(err)
	}
	first, err := folder.Lock("first")
	if err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	if err := first.write(&Holder{Command: "first", Process: dead.Process.Pid, Host: host}); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, func() { first.file.Close() })
	second, err := folder.Lock("second")
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
}
