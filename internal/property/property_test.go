package property

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestAllPropertiesAreSeeded finds tests that check properties around this package, from a seed that nothing sets.
func TestAllPropertiesAreSeeded(t *testing.T) {
	direct := []byte("rapid." + "Check(")
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, direct) {
			t.Errorf("%s calls %s: use property.Check", path, direct)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSameDraws: two checks draw the same values.
func TestSameDraws(t *testing.T) {
	t.Setenv("NATGO_SEED", "7")
	var draws [2][]int
	for i := range draws {
		Check(t, func(t *rapid.T) { draws[i] = append(draws[i], rapid.Int().Draw(t, "n")) })
	}
	if len(draws[0]) == 0 || !slices.Equal(draws[0], draws[1]) {
		t.Errorf("%v, then %v", draws[0], draws[1])
	}
}
