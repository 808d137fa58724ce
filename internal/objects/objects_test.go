package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nat-go/nat-go/internal/objects/objectstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// storage connects to a server with short pauses between tries.
func storage(t *testing.T, env map[string]string) *Storage {
	t.Helper()
	s := New(func(name string) string { return env[name] })
	s.pause = time.Millisecond
	t.Cleanup(s.Close)
	return s
}

// noise returns data that doesn't repeat.
func noise(n int) []byte {
	data := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(data)
	return data
}

func inBucket(key string) string { return "s3://" + objectstest.Bucket + "/" + key }

func noSecret(t *testing.T, text string) {
	t.Helper()
	if strings.Contains(text, objectstest.Secret) || strings.Contains(text, objectstest.ID) {
		t.Errorf("a credential is shown: %s", text)
	}
}

// TestThroughFaults writes and reads through a proxy that corrupts a third of the requests and checks that every byte
// arrives exactly once.
func TestThroughFaults(t *testing.T) {
	objectstest.Each(t, func(t *testing.T, server *objectstest.Server) {
		p := objectstest.NewProxy(t, server.Address, 1, 0.35)
		s := storage(t, objectstest.Environment(p.Address))
		ctx := t.Context()
		data := noise(11 << 20)

		for i := range 12 {
			key := fmt.Sprintf("data/%d", i)
			part := int64(5 << 20)
			if i > 0 {
				part, data = maxPut, data[:300<<10+i]
			}
			if err := s.write(ctx, inBucket(key), bytes.NewReader(data), int64(len(data)), part); err != nil {
				noSecret(t, err.Error())
				t.Fatal(err)
			}
			if got := server.Get(t, key); !bytes.Equal(got, data) {
				t.Fatalf("%s: %d bytes were written, others came", key, len(data))
			}
			f, err := s.Open(ctx, inBucket(key))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(f)
			if err != nil || !bytes.Equal(got, data) {
				t.Fatalf("%s: read %d of %d bytes: %v", key, len(got), len(data), err)
			}
			readPlaces(t, f, data)
			f.Close()
		}
		for kind, n := range p.Faults() {
			t.Logf("%s: %d", kind, n)
		}
		if len(p.Faults()) < 6 {
			t.Errorf("not every fault happened: %v", p.Faults())
		}
	})
}

// TestLostCompletion: if the answer to the completion of an upload is lost, once or several times, the object exists,
// and the writer finds that out: also from storage that no longer knows a completed upload, as S3 does after a while.
func TestLostCompletion(t *testing.T) {
	objectstest.Each(t, func(t *testing.T, server *objectstest.Server) {
		for name, c := range map[string]struct {
			lost   int64
			forget bool
		}{"once": {1, false}, "three times": {3, false}, "forgotten": {1, true}, "forgotten later": {3, true}} {
			t.Run(name, func(t *testing.T) {
				p := objectstest.NewProxy(t, server.Address, 1, 0)
				var ends atomic.Int64
				p.Before = func(w http.ResponseWriter, r *http.Request) bool {
					if r.Method != http.MethodPost || !r.URL.Query().Has("uploadId") {
						return false
					}
					if ends.Add(1) <= c.lost {
						p.Lose(w, r)
					}
					if c.forget {
						w.WriteHeader(http.StatusNotFound)
						_, _ = io.WriteString(w, "<Error><Code>NoSuchUpload</Code></Error>")
					}
					return c.forget
				}
				s, data, key := storage(t, objectstest.Environment(p.Address)), noise(11<<20), "lost/"+name
				err := s.write(t.Context(), inBucket(key), bytes.NewReader(data), int64(len(data)), 5<<20)
				if err != nil {
					t.Fatal(err)
				}
				if ends.Load() <= 1 {
					t.Error("nothing was tested: no answer was lost")
				}
				if !bytes.Equal(server.Get(t, key), data) {
					t.Error("the object has other bytes")
				}
			})
		}
	})
}

