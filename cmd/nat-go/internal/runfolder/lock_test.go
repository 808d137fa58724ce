package runfolder

import (
	"errors"
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

// TestLockIsBeingWritten reads a lock file while its holder writes to it: the holder isn't known then. Half a text in a
// file that no process has locked was left by one that died.
func TestLockIsBeingWritten(t *testing.T) {
	folder := Folder(t.TempDir())
	first, err := folder.Lock("first")
	if err != nil {
		t.Fatal(err)
	}
	if err := first.file.Truncate(20); err != nil {
		t.Fatal(err)
	}
	var busy *Busy
	if _, err := folder.Lock("second"); !errors.As(err, &busy) || busy.Holder != nil {
		t.Errorf("%v", err)
	}
	if _, err := folder.LeftBy(); !errors.As(err, &busy) || busy.Holder != nil {
		t.Errorf("%v", err)
	}
	first.file.Close()
	if h, err := folder.LeftBy(); err != nil || h == nil || h.Command != "?" {
		t.Errorf("%v, %v", h, err)
	}
}
