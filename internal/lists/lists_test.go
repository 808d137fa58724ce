package lists

import (
	"slices"
	"strconv"
	"testing"
)

func TestMap(t *testing.T) {
	if got := Map([]int{1, 2}, strconv.Itoa); !slices.Equal(got, []string{"1", "2"}) {
		t.Error(got)
	}
	if got := Map([]int{}, strconv.Itoa); got != nil {
		t.Errorf("%#v", got)
	}
}

func TestFind(t *testing.T) {
	isEven := func(n int) bool { return n%2 == 0 }
	if got, ok := Find([]int{1, 2, 4}, isEven); !ok || got != 2 {
		t.Error(got, ok)
	}
	if got, ok := Find([]int{1}, isEven); ok || got != 0 {
		t.Error(got, ok)
	}
}
