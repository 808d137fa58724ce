//go:build linux

package spool

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestRelease checks that space is given back and that the rest of the file remains.
func TestRelease(t *testing.T) {
	f, err := New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const half = 4 << 20
	for _, b := range []byte{'a', 'b'} {
		if _, err := f.Append(bytes.Repeat([]byte{b}, half)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.file.Sync(); err != nil {
		t.Fatal(err)
	}
	before := blocks(t, f)
	f.Release(0, half)
	if after := blocks(t, f); before-after != half/512 {
		t.Errorf("%d blocks before, %d after: want %d fewer", before, after, half/512)
	}
	got := make([]byte, half)
	if _, err := f.ReadAt(got, half); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{'b'}, half)) {
		t.Errorf("what remains is not what was written: %v", err)
	}
}

func blocks(t *testing.T, f *File) int64 {
	t.Helper()
	info, err := f.file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks
}

// TestNameless checks that a temporary file doesn't have a name at any time, where the file system supports that: a
// process killed between creating and unlinking it would leave it behind.
func TestNameless(t *testing.T) {
	dir := t.TempDir()
	f, err := Unnamed(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if plain := nameless(dir); plain == nil {
		t.Skip("the file system can't make files without a name")
	} else {
		plain.Close()
	}
	if name, err := os.Readlink(fmt.Sprint("/proc/self/fd/", f.Fd())); err != nil || strings.Contains(name, "nat-go-spool") {
		t.Errorf("the file was made as %s (%v)", name, err)
	}
}
