package fanout

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func count(n int, err error) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for i := range n {
			if !yield(i, nil) {
				return
			}
		}
		if err != nil {
			yield(0, err)
		}
	}
}

// TestOrdered checks that results come in the order of the items, even if a later one is ready long before.
func TestOrdered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []int
		var started, stopped, waiting, most atomic.Int64
		err := Ordered(t.Context(), 3, 4, count(20, nil), func() Worker[int, int] {
			started.Add(1)
			return Worker[int, int]{
				Work: func(i int) (int, error) {
					most.Store(max(most.Load(), waiting.Add(1)))
					time.Sleep(time.Duration(20-i) * time.Second)
					return 2 * i, nil
				},
				Stop: func() { stopped.Add(1) },
			}
		}, func(i, r int) error {
			waiting.Add(-1)
			if r != 2*i {
				t.Errorf("%d of %d", r, i)
			}
			got = append(got, i)
			return nil
		})
		if err != nil || len(got) != 20 || !slices.IsSorted(got) {
			t.Errorf("%v, %v", got, err)
		}
		if started.Load() != 3 || stopped.Load() != 3 {
			t.Errorf("%d workers started, %d stopped", started.Load(), stopped.Load())
		}
		if most.Load() > 3+4+1 {
			t.Errorf("%d items in flight", most.Load())
		}
	})
}

func TestErrorsEndTheWork(t *testing.T) {
	bad := errors.New("bad")
	at := func(n int, f func() error) func(int) error {
		return func(i int) error {
			if i == n {
				return f()
			}
			return nil
		}
	}
	fail := func() error { return bad }
	ok := func(int) error { return nil }
	ctx, cancel := context.WithCancel(t.Context())
	for name, c := range map[string]struct {
		ctx        context.Context
		items      iter.Seq2[int, error]
		work, take func(int) error
		want       error
	}{
		"an item":      {t.Context(), count(3, bad), ok, ok, bad},
		"a worker":     {t.Context(), count(1000, nil), at(7, fail), ok, bad},
		"the taker":    {t.Context(), count(1000, nil), ok, at(7, fail), bad},
		"the context":  {ctx, count(1000, nil), ok, at(7, func() error { cancel(); return nil }), context.Canceled},
		"no item left": {t.Context(), count(0, nil), ok, ok, nil},
	} {
		t.Run(name, func(t *testing.T) {
			err := Ordered(c.ctx, 2, 2, c.items, func() Worker[int, struct{}] {
				return Worker[int, struct{}]{Work: func(i int) (struct{}, error) { return struct{}{}, c.work(i) }}
			}, func(i int, _ struct{}) error { return c.take(i) })
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}
