package objects

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestUnfinishedCopiesAreSwept checks that what a killed process left of its copy is removed by a later one, but neither
// a complete copy nor one that may still be made.
func TestUnfinishedCopiesAreSwept(t *testing.T) {
	cache := t.TempDir()
	long := time.Now().Add(-2 * unfinishedAge)
	for name, at := range map[string]time.Time{
		unfinished + "left": long, unfinished + "making": time.Now(), "complete": long,
	} {
		dir := filepath.Join(cache, name)
		if err := os.MkdirAll(filepath.Join(dir, "in"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, at, at); err != nil {
			t.Fatal(err)
		}
	}
	sweep(cache)
	for name, kept := range map[string]bool{unfinished + "left": false, unfinished + "making": true, "complete": true} {
		if _, err := os.Stat(filepath.Join(cache, name)); (err == nil) != kept {
			t.Errorf("%s: %v", name, err)
		}
	}
}
