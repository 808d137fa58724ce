//go:build !(linux && amd64)

package resume

import (
	"testing"
	"time"
)

// shiftClock is nil if the clock of a single process can't be set.
var shiftClock func(t *testing.T, pid int, by time.Duration)
