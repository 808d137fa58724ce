package dataset

import (
	"fmt"
	"math"
	"testing"
)

func TestAppendDigits(t *testing.T) {
	for _, n := range []int64{0, 1, 9, 10, 11, 99, 100, 12345, 999_999, 1_000_000, math.MaxInt64} {
		if got, want := string(appendDigits([]byte("row "), n)), fmt.Sprintf("row %d", n); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
