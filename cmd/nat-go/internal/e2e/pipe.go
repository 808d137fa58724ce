package e2e

import (
	"io"
	"os"
	"syscall"
	"testing"
)

// Pipe creates a named pipe that delivers text. The returned function waits until the writer has finished, even if no
// reader opens the pipe.
func Pipe(t *testing.T, path string, text func(io.Writer) error) (end func()) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w, err := os.OpenFile(path, os.O_WRONLY, 0) // waits for a reader
		if err != nil {
			t.Error(err)
			return
		}
		_ = text(w) // the reader may close the pipe early
		w.Close()
	}()
	return func() {
		r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // releases a waiting writer
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		<-done // wait: opening the pipe for reading released the writer
	}
}

// SmallInput is a workflow output with one example that has two candidates.
const SmallInput = `[{"id": "a", "question": "q", "answer": "", "generated_answer": "", "intermediate_steps": [` +
	`{"parent_id": "root", "function_ancestry": {"function_id": "f", "function_name": "w"}, "payload": {"event_type": "TTC_END", "event_timestamp": 1.5, "name": "dpo_candidate_move", "UUID": "u1", ` +
	`"metadata": {}, "data": {"input": "p", "output": "x", "turn_id": "t", "turn_index": 0, "candidate_index": 0, "score": 0.0}}},` +
	`{"parent_id": "root", "function_ancestry": {"function_id": "f", "function_name": "w"}, "payload": {"event_type": "TTC_END", "event_timestamp": 1.5, "name": "dpo_candidate_move", "UUID": "u2", ` +
	`"metadata": {}, "data": {"input": "p", "output": "y", "turn_id": "t", "turn_index": 0, "candidate_index": 1, "score": 1.0}}}]}]`
