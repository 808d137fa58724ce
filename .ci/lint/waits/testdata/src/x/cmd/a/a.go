package a

import (
	"context"
	"sync"
	"time"
)

func waits(ctx context.Context, ch chan int, wg *sync.WaitGroup) {
	ch <- 1        // want `a send may wait forever`
	<-ch           // want `a receive may wait forever`
	for range ch { // want `ranging over a channel may wait forever`
	}
	wg.Wait() // want `\*sync.WaitGroup.Wait may wait forever`
	select {  // want `a select without a context or a default may wait forever`
	case <-ch:
	}
	select {
	case <-ch:
		ch <- 2 // want `a send may wait forever`
	case <-ctx.Done():
	}
}

func ends(ctx context.Context, ch chan int, wg *sync.WaitGroup) {
	<-ctx.Done()
	select {
	case v := <-ch:
		_ = v
	case ch <- 1:
	case <-ctx.Done():
	}
	select {
	case <-ch:
	default:
	}
	select {
	case <-ch:
	case <-time.After(time.Second):
	}
	<-ch // wait: its sender closes it when ctx ends
	// wait: every worker watches ctx
	wg.Wait()
	// wait: no
	wg.Wait() // want `\*sync.WaitGroup.Wait may wait forever`
}
