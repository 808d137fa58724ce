package pytext

import "testing"

func TestByteIndexOfStrayBytes(t *testing.T) {
	for i, want := range []int{0, 2, 3} {
		if got := ByteIndex("\x80ab", i); got != want {
			t.Errorf("character %d begins at byte %d, want %d", i, got, want)
		}
	}
}