// TestUnknownUpload: an upload that the storage doesn't know is an error, even if an object of that size exists, but
// has other content.
func TestUnknownUpload(t *testing.T) {
	server := objectstest.Moto(t)
	p := objectstest.NewProxy(t, server.Address, 1, 0)
	p.Before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || !r.URL.Query().Has("uploadId") {
			return false
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<Error><Code>NoSuchUpload</Code></Error>")
		return true
	}
	s, data := storage(t, objectstest.Environment(p.Address)), noise(11<<20)
	server.Put(t, "unknown", make([]byte, len(data)))
	err := s.write(t.Context(), inBucket("unknown"), bytes.NewReader(data), int64(len(data)), 5<<20)
	if err == nil {
		t.Error("an upload that was never completed was reported as written")
	}
}

// readPlaces reads at several offsets, and sequentially from one.
func readPlaces(t *testing.T, f *File, data []byte) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		at := rng.IntN(len(data))
		b := make([]byte, min(rng.IntN(2*block), len(data)-at))
		if _, err := f.ReadAt(b, int64(at)); err != nil || !bytes.Equal(b, data[at:at+len(b)]) {
			t.Fatalf("at %d: %v", at, err)
		}
	}
	at := len(data) - 1000
	f.GoTo(int64(at))
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, data[at:]) {
		t.Fatalf("from %d on: %v", at, err)
	}
	if n, err := f.ReadAt(make([]byte, 10), f.Size-4); n != 4 || !errors.Is(err, io.EOF) {
		t.Errorf("across the end: %d bytes, %v", n, err)
	}
}

// TestChangedObjectIsRefused overwrites an object while it is being read: no read mixes two states.
func TestChangedObjectIsRefused(t *testing.T) {
	objectstest.Each(t, func(t *testing.T, server *objectstest.Server) {
		s := storage(t, objectstest.Environment(server.Address))
		data := noise(3 << 20)
		for _, size := range []int{len(data), len(data) - 1} {
			server.Put(t, "a", data)
			f, err := s.Open(t.Context(), inBucket("a"))
			if err != nil {
				t.Fatal(err)
			}
			f.GoTo(1 << 20)
			other := append(bytes.Clone(data[:size-1]), 'x')
			server.Put(t, "a", other)
			_, err = io.ReadAll(f)
			if !errors.Is(err, errChanged) || !strings.Contains(err.Error(), "changed while it was read") {
				t.Errorf("reading on: %v", err)
			}
			if _, err := f.ReadAt(make([]byte, 1), 5); !errors.Is(err, errChanged) {
				t.Errorf("reading at an offset: %v", err)
			}
			f.Close()
		}
	})
}

// TestCreate writes the same manifest twice, and checks that a different one is refused in its place.
func TestCreate(t *testing.T) {
	objectstest.Each(t, func(t *testing.T, server *objectstest.Server) {
		p := objectstest.NewProxy(t, server.Address, 3, 0.3)
		s := storage(t, objectstest.Environment(p.Address))
		for i := range 10 {
			key := fmt.Sprintf("run/%d/manifest.json", i)
			for range 2 {
				if err := s.Create(t.Context(), inBucket(key), []byte("one")); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Create(t.Context(), inBucket(key), []byte("two")); !errors.Is(err, fs.ErrExist) {
				t.Errorf("a different one was written over it: %v", err)
			}
			if got := server.Get(t, key); string(got) != "one" {
				t.Errorf("%s is there", got)
			}
		}
		if keys := server.Keys(t, "run/"); len(keys) != 10 {
			t.Errorf("there are %v", keys)
		}
	})
}

// TestCreateNeedsConditions refuses storage that overwrites existing objects although it was asked not to.
func TestCreateNeedsConditions(t *testing.T) {
	server := objectstest.Moto(t)
	for name, before := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"ignored": func(_ http.ResponseWriter, r *http.Request) bool {
			r.Header.Del("If-None-Match")
			return false
		},
		"not implemented": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(http.StatusNotImplemented)
				return true
			}
			return false
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := objectstest.NewProxy(t, server.Address, 1, 0)
			p.Before = before
			s := storage(t, objectstest.Environment(p.Address))
			for range 2 {
				err := s.Create(t.Context(), inBucket("never"), []byte("x"))
				if err == nil || !strings.Contains(err.Error(), "doesn't honour If-None-Match") {
					t.Errorf("it was written: %v", err)
				}
			}
			if keys := server.Keys(t, "never"); keys != nil {
				t.Errorf("left behind: %v", keys)
			}
		})
	}
}

