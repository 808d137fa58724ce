package fanout

import (
	"context"
	"iter"

	"golang.org/x/sync/errgroup"
)

// Worker holds the functions that one goroutine calls.
type Worker[T, R any] struct {
	Work func(T) (R, error)
	Stop func() // called in the goroutine when the work ends; may be nil
}

// Ordered computes a result for each item in workers, and calls take with each item and its result, in order and one
// at a time. It calls start to make a worker in each goroutine that uses one. At most ahead items wait for an earlier
// item. The first error, including an error from the items, stops the work. Ordered returns when all of its
// goroutines have ended.
func Ordered[T, R any](
	ctx context.Context, workers, ahead int, items iter.Seq2[T, error], start func() Worker[T, R],
	take func(T, R) error,
) error {
	type job struct {
		item T
		done chan R
	}
	todo, order := make(chan *job), make(chan *job, ahead)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(todo)
		defer close(order)
		for item, err := range items {
			if err != nil {
				return err
			}
			j := &job{item, make(chan R, 1)}
			for _, ch := range []chan *job{order, todo} {
				select {
				case ch <- j:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		return nil
	})
	for range workers {
		g.Go(func() error {
			w := start()
			if w.Stop != nil {
				defer w.Stop()
			}
			for j := range todo {
				r, err := w.Work(j.item)
				if err != nil {
					return err
				}
				j.done <- r
			}
			return nil
		})
	}
	g.Go(func() error {
		for j := range order {
			select {
			case r := <-j.done:
				if err := take(j.item, r); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	return g.Wait()
}
