package objects

import (
	"os"
	"path/filepath"
	"testing"
)

// TestUnfinishedCopiesAreSwept checks that what a killed process left of its copy is removed by the next one, but not
// what somebody is still making.
func TestUnfinishedCopiesAreSwept(t *testing.T) {
	cache := t.TempDir()
	unfinishedCopy := func() string {
		dir := filepath.Join(cache, unfinished+"1")
		if err := os.MkdirAll(filepath.Join(dir, "in"), 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	exists := func(dir string) bool { _, err := os.Stat(dir); return err == nil }
	kept := filepath.Join(cache, "complete")
	if err := os.Mkdir(kept, 0o700); err != nil {
		t.Fatal(err)
	}
	making, err := sweep(cache)
	if err != nil {
		t.Fatal(err)
	}
	dir := unfinishedCopy()
	other, err := sweep(cache)
	if err != nil || !exists(dir) {
		t.Errorf("a copy that is being made is removed, %v", err)
	}
	other.Close()
	making.Close()
	last, err := sweep(cache)
	if err != nil || exists(dir) || !exists(kept) {
		t.Errorf("left: %v, complete: %v, %v", exists(dir), exists(kept), err)
	}
	last.Close()
}
