package rest

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func client(t *testing.T, o Options) *Client {
	t.Helper()
	o.ConnectTimeout, o.Timeout, o.Backoff = time.Second, time.Second, time.Millisecond
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(s.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	req := Request{Op: "ask", Method: http.MethodGet, Path: "/"}
	_, err := client(t, Options{Base: s.URL}).Do(t.Context(), req)
	var e *trainers.Error
	if !errors.As(err, &e) || e.Fault != trainers.Local || e.Unsettled || !strings.Contains(err.Error(), "tls.ca_file") {
		t.Errorf("err = %v", err)
	}
	for _, o := range []TLS{{CAFile: ca}, {InsecureSkipVerify: true}} {
		if _, err := client(t, Options{Base: s.URL, TLS: o}).Do(t.Context(), req); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, o := range []TLS{{CAFile: "no-such-file"}, {CertFile: ca, KeyFile: ca}} {
		if _, err := New(Options{Base: s.URL, TLS: o}); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// TestRedirect: another host sees the request, and nothing that proves who we are.
func TestRedirect(t *testing.T) {
	var got http.Header
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	t.Cleanup(other.Close)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1), http.StatusTemporaryRedirect)
	}))
	t.Cleanup(s.Close)
	body, err := JSON(map[string]int{"a": 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client(t, Options{Base: s.URL, Token: "secret"}).Do(t.Context(), Request{Op: "send", Method: http.MethodPost, Path: "/", Body: body, Header: http.Header{"Wandb-Api-Key": {"k"}}})
	if err != nil || got == nil {
		t.Fatal(err)
	}
	if got.Get("Authorization") != "" || got.Get("Wandb-Api-Key") != "" || got.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", got)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for v, want := range map[string]time.Duration{
		"": 0, "2": 2 * time.Second, "0.5": 500 * time.Millisecond, "-1": 0, "x": 0, "1e9": 0,
		"Thu, 01 Jan 2026 00:01:00 GMT": time.Minute, "Wed, 31 Dec 2025 00:00:00 GMT": 0,
	} {
		if got := retryAfter(v, now); got != want {
			t.Errorf("%q: %s, want %s", v, got, want)
		}
	}
}

// TestRefusedConnection was certainly not carried out, and may be repeated whatever it was.
func TestRefusedConnection(t *testing.T) {
	_, err := client(t, Options{Base: "http://127.0.0.1:1"}).Do(t.Context(), Request{Op: "create", Method: http.MethodPost, Path: "/", Tries: 2})
	if trainers.Unsettled(err) || !trainers.Transient(err) {
		t.Errorf("err = %v", err)
	}
}

func TestMessages(t *testing.T) {
	for body, want := range map[string]string{
		`{"detail": "no"}`: "HTTP 400 Bad Request: no",
		`{"detail": [{"loc": ["body", "a", 1], "msg": "bad"}]}`: "a.1: bad",
		`{"error": {"message": "quota"}}`:                       "quota",
		"<html><title>Nope\n here</title>":                      `an HTML page titled "Nope here"`,
		strings.Repeat("é", 400):                                "…",
		"":                                                      "HTTP 400 Bad Request",
		"secret tok-1 and\x00control":                           "secret *** and",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(400)
			_, _ = w.Write([]byte(body))
		}))
		_, err := client(t, Options{Base: s.URL, Token: "tok-1"}).Do(t.Context(), Request{Op: "ask", Method: http.MethodGet, Path: "/x?sig=1"})
		s.Close()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sig=1") || strings.ContainsAny(err.Error(), "\x00\n") {
			t.Errorf("%q: %v", body, err)
		}
	}
}
