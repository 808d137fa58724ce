package lists

import (
	"errors"
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

func TestEach(t *testing.T) {
	odd := errors.New("odd")
	n := 0
	err := Each([]int{2, 4, 5, 6}, func(x int) error {
		if n++; x%2 == 1 {
			return odd
		}
		return nil
	})
	if err != odd || n != 3 {
		t.Error(err, n)
	}
}
