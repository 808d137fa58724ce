package main

import (
	"strings"
	"testing"
	"time"
)

// shown is the screen's output for the events of one package.
func shown(events ...event) string {
	var out strings.Builder
	s := &screen{out: &out, began: time.Now(), total: 1}
	s.take(event{Action: "start", Package: module + "p"}, s.began)
	for _, e := range events {
		e.Package = module + "p"
		s.take(e, s.began)
	}
	return out.String()
}

func TestFailureIsShownOnce(t *testing.T) {
	got := shown(
		event{Action: "run", Test: "TestA"}, event{Action: "output", Test: "TestA", Output: "=== RUN   TestA\n"},
		event{Action: "output", Test: "TestA/b", Output: "    a_test.go:6: got 3\n"},
		event{Action: "fail", Test: "TestA/b"}, event{Action: "fail", Test: "TestA"},
		event{Action: "output", Output: "FAIL\n"}, event{Action: "fail"},
	)
	if want := "FAILED p TestA/b (0.0s)\n      a_test.go:6: got 3\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPanicSaysThatOthersDidNotRun(t *testing.T) {
	got := shown(
		event{Action: "output", Test: "TestA", Output: "panic: index out of range\n"},
		event{Action: "fail", Test: "TestA"}, event{Action: "fail"},
	)
	if !strings.Contains(got, "panic: index out of range") || !strings.Contains(got, "tests after TestA did not run") {
		t.Errorf("got %q", got)
	}
}

func TestHangIsNamed(t *testing.T) {
	got := shown(
		event{Action: "run", Test: "TestA"},
		event{Action: "output", Test: "TestA", Output: "panic: test timed out after 10m0s\n\trunning tests:\n\n"},
		event{Action: "output", Test: "TestA", Output: "goroutine 5 [select]:\np.TestA(0x1)\n\n"},
		event{Action: "output", Test: "TestA", Output: "goroutine 6 [select]:\nother()\n"},
		event{Action: "fail"},
	)
	if !strings.HasPrefix(got, "HUNG p TestA: test did not end within 10m0s\n") || !strings.Contains(got, "p.TestA(0x1)") ||
		strings.Contains(got, "other()") {
		t.Errorf("got %q", got)
	}
}
