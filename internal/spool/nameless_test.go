//go:build linux

package spool

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

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
