package host

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
)

// TestSupervisor checks that whatever happens to an instance, it starts only from rest or after a pause, takes groups
// only once it has been started, pauses longer with each failure, gives up after a number of failures in a row, and
// never comes back from a stop.
func TestSupervisor(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		spec := Spec{
			Failures: rapid.IntRange(1, 12).Draw(t, "failures"),
			Backoff:  time.Duration(rapid.IntRange(1, 1000).Draw(t, "ms")) * time.Millisecond,
		}.withDefaults()
		var s supervisor
		failures, starts := 0, 0
		for range rapid.IntRange(1, 200).Draw(t, "events") {
			e := event(rapid.IntRange(int(wanted), int(stop)).Draw(t, "event"))
			if e == stop && rapid.IntRange(0, 9).Draw(t, "stop") > 0 {
				continue
			}
			before := s
			s = s.step(e, &spec)
			switch {
			case before.phase == closed && s != before:
				t.Fatalf("%v changed a stopped instance: %+v", e, s)
			case e == stop && s.phase != closed:
				t.Fatal("it did not stop")
			case before.phase == open && e != stop && s != before:
				t.Fatal("an open circuit closed again")
			case s.phase == starting && before.phase != starting:
				starts++
				if before.phase != stopped && before.phase != backoff {
					t.Fatalf("it started from phase %d", before.phase)
				}
			case s.phase == ready && before.phase != ready && (before.phase != starting || e != started):
				t.Fatal("it became ready without a start")
			}
			if e == failed && (before.phase == starting || before.phase == ready) {
				failures++
				if s.phase == backoff && s.delay < before.delay || s.delay > maxBackoff {
					t.Fatalf("after %d failures it waits %s", failures, s.delay)
				}
				if (s.phase == open) != (failures >= spec.Failures) {
					t.Fatalf("after %d failures of %d it is in phase %d", failures, spec.Failures, s.phase)
				}
			}
			if e == finished && before.phase == ready {
				failures = 0
			}
			if s.failures != failures || s.starts != starts {
				t.Fatalf("it counts %d failures and %d starts; there were %d and %d", s.failures, s.starts, failures,
					starts)
			}
		}
	})
}

func TestPause(t *testing.T) {
	want := []time.Duration{0, 0, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second}
	for n, d := range want {
		if got := pause(n, 250*time.Millisecond); got != d {
			t.Errorf("after %d failures %s, want %s", n, got, d)
		}
	}
	if got := pause(1000, 250*time.Millisecond); got != maxBackoff {
		t.Error(got)
	}
}

// TestGate checks that many can share the gate, that its holder is alone while it is locked, and that every waiter
// eventually gets it.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		var sharing, alone atomic.Int64
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for range 50 {
					if i%2 == 0 {
						wanted, err := g.share(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						sharing.Add(1)
						if alone.Load() != 0 {
							t.Error("it is shared while it is locked")
						}
						select {
						case <-wanted:
						case <-time.After(time.Duration(i+1) * time.Second):
						}
						sharing.Add(-1)
						g.release()
						continue
					}
					if err := g.lock(t.Context()); err != nil {
						t.Error(err)
						return
					}
					if alone.Add(1) != 1 || sharing.Load() != 0 {
						t.Error("it is locked while others have it")
					}
					time.Sleep(time.Second)
					alone.Add(-1)
					g.unlock()
				}
			})
		}
		wg.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := g.share(ctx); err != nil {
			t.Fatal(err)
		}
		go cancel()
		if err := g.lock(ctx); err == nil {
			t.Error("it was locked while it is shared")
		}
		g.release()
		if err := g.lock(t.Context()); err != nil {
			t.Error("a lock that was given up still blocks others")
		}
	})
}
