package source

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skipf("no named pipes here: %v", err)
	}
	return path
}

// TestPipeWithoutWriter checks that opening a pipe without a writer ends when the context does, and leaks no goroutine.
func TestPipeWithoutWriter(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := Open(ctx, fifo(t)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestPipeThatStalls: reading a pipe whose writer has gone quiet ends when the context does; before that, data is read
// as it arrives.
func TestPipeThatStalls(t *testing.T) {
	path := fifo(t)
	written := make(chan *os.File)
	go func() {
		w, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			_, err = w.WriteString(`{"id": 1}` + "\n")
		}
		if err != nil {
			t.Error(err)
		}
		written <- w
	}()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f, err := openInput(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 100)
	if n, err := f.Read(b); n != 10 || err != nil {
		t.Fatalf("%q, %v", b[:n], err)
	}
	w := <-written
	defer w.Close()
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := io.ReadAll(f); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestPipeTwice: a pipe that was opened to detect its contents can be opened again and read from the beginning.
func TestPipeTwice(t *testing.T) {
	path := fifo(t)
	go func() {
		if w, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
			_, _ = w.WriteString("question,answer\nwhat,that\n")
			w.Close()
		}
	}()
	for range 2 {
		f, err := Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err != nil || string(b) != "{\"question\":\"what\",\"answer\":\"that\"}\n" {
			t.Errorf("%q, %v", b, err)
		}
		f.Close()
	}
}
