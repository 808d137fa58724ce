package source

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestVersions: what wrote an input is counted, and a version newer than those tried is reported once, however many
// sessions it wrote.
func TestVersions(t *testing.T) {
	for name, c := range map[string]struct {
		number, newest string
		newer          bool
	}{
		"the same":           {"2.1.329", "2.1.329", false},
		"older":              {"2.1.99", "2.1.329", false},
		"newer":              {"2.1.330", "2.1.329", true},
		"with more digits":   {"2.10.0", "2.9.9", true},
		"with a longer name": {"2.1.329.1", "2.1.329", true},
		"a preview":          {"2.4b1", "2.4b0", true},
		"with a prefix":      {"ATIF-v1.9", "ATIF-v1.8", true},
		"a huge number":      {"99999999999999999999", "1", true},
		"no number":          {"dev", "1.0", false},
		"nothing was tried":  {"9", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			var tally Tally
			for range 3 {
				tally.Wrote(Version{"P", c.number, c.newest})
			}
			if d := cmp.Diff(map[string]int64{"P " + c.number: 3}, tally.S.Versions); d != "" {
				t.Error(d)
			}
			w := tally.S.Warnings()
			if c.newer != (len(w) == 1) || c.newer && !strings.Contains(w[0], "written by P "+c.number+",") {
				t.Errorf("%q", w)
			}
		})
	}
}

func TestVersionsAreBounded(t *testing.T) {
	var tally Tally
	for i := range 1000 {
		tally.Wrote(Version{"P", fmt.Sprint(i), "1"})
	}
	tally.Wrote(Version{"P", "", "1"})
	if n := len(tally.S.Versions); n != maxVersions+1 || tally.S.Versions["others"] != 1000-maxVersions {
		t.Errorf("%d versions: %v", n, tally.S.Versions)
	}
	if got := printable("a\x1b\n" + strings.Repeat("b", 100)); got != "a"+strings.Repeat("b", 59)+"..." {
		t.Errorf("%q", got)
	}
}
