package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Canary is part of every secret in these tests. It must not appear in anything printed or stored.
const Canary = "canary-7f3a"

// Result is the outcome of a command.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Finish runs a command and checks that it doesn't print a secret.
func Finish(t *testing.T, cmd *exec.Cmd) Result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	r := Result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
	if strings.Contains(r.Stdout+r.Stderr, Canary) {
		t.Errorf("a secret was printed:\n%s\n%s", r.Stdout, r.Stderr)
	}
	return r
}

// Start starts a command.
func Start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

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

// Started starts a server that prints its address, and returns the address and a function that stops it.
func Started(t testing.TB, server *exec.Cmd) (url string, stop func()) {
	t.Helper()
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = server.Process.Signal(os.Interrupt)
		if err := server.Wait(); err != nil && // wait: the signal ends the server
			server.ProcessState.ExitCode() != 0 {
			t.Errorf("server ended with %v", err)
		}
	})
	t.Cleanup(stop)
	line, err := bufio.NewReader(out).ReadString('\n') //nolint:forbidigo // the program's own line
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), stop
}

// ViewAnswer sends a request to a view, given the address that it printed.
func ViewAnswer(t *testing.T, url, method, path, body string) *http.Response {
	t.Helper()
	base, token, _ := strings.Cut(url, "?token=")
	req, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Nat-Go-Token", token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// Workflow answers like `nat serve`, with three scored candidates per question.
func Workflow(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var in map[string]string
	_ = json.Unmarshal(body, &in) // an invalid request counts as an empty question
	fmt.Fprintf(w, "data: {\"value\": \"answer\"}\n\n")
	for i := range 3 {
		payload, _ := json.Marshal(map[string]any{
			"event_type": "TTC_END", "event_timestamp": 1.5, "span_event_timestamp": nil, "framework": nil,
			"name": "dpo_candidate_move", "tags": nil, "metadata": map[string]any{}, "usage_info": nil, "UUID": "u",
			"data": map[string]any{
				"input": in["input_message"], "output": fmt.Sprintf("move %d", i), "chunk": nil, "payload": nil,
				"turn_id": "t", "turn_index": 0, "candidate_index": i, "score": float64(i),
			},
		})
		line, _ := json.Marshal(map[string]any{
			"id": "u", "parent_id": "p", "type": "TTC_END", "name": "dpo_candidate_move", "payload": string(payload),
		})
		fmt.Fprintf(w, "intermediate_data: %s\n\n", line)
	}
}
