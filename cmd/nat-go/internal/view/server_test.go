package view

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

// TestSilentConnectionsEnd opens connections on which half a header, half a body or nothing further comes. The server
// ends each within its limit, which is a hundredth of the real one here.
func TestSilentConnectionsEnd(t *testing.T) {
	server := httpServer(t.Context(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	for _, limit := range []*time.Duration{&server.ReadHeaderTimeout, &server.ReadTimeout, &server.IdleTimeout} {
		if *limit <= 0 || *limit > 2*time.Minute {
			t.Fatalf("limits: header %v, request %v, idle %v", server.ReadHeaderTimeout, server.ReadTimeout, server.IdleTimeout)
		}
		*limit /= 100
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	for name, text := range map[string]string{
		"half a header": "GET / HTTP/1.1\r\nHost: x\r\n",
		"half a body":   "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc",
		"one request":   "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(30 * time.Second))
			if _, err := io.WriteString(c, text); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection stays open")
			}
		})
	}
}
