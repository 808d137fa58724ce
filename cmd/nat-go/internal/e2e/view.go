package e2e

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

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
