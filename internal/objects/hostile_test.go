package objects

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nat-go/nat-go/internal/objects/objectstest"
)

// endless writes a body until nobody reads it, and counts what it wrote.
func endless(w http.ResponseWriter, sent *atomic.Int64, begins string) {
	_, _ = io.WriteString(w, begins)
	for piece := bytes.Repeat([]byte("a"), 64<<10); ; {
		n, err := w.Write(piece)
		if sent.Add(int64(n)) > 1<<30 || err != nil {
			return
		}
	}
}

// mostSent is the most that maxTries answers can carry: what is read, and what is in the buffers of connections.
const mostSent = maxTries * (maxAnswer + 16<<20)

// TestEndlessAnswers asks servers whose answers never end: each request ends by itself, after little was read.
func TestEndlessAnswers(t *testing.T) {
	write := func(ctx context.Context, s *Storage) error {
		return s.Write(ctx, inBucket("a"), strings.NewReader("x"), 1)
	}
	parts := func(ctx context.Context, s *Storage) error {
		return s.write(ctx, inBucket("a"), bytes.NewReader(noise(6<<20)), 6<<20, 5<<20)
	}
	read := func(ctx context.Context, s *Storage) error {
		_, err := s.ReadAll(ctx, inBucket("a"), 1<<20)
		return err
	}
	for _, c := range []struct {
		name   string
		method string // the request that is answered with begins and no end
		status int
		begins string
		do     func(context.Context, *Storage) error
	}{
		{"error", http.MethodPut, http.StatusForbidden, "<Error><Message>", write},
		{"error of the service", http.MethodPut, http.StatusInternalServerError, "", write},
		{"written", http.MethodPut, http.StatusOK, "", write},
		{"an upload's id", http.MethodPost, http.StatusOK, "<InitiateMultipartUploadResult><UploadId>", parts},
		{"nested elements", http.MethodPost, http.StatusOK, strings.Repeat("<a>", 100_000), parts},
		{
			"nested entities", http.MethodPost, http.StatusOK,
			`<!DOCTYPE a [<!ENTITY b "cccccccccc"><!ENTITY d "&b;&b;&b;&b;">]><a>&d;</a>`, parts,
		},
		{"an error instead of data", http.MethodGet, http.StatusNotFound, "<Error><Message>", read},
	} {
		t.Run(c.name, func(t *testing.T) {
			var sent atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if r.Method == c.method {
					w.WriteHeader(c.status)
					endless(w, &sent, c.begins)
				}
				w.Header().Set("Content-Length", "1000")
				w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
			}))
			defer server.Close()
			s := storage(t, objectstest.Environment(strings.TrimPrefix(server.URL, "http://")))
			if err := c.do(t.Context(), s); err == nil && c.name != "written" {
				t.Error("no error")
			}
			if sent.Load() > mostSent {
				t.Errorf("%d MiB were read", sent.Load()>>20)
			}
		})
	}
}

// ranged answers for an object of a size; its body comes from the test.
func ranged(size int64, body func(w http.ResponseWriter, first, last int64)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var first, last int64
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &first, &last); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, size))
		w.Header().Set("ETag", `"one"`)
		body(w, first, last)
	})
}

// TestLyingBodies reads bodies that are longer, shorter or slower than the answer says.
func TestLyingBodies(t *testing.T) {
	const size = 1 << 20
	for _, c := range []struct {
		name string
		body func(w http.ResponseWriter, first, last int64, sent *atomic.Int64)
		ok   bool
		most int64 // requests
	}{
		{"without end", func(w http.ResponseWriter, _, _ int64, sent *atomic.Int64) {
			w.WriteHeader(http.StatusPartialContent)
			endless(w, sent, "")
		}, true, 4},
		{"one byte per answer", func(w http.ResponseWriter, _, _ int64, _ *atomic.Int64) {
			w.Header().Set("Content-Length", "1")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, "a")
		}, false, maxTries + 2},
		{"nothing", func(w http.ResponseWriter, _, _ int64, _ *atomic.Int64) {
			w.Header().Set("Content-Length", "0")
			w.WriteHeader(http.StatusPartialContent)
		}, false, maxTries + 2},
		{"a trickle", func(w http.ResponseWriter, first, last int64, _ *atomic.Int64) {
			w.WriteHeader(http.StatusPartialContent)
			for ; first <= last; first++ {
				if _, err := io.WriteString(w, "a"); err != nil {
					return
				}
				w.(http.Flusher).Flush()
				time.Sleep(20 * time.Millisecond)
			}
		}, false, maxTries + 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var sent, asked atomic.Int64
			server := httptest.NewServer(ranged(size, func(w http.ResponseWriter, first, last int64) {
				asked.Add(1)
				c.body(w, first, last, &sent)
			}))
			defer server.Close()
			s := storage(t, nil)
			s.silence = 200 * time.Millisecond
			if c.ok {
				s.silence = time.Minute
			}
			f, err := s.Open(t.Context(), server.URL+"/a")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got, err := io.ReadAll(f)
			if c.ok != (err == nil) || c.ok && len(got) != size {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if asked.Load() > c.most || sent.Load() > mostSent {
				t.Errorf("%d requests, %d MiB", asked.Load(), sent.Load()>>20)
			}
		})
	}
}

