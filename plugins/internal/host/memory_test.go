package host

import (
	"os"
	"runtime"
	"testing"
)

// TestResidentBytes checks that memory counts once it is used, on every system.
func TestResidentBytes(t *testing.T) {
	const size = 64 << 20
	before, ok := residentBytes(os.Getpid())
	if !ok || before < 1<<20 {
		t.Fatalf("this process has %d bytes, %v", before, ok)
	}
	used := make([]byte, size)
	for i := 0; i < size; i += 4096 {
		used[i] = 1
	}
	if after, ok := residentBytes(os.Getpid()); !ok || after < size || after > before+4*size {
		t.Errorf("expected about %d bytes, got %d, %v", before+size, after, ok)
	}
	runtime.KeepAlive(used)
	if n, ok := residentBytes(1 << 30); ok {
		t.Errorf("a process that doesn't exist has %d bytes", n)
	}
}
