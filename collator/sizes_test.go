package collator

import "testing"

func TestSizes(t *testing.T) {
	var s Sizes
	for _, n := range []int{100, 4096, 4097, 20000} {
		s.Add(n)
	}
	if got := s.Advice(20000); got != "" {
		t.Errorf("all fit: %s", got)
	}
	const want = "all rows fit uncut into max_length 20000; of 4 rows, these fit: 2 into 4k, 3 into 8k, 3 into 16k, 4 into 32k"
	if got := s.Advice(4096); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
