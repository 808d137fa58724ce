package property

import (
	"cmp"
	"flag"
	"os"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// Check checks a property on randomly drawn values.
func Check(t *testing.T, holds func(*rapid.T)) {
	t.Helper()
	if err := seed(); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, holds)
}

// seed sets rapid's seed unless a command-line flag sets it. It reads an environment variable, because packages that
// don't use rapid would reject rapid's flag.
var seed = sync.OnceValue(func() error {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.seed" })
	if given {
		return nil
	}
	return flag.Set("rapid.seed", cmp.Or(os.Getenv("NATGO_SEED"), "1"))
})
