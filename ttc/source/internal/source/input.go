package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/nat-go/nat-go/internal/objects"
	"github.com/nat-go/nat-go/ttc/json"
)

// InTexts bounds JSON inside a string, which the limits of the surrounding JSON don't cover.
var InTexts = json.Limits{Objects: 200_000}

// Inner returns the value that a string holds as JSON; other values are unchanged.
func Inner(v json.Raw) (json.Raw, error) {
	if text, ok := v.Text(); ok {
		return json.Parse([]byte(text), InTexts)
	}
	return v, nil
}

// input is an open file whose reads stop when ctx is done, even if nothing arrives from a named pipe or a terminal.
type input struct {
	file *os.File
	ctx  context.Context
	stop func() bool
}

// openInput opens a file for reading. It waits for the writer of a named pipe until ctx is done.
func openInput(ctx context.Context, path string) (*input, error) {
	f, err := openWaiting(ctx, path)
	if err != nil {
		return nil, err
	}
	return &input{file: f, ctx: ctx, stop: context.AfterFunc(ctx, func() {
		_ = f.SetReadDeadline(time.Unix(1, 0)) // regular files neither support nor need deadlines
	})}, nil
}

func (in *input) Read(p []byte) (int, error) {
	n, err := in.file.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) && in.ctx.Err() != nil {
		err = context.Cause(in.ctx)
	}
	return n, err
}

func (in *input) Close() error {
	in.stop()
	return in.file.Close()
}

// ReadFile reads a whole file of at most the given size. It stops when ctx is done.
func ReadFile(ctx context.Context, path string, most int64) ([]byte, error) {
	if objects.Is(path) {
		b, err := objects.OfProcess().ReadAll(ctx, path, most)
		if err != nil {
			return nil, openError(path, err)
		}
		return b, nil
	}
	in, err := openInput(ctx, path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	b, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(b)) > most {
		what := fmt.Sprintf("the file is larger than %d bytes", most)
		return nil, Failure(path, what, "Check that it is the right file", nil)
	}
	return b, err
}

// openWaiting is like os.Open, except that on a named pipe it waits for a writer only until ctx is done.
func openWaiting(ctx context.Context, path string) (*os.File, error) {
	if info, err := os.Stat(path); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return os.Open(path)
	}
	type result struct {
		f   *os.File
		err error
	}
	opened := make(chan result, 1)
	go func() {
		f, err := os.Open(path)
		opened <- result{f, err}
	}()
	select {
	case r := <-opened:
		return r.f, r.err
	case <-ctx.Done():
	}
	go func() { // a writer, even a brief one, unblocks the open above
		if w, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0); err == nil {
			defer w.Close()
		}
		if r := <-opened; r.err == nil {
			r.f.Close()
		}
	}()
	return nil, context.Cause(ctx)
}