// TestErrors checks that errors are written for people, and contain no secret.
func TestErrors(t *testing.T) {
	server := objectstest.Moto(t)
	denied := func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "<Error><Code>SignatureDoesNotMatch</Code><Message>%s %s</Message></Error>",
			objectstest.ID, objectstest.Secret)
		return true
	}
	busy := func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, "<Error><Code>SlowDown</Code><Message>%s</Message></Error>", objectstest.Secret)
		return true
	}
	for _, c := range []struct {
		name   string
		path   string
		before func(http.ResponseWriter, *http.Request) bool
		says   []string
		is     error
	}{
		{"missing", inBucket("missing"), nil, []string{"there is no such object"}, fs.ErrNotExist},
		{"no bucket", "s3://otherbucket/key", nil, []string{"there is no such object"}, fs.ErrNotExist},
		{"denied", inBucket("a"), denied, []string{"status 403", "Check the credentials"}, fs.ErrPermission},
		{"busy", inBucket("a"), busy, []string{"status 503"}, nil},
		{"pattern", inBucket("*.jsonl"), nil, []string{"patterns are not supported", "Name each object"}, nil},
		{"folder", inBucket("a/"), nil, []string{"names no object"}, nil},
		{"bucket", "s3://traces", nil, []string{"names no object"}, nil},
		{"dots", inBucket("../a"), nil, []string{"expected s3://BUCKET/KEY"}, nil},
		{"key in path", "s3://" + objectstest.ID + ":" + objectstest.Secret + "@b/a", nil, []string{"cred"}, nil},
		{
			"signed", "https://127.0.0.1/a?X-Amz-Signature=" + objectstest.Secret, nil,
			[]string{"https://127.0.0.1/a: the query"},
			nil,
		},
		{"plain http", "http://example.org/a", nil, []string{"Use https://"}, nil},
		{"hub", "hf://models/a/b/c", nil, []string{"data sets and buckets"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := objectstest.NewProxy(t, server.Address, 1, 0)
			p.Before = c.before
			_, err := storage(t, objectstest.Environment(p.Address)).Open(t.Context(), c.path)
			if err == nil {
				t.Fatal("no error")
			}
			noSecret(t, err.Error())
			for _, text := range c.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%v: has no %q", err, text)
				}
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v is not %v", err, c.is)
			}
		})
	}
}

// TestWeb reads from a web server: with ranges, without, and where another host holds the file.
func TestWeb(t *testing.T) {
	data := noise(1 << 20)
	var asked, cut atomic.Int64
	var token atomic.Value
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token.Store(r.Header.Get("Authorization"))
		if asked.Add(1)%3 == 2 {
			w = &cutting{ResponseWriter: w, left: 1 << 18}
			cut.Add(1)
		}
		w.Header().Set("ETag", `"one"`)
		http.ServeContent(w, r, "", time.Unix(1, 0), bytes.NewReader(data))
	}))
	defer elsewhere.Close()
	var first atomic.Value
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first.Store(r.URL.Path + " " + r.Header.Get("Authorization"))
		http.Redirect(w, r, elsewhere.URL+"/blob", http.StatusFound)
	}))
	defer hub.Close()
	// Addresses that differ only in the port are other hosts when it comes to the token.
	s := storage(t, map[string]string{"HF_ENDPOINT": hub.URL, "HF_TOKEN": "hf_" + strings.Repeat("aB3dE5", 6)})
	for _, p := range []string{elsewhere.URL + "/a.jsonl", "hf://datasets/acme/traces@v1/data/a.jsonl"} {
		t.Run(p, func(t *testing.T) {
			f, err := s.Open(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(f)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s: %d bytes, %v", p, len(got), err)
			}
			f.Close()
		})
	}
	want := "/datasets/acme/traces/resolve/v1/data/a.jsonl Bearer hf_" + strings.Repeat("aB3dE5", 6)
	if got := first.Load(); got != want {
		t.Errorf("the hub was asked for %s", got)
	}
	if got := token.Load(); got != "" {
		t.Errorf("the token went elsewhere")
	}
	if cut.Load() == 0 {
		t.Error("nothing was cut")
	}
	err := s.Write(t.Context(), elsewhere.URL+"/a.jsonl", strings.NewReader("x"), 1)
	if err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("written: %v", err)
	}
}

