package httpclient

import (
	"io"
	"time"
)

// watch ends a request that stalls.
type watch struct {
	timer   *time.Timer
	timeout time.Duration
}

func (w *watch) stop()  { w.timer.Stop() }
func (w *watch) reset() { w.timer.Reset(w.timeout) }

// watched is a request body that restarts the request's time limit whenever it is read, so that an upload may take
// hours, but a stalled one is cancelled.
type watched struct {
	io.ReadCloser
	watch *watch
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if n > 0 {
		w.watch.reset()
	}
	return n, err
}
