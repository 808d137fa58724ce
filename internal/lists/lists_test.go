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

func TestUnique(t *testing.T) {
	if got := Unique([]int{3, 1, 3, 2, 1}); !slices.Equal(got, []int{3, 1, 2}) {
		t.Error(got)
	}
	if got := Unique([]int{}); got != nil {
		t.Errorf("%#v", got)
	}
}

func TestEach(t *testing.T) {
	failure := errors.New("two")
	var seen []int
	visit := func(n int) error {
		seen = append(seen, n)
		if n == 2 {
			return failure
		}
		return nil
	}
	if err := Each([]int{1, 2, 3}, visit); !errors.Is(err, failure) || !slices.Equal(seen, []int{1, 2}) {
		t.Error(err, seen)
	}
	if err := Each([]int{1, 3}, visit); err != nil || !slices.Equal(seen, []int{1, 2, 1, 3}) {
		t.Error(err, seen)
	}
}