// TestRedirectedStorage: S3's requests are signed for one host, so no other one is asked, whatever the answer says.
func TestRedirectedStorage(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("x-amz-bucket-region", "nowhere-1")
				http.Redirect(w, r, other.URL+"/a", status)
			}))
			s := storage(t, objectstest.Environment(strings.TrimPrefix(server.URL, "http://")))
			if _, err := s.Open(t.Context(), inBucket("a")); err == nil {
				t.Errorf("%d: opened", status)
			}
			if err := s.Write(t.Context(), inBucket("a"), strings.NewReader("x"), 1); err == nil {
				t.Errorf("%d: written", status)
			}
			server.Close()
		})
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("another host was asked %d times", n)
	}
}

// TestEchoedCredentials: if a server repeats all that it was sent, in each place that an answer has, no error shows the
// credentials.
func TestEchoedCredentials(t *testing.T) {
	token := "hf_" + strings.Repeat("aB3dE5", 6)
	session := "session/" + strings.Repeat("xYz9+", 8)
	env := objectstest.Environment("")
	env["AWS_SESSION_TOKEN"], env["HF_TOKEN"] = session, token
	for name, echo := range map[string]func(w http.ResponseWriter, text string){
		"etag": func(w http.ResponseWriter, text string) {
			w.Header().Set("ETag", `"`+text+`"`)
			w.Header().Set("Content-Range", "bytes 0-0/1000")
			w.Header().Set("Content-Length", "1")
			w.WriteHeader(http.StatusPartialContent)
		},
		"size":  func(w http.ResponseWriter, text string) { w.Header().Set("Content-Range", "bytes 0-0/"+text) },
		"error": func(w http.ResponseWriter, text string) { http.Error(w, text, http.StatusBadRequest) },
		"status line": func(w http.ResponseWriter, text string) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				fmt.Fprintf(c, "HTTP/1.1 400 %s\r\n\r\n", text)
				c.Close()
			}
		},
		"no answer": func(w http.ResponseWriter, text string) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				fmt.Fprintf(c, "%s\r\n\r\n", text)
				c.Close()
			}
		},
		"location": func(w http.ResponseWriter, text string) {
			w.Header().Set("Location", "http://127.0.0.1:1/?t="+text)
			w.WriteHeader(http.StatusFound)
		},
		"headers of errors": func(w http.ResponseWriter, text string) {
			w.Header().Set("X-Minio-Error-Code", text)
			w.Header().Set("X-Minio-Error-Desc", text)
			w.WriteHeader(http.StatusBadRequest)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				auth := r.Header.Get("Authorization")
				echo(w, auth+" "+r.Header.Get("X-Amz-Security-Token")+" "+objectstest.Secret+" "+
					base64.StdEncoding.EncodeToString([]byte(token)))
			}))
			defer server.Close()
			env["AWS_ENDPOINT_URL"], env["HF_ENDPOINT"] = server.URL, server.URL
			s := storage(t, env)
			for _, path := range []string{inBucket("a"), "hf://datasets/acme/traces/a.jsonl"} {
				info, err := s.Stat(t.Context(), path)
				text := fmt.Sprint(info, err)
				coded := base64.StdEncoding.EncodeToString([]byte(token))
				for _, hidden := range []string{token, session, objectstest.ID, objectstest.Secret, coded} {
					if strings.Contains(text, hidden) {
						t.Errorf("%s: %q in %s", path, hidden, text)
					}
				}
				var known *Error
				if err != nil && !errors.As(err, &known) {
					t.Errorf("%T", err)
				}
			}
		})
	}
}
