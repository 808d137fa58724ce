package objects

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestCredentialServers asks servers that hand out credentials, and that misbehave: each request ends, little is read,
// no other host is sent anything, and no error repeats what was sent.
func TestCredentialServers(t *testing.T) {
	const token = "a-token-that-nobody-else-may-see"
	var elsewhere, sent atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	bucket := httptest.NewServer(http.NotFoundHandler())
	defer bucket.Close()
	answers := map[string]http.HandlerFunc{
		"endless": func(w http.ResponseWriter, _ *http.Request) { endless(w, &sent, `{"AccessKeyId":"`) },
		"endless error": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			endless(w, &sent, `{"code":"`)
		},
		"nested": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("[", 1<<20)) },
		"echo": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"code":"x","message":"`+r.Header.Get("Authorization")+`"}`)
		},
		"echo as plain text": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, r.Header.Get("Authorization"))
		},
		"stall": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	}
	for name, status := range map[string]int{
		"moved":      301,
		"found":      302,
		"see other":  303,
		"redirected": 307,
		"for good":   308,
	} {
		answers[name] = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, status) }
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(answer)
			defer server.Close()
			env := map[string]string{
				"AWS_CONTAINER_CREDENTIALS_FULL_URI": server.URL,
				"AWS_CONTAINER_AUTHORIZATION_TOKEN":  token,
				"AWS_ENDPOINT_URL":                   bucket.URL,
				"AWS_SHARED_CREDENTIALS_FILE":        t.TempDir() + "/none",
				"AWS_REGION":                         "us-east-1",
			}
			for key, value := range env { // the library reads them from the environment itself
				t.Setenv(key, value)
			}
			s := storage(t, env)
			s.silence = 200 * time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := s.Open(ctx, inBucket("a"))
			if err == nil || strings.Contains(err.Error(), token) {
				t.Errorf("%v", err)
			}
			if ctx.Err() != nil {
				t.Error("it makes no end of it")
			}
			server.CloseClientConnections()
		})
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("another host was asked %d times", n)
	}
	if n := sent.Load(); n > int64(len(answers))*mostSent {
		t.Errorf("%d MiB were read", n>>20)
	}
}
