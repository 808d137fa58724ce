package template

import (
	"testing"
	"time"
)

// TestStrftimeDropsZeros checks that a minus drops a leading zero but not the only digit.
func TestStrftimeDropsZeros(t *testing.T) {
	now := time.Date(2000, 3, 7, 0, 5, 0, 0, time.UTC)
	for format, want := range map[string]string{
		"%-d %-m %-H:%-M:%-S %-y": "7 3 0:5:0 0",
		"%d %m %H:%M:%S %y %%":    "07 03 00:05:00 00 %",
	} {
		if got := strftime(now, format); got != want {
			t.Errorf("%s: got %q, want %q", format, got, want)
		}
	}
}