// cutting closes the connection after some bytes.
type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left < 0 {
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(p)
}

// TestNoRanges refuses a server that can't continue from the middle, where that is needed.
func TestNoRanges(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5")
		_, _ = io.WriteString(w, "hello")
	}))
	defer server.Close()
	s := storage(t, nil)
	f, err := s.Open(t.Context(), server.URL+"/a")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); err != nil || string(b) != "hello" {
		t.Errorf("%q, %v", b, err)
	}
	f.GoTo(2)
	if _, err := io.ReadAll(f); err == nil || !strings.Contains(err.Error(), "serve a part of an object") {
		t.Errorf("%v", err)
	}
}

// TestSilence gives up on a body that stops arriving, and continues with another.
func TestSilence(t *testing.T) {
	data := noise(100_000)
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 2 {
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
			_, _ = w.Write(data[:5000])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}))
	defer server.Close()
	s := storage(t, nil)
	s.silence = 300 * time.Millisecond
	f, err := s.Open(t.Context(), server.URL+"/a")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestInterrupted checks that an operation ends with its context, however long the storage is busy.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		cancel()
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	s := storage(t, objectstest.Environment(strings.TrimPrefix(server.URL, "http://")))
	s.pause = time.Hour
	if _, err := s.Stat(ctx, inBucket("a")); err == nil {
		t.Error("no error")
	}
	if _, err := s.Stat(ctx, inBucket("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestCredentialsFile finds credentials in AWS's credentials file, and masks them as well.
func TestCredentialsFile(t *testing.T) {
	server := objectstest.Moto(t)
	file := t.TempDir() + "/credentials"
	text := "[work]\naws_access_key_id = " + objectstest.ID + "\naws_secret_access_key = " + objectstest.Secret + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var signed atomic.Bool
	p := objectstest.NewProxy(t, server.Address, 1, 0)
	p.Before = func(w http.ResponseWriter, r *http.Request) bool {
		signed.Store(strings.Contains(r.Header.Get("Authorization"), objectstest.ID))
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, "<Error><Code>Odd</Code><Message>%s</Message></Error>", objectstest.Secret)
		return true
	}
	s := storage(t, map[string]string{
		"AWS_SHARED_CREDENTIALS_FILE": file, "AWS_PROFILE": "work", "AWS_ENDPOINT_URL": "http://" + p.Address,
	})
	err := s.Write(t.Context(), inBucket("a"), strings.NewReader("x"), 1)
	if err == nil || !signed.Load() {
		t.Fatalf("signed: %t, %v", signed.Load(), err)
	}
	noSecret(t, err.Error())
	if !strings.Contains(err.Error(), "Odd") {
		t.Errorf("%v", err)
	}
}

// TestRedirectsThatLeadNowhere: a redirect to a file, to another protocol or in a circle is refused at once.
func TestRedirectsThatLeadNowhere(t *testing.T) {
	for _, to := range []string{
		"file:///etc/passwd", "gopher://127.0.0.1/x", "",
		"/datasets/acme/traces/resolve/v1/data/b.jsonl",
	} {
		t.Run(to, func(t *testing.T) {
			var asked atomic.Int32
			hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				target := to
				if to == "" {
					target = r.URL.Path
				}
				w.Header().Set("Location", target)
				w.WriteHeader(http.StatusFound)
			}))
			defer hub.Close()
			s := storage(t, map[string]string{"HF_ENDPOINT": hub.URL})
			_, err := s.Open(t.Context(), "hf://datasets/acme/traces@v1/data/a.jsonl")
			if err == nil || !strings.Contains(err.Error(), "redirect") || asked.Load() > maxHops+1 {
				t.Errorf("asked %d times: %v", asked.Load(), err)
			}
		})
	}
}
