package httpclient

import (
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func client(t *testing.T, o Options) *Client {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	o.ConnectTimeout, o.Backoff = 5*time.Second, time.Millisecond
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// caFile returns a file with the server's certificate.
func caFile(t *testing.T, s *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(s.Close)
	ca := caFile(t, s)
	req := Request{Op: "ask", Method: http.MethodGet, Path: "/"}
	_, err := client(t, Options{Base: s.URL}).Do(t.Context(), req)
	var e *Error
	if !errors.As(err, &e) || e.Fault != Local || e.Unsettled || !strings.Contains(err.Error(), "tls.ca_file") {
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

// TestNoTokenWithoutVerification checks that nothing that could prove who we are is sent to a server whose certificate
// isn't checked.
func TestNoTokenWithoutVerification(t *testing.T) {
	skip := TLS{InsecureSkipVerify: true}
	for _, o := range []Options{
		{Base: "https://host", TLS: skip, Token: "t0ken"},
		{Base: "https://user:password@host", TLS: skip},
		{Base: "https://token@host", TLS: skip},
		{Base: "http://host", TLS: skip, Secrets: []string{"", "wandb"}},
	} {
		t.Run(o.Base, func(t *testing.T) {
			if _, err := New(o); err == nil || !strings.Contains(err.Error(), "tls.ca_file") {
				t.Errorf("%s: %v", o.Base, err)
			}
		})
	}
}

// seen is what was sent to a server.
type seen struct {
	method string
	header http.Header
	body   string
}

func recorder(t *testing.T, start func(http.Handler) *httptest.Server) (*httptest.Server, func() []seen) {
	t.Helper()
	var mu sync.Mutex
	var all []seen
	s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		all = append(all, seen{r.Method, r.Header.Clone(), string(b)})
		mu.Unlock()
		fmt.Fprint(w, `{"id": "made"}`)
	}))
	t.Cleanup(s.Close)
	return s, func() []seen { mu.Lock(); defer mu.Unlock(); return all }
}

// TestRedirects covers twelve ways to be redirected - to another port, host or scheme, by each of four kinds of
// redirect - for a GET and for the POST that creates a job. No other server sees a request, let alone a token.
func TestRedirects(t *testing.T) {
	other, got := recorder(t, httptest.NewServer)
	secure, gotSecure := recorder(t, httptest.NewTLSServer)
	places := map[string]string{
		"another port":   other.URL,
		"another host":   strings.Replace(other.URL, "127.0.0.1", "localhost", 1),
		"another scheme": secure.URL,
	}
	for name, to := range places {
		t.Run(name, func(t *testing.T) {
			for _, status := range []int{
				http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect,
				http.StatusPermanentRedirect,
			} {
				for _, method := range []string{http.MethodGet, http.MethodPost} {
					var asked atomic.Int32
					s := serve(t, func(w http.ResponseWriter, r *http.Request) {
						asked.Add(1)
						http.Redirect(w, r, to+"/elsewhere", status)
					})
					c := client(t, Options{
						Base:    strings.Replace(s.URL, "://", "://user:pass-word@", 1),
						Token:   "t0ken-t0ken",
						Secrets: []string{"wandb-key"},
					})
					req := Request{
						Op:       "send",
						Method:   method,
						Path:     "/",
						Tries:    3,
						Harmless: true,
						Header:   http.Header{"Wandb-Api-Key": {"wandb-key"}},
					}
					if method == http.MethodPost {
						req.Body = Bytes{"application/json", []byte(`{"a": 1}`)}
					}
					_, err := c.Do(t.Context(), req)
					var e *Error
					if !errors.As(err, &e) || e.Fault != Local || e.Unsettled ||
						!strings.Contains(err.Error(), "redirected to "+to) ||
						strings.Contains(err.Error(), "pass-word") {
						t.Errorf("%s by %d for a %s: %v", name, status, method, err)
					}
					if asked.Load() != 1 {
						t.Errorf("%s by %d for a %s: asked %d times", name, status, method, asked.Load())
					}
				}
			}
		})
	}
	if n := len(got()) + len(gotSecure()); n > 0 {
		t.Errorf("%d requests reached another server: %v", n, append(got(), gotSecure()...))
	}
}

// TestRedirectNeverChangesTheMethod checks that a 301, 302 or 303 doesn't turn a POST into a GET, whose page would be
// taken for data.
func TestRedirectNeverChangesTheMethod(t *testing.T) {
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				http.Redirect(w, r, "/page", status)
				return
			}
			t.Errorf("%s %s was asked for", r.Method, r.URL)
		})
		_, err := client(t, Options{Base: s.URL}).
			Do(t.Context(), Request{Op: "send", Method: http.MethodPost, Path: "/", Body: Bytes{Data: []byte("{}")}})
		if err == nil {
			t.Errorf("%d was followed", status)
		}
	}
}

// TestRedirectWithinTheService checks that it is followed, with everything.
func TestRedirectWithinTheService(t *testing.T) {
	var last seen
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			http.Redirect(w, r, "/there/", http.StatusPermanentRedirect)
			return
		}
		b, _ := io.ReadAll(r.Body)
		last = seen{r.Method, r.Header, string(b)}
	})
	_, err := client(t, Options{Base: s.URL, Token: "t0ken"}).
		Do(t.Context(), Request{Op: "send", Method: http.MethodPost, Path: "/", Body: Bytes{Data: []byte("{}")}})
	if err != nil || last.method != http.MethodPost || last.body != "{}" ||
		last.header.Get("Authorization") != "Bearer t0ken" || last.header.Get("Referer") != "" {
		t.Errorf("%+v, %v", last, err)
	}
	endless := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Path+"x", http.StatusTemporaryRedirect)
	})
	if _, err := client(t, Options{Base: endless.URL}).
		Do(t.Context(), Request{Op: "ask", Method: http.MethodGet, Path: "/"}); err == nil ||
		!strings.Contains(err.Error(), "more than 5 redirects") {
		t.Errorf("err = %v", err)
	}
}

// TestAnonymousRedirect checks that an upload to an address that the service provided may be redirected, without
// anything that identifies us.
func TestAnonymousRedirect(t *testing.T) {
	other, got := recorder(t, httptest.NewServer)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/bucket", http.StatusTemporaryRedirect)
	})
	_, err := client(t, Options{Base: s.URL, Token: "t0ken"}).Do(t.Context(), Request{
		Op: "upload", Method: http.MethodPut, Path: s.URL + "/upload?signature=x", Anonymous: true,
		Header: http.Header{"X-Amz-Meta": {"secret"}}, Body: Bytes{"text/plain", []byte("data")},
	})
	all := got()
	if err != nil || len(all) != 1 || all[0].body != "data" || all[0].header.Get("Content-Type") != "text/plain" {
		t.Fatalf("%v, %v", all, err)
	}
	for _, k := range []string{"Authorization", "X-Amz-Meta", "Referer"} {
		if v := all[0].header.Get(k); v != "" {
			t.Errorf("%s: %s", k, v)
		}
	}
}

// TestRedirectToPlainHTTP checks that a request over TLS is not redirected to plain text, even without a token.
func TestRedirectToPlainHTTP(t *testing.T) {
	other, got := recorder(t, httptest.NewServer)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/bucket", http.StatusTemporaryRedirect)
	}))
	t.Cleanup(s.Close)
	c := client(t, Options{Base: s.URL, TLS: TLS{InsecureSkipVerify: true}})
	_, err := c.Do(t.Context(), Request{
		Op: "upload", Method: http.MethodPut, Path: s.URL + "/upload", Anonymous: true,
		Body: Bytes{"text/plain", []byte("data")},
	})
	if err == nil || !strings.Contains(err.Error(), "redirected from https") || len(got()) > 0 {
		t.Errorf("%v, %v", err, got())
	}
}

// TestAnswerLimit checks that a response has a limit, counted after decompression, whatever it says about its length.
func TestAnswerLimit(t *testing.T) {
	const limit = 1 << 16
	var sent atomic.Int64
	endless := func(w http.ResponseWriter, r *http.Request) {
		z := io.Writer(w)
		if r.URL.Path == "/gzip" {
			w.Header().Set("Content-Encoding", "gzip")
			zw := gzip.NewWriter(w)
			defer zw.Close()
			z = zw
		}
		if r.URL.Path == "/long" {
			w.Header().Set("Content-Length", fmt.Sprint(int64(1)<<40))
		}
		if r.URL.Path == "/no" {
			w.WriteHeader(500)
		}
		block := []byte(strings.Repeat("a", 1<<14))
		for range 1 << 14 { // 256 MiB
			if _, err := z.Write(block); err != nil {
				return
			}
			sent.Add(int64(len(block)))
		}
	}
	s := serve(t, endless)
	for _, path := range []string{"/", "/gzip", "/long"} {
		for _, large := range []int{0, 1} {
			reply, err := client(t, Options{Base: s.URL, MaxAnswer: limit, Large: large}).
				Do(t.Context(), Request{Op: "ask", Method: http.MethodPost, Path: path, Tries: 3, Harmless: true})
			var e *Error
			if !errors.Is(err, ErrTooLong) || !errors.As(err, &e) || e.Fault != Unavailable || !e.Unsettled ||
				reply != nil || !strings.Contains(err.Error(), "longer than 65536 bytes") {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	reply, err := client(t, Options{Base: s.URL}).
		Do(t.Context(), Request{Op: "ask", Method: http.MethodPost, Path: "/no"})
	if err == nil || len(reply.Body) > maxRefusal || len(err.Error()) > 1000 {
		t.Errorf("err = %.2000v", err)
	}
	if sent.Load() > 128<<20 {
		t.Errorf("the servers could send %d bytes", sent.Load())
	}
	fits := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("a", limit)) })
	for _, large := range []int{0, 1} {
		if reply, err := client(t, Options{Base: fits.URL, MaxAnswer: limit, Large: large}).
			Do(t.Context(), Request{Op: "ask", Method: http.MethodGet, Path: "/"}); err != nil ||
			len(reply.Body) != limit {
			t.Errorf("an answer of just the limit: %v", err)
		}
	}
}

// TestLargeAnswersTakeTurns checks that only a limited number of large responses are held at once, and that small ones
// don't wait for them.
func TestLargeAnswersTakeTurns(t *testing.T) {
	const limit = 1 << 16
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := limit
		if r.URL.Path == "/small" {
			n = 100
		}
		fmt.Fprint(w, strings.Repeat("a", n))
	})
	c := client(t, Options{Base: s.URL, MaxAnswer: limit, Large: 2})
	ask := func(path string) *Reply {
		reply, err := c.Do(context.Background(), Request{Op: "ask", Method: http.MethodGet, Path: path})
		if err != nil {
			t.Error(err)
		}
		return reply
	}
	first, second := ask("/"), ask("/")
	third := make(chan *Reply)
	go func() { third <- ask("/") }()
	ask("/small").Close()
	select {
	case <-third:
		t.Fatal("a third large answer is held")
	case <-time.After(20 * time.Millisecond): // may miss a bug; below, the third must come
	}
	first.Close()
	first.Close() // frees one slot, not two
	(<-third).Close()
	second.Close()
	if len(c.large) != 0 {
		t.Errorf("%d slots are held", len(c.large))
	}
}

// TestTrickle checks that a response that arrives one byte at a time is abandoned.
func TestTrickle(t *testing.T) {
	release := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "{")
		w.(http.Flusher).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(release) })
	_, err := client(t, Options{Base: s.URL, Timeout: 50 * time.Millisecond}).
		Do(t.Context(), Request{Op: "ask", Method: http.MethodGet, Path: "/"})
	var e *Error
	if !errors.As(err, &e) || !e.Unsettled || !strings.Contains(err.Error(), "no answer within 50ms") {
		t.Errorf("err = %v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for v, want := range map[string]time.Duration{
		"": 0, "2": 2 * time.Second, "0.5": 500 * time.Millisecond, "-1": 0, "x": 0, "NaN": 0,
		"1e300": (1<<31 - 1) * time.Second, "+Inf": (1<<31 - 1) * time.Second,
		"Thu, 01 Jan 2026 00:01:00 GMT": time.Minute, "Wed, 31 Dec 2025 00:00:00 GMT": 0,
	} {
		t.Run(v, func(t *testing.T) {
			if got := retryAfter(v, now); got != want {
				t.Errorf("%q: got %s, want %s", v, got, want)
			}
		})
	}
}

// answers is a transport that returns responses from a list, without a network, so that a test's clock can replace the
// real one.
type answers struct {
	list []func() (*http.Response, error)
	n    int
}

func (a *answers) RoundTrip(req *http.Request) (*http.Response, error) {
	a.n++
	return a.list[min(a.n, len(a.list))-1]()
}

func status(code int, header http.Header) func() (*http.Response, error) {
	return func() (*http.Response, error) {
		return &http.Response{
			StatusCode:    code,
			Header:        header,
			Body:          io.NopCloser(strings.NewReader("{}")),
			ContentLength: 2,
		}, nil
	}
}

// TestPauses checks that between tries it waits as long as the service asks, within limits, and otherwise longer each
// time, never exactly the same.
func TestPauses(t *testing.T) {
	for _, c := range []struct {
		name        string
		header      http.Header
		least, most time.Duration
	}{
		{"none asked for", nil, 3500 * time.Millisecond, 7 * time.Second}, // 1 + 2 + 4, each halved at most
		{"seconds", http.Header{"Retry-After": {"10"}}, 30 * time.Second, 34 * time.Second},
		{"too long", http.Header{"Retry-After": {"590"}}, 3 * time.Minute, 3 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			lengths := map[time.Duration]bool{}
			for range 5 {
				synctest.Test(t, func(t *testing.T) {
					client, err := New(Options{Base: "http://host", Backoff: time.Second})
					if err != nil {
						t.Fatal(err)
					}
					transport := &answers{
						list: []func() (*http.Response,
							error){
							status(429, c.header), status(503, c.header), status(408, c.header), status(200, nil),
						},
					}
					client.http.Transport = transport
					start := time.Now()
					if _, err := client.Do(t.Context(), Request{
						Op:       "ask",
						Method:   http.MethodPost,
						Tries:    4,
						Harmless: true,
					}); err != nil {
						t.Error(err)
					}
					took := time.Since(start)
					if lengths[took] = true; took < c.least || took > c.most || transport.n != 4 {
						t.Errorf("%s: %d tries in %s", c.name, transport.n, took)
					}
				})
			}
			if c.most > c.least && len(lengths) < 2 {
				t.Errorf("%s: always %v", c.name, lengths)
			}
		})
	}
}

// TestAskedForLongPause checks that a service that asks for far more than the longest pause gets no second request.
func TestAskedForLongPause(t *testing.T) {
	for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, err := New(Options{Base: "http://host"})
				if err != nil {
					t.Fatal(err)
				}
				transport := &answers{
					list: []func() (*http.Response, error){status(code, http.Header{"Retry-After": {"86400"}})},
				}
				client.http.Transport = transport
				start := time.Now()
				_, err = client.Do(t.Context(), Request{Op: "ask", Method: http.MethodGet, Tries: 4, Harmless: true})
				if took := time.Since(start); took > 0 || transport.n != 1 {
					t.Errorf("%d requests in %s", transport.n, took)
				}
				if err == nil || !strings.Contains(err.Error(), "asks for a pause of 24h0m0s") {
					t.Errorf("err = %v", err)
				}
			})
		})
	}
}

// TestTries checks that what may have been carried out is only repeated if that does no harm.
func TestTries(t *testing.T) {
	for _, c := range []struct {
		code     int
		harmless bool
		want     int
	}{{500, false, 1}, {500, true, 3}, {429, false, 3}, {400, true, 1}, {401, true, 1}, {404, true, 1}} {
		t.Run(fmt.Sprint(c.code, " ", c.harmless), func(t *testing.T) {
			var asked atomic.Int32
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) { asked.Add(1); w.WriteHeader(c.code) })
			_, err := client(t, Options{Base: s.URL}).
				Do(t.Context(), Request{Op: "ask", Method: http.MethodPost, Tries: 3, Harmless: c.harmless})
			if err == nil || int(asked.Load()) != c.want {
				t.Errorf("%+v: %d tries, %v", c, asked.Load(), err)
			}
		})
	}
	var asked atomic.Int32
	s := serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	_, err := client(t, Options{Base: s.URL}).
		Do(t.Context(), Request{
			Op:       "ask",
			Method:   http.MethodGet,
			Tries:    2,
			Harmless: true,
			Check:    func(*Reply) error { return errors.New("incomplete") },
		})
	if err == nil || asked.Load() != 2 || !strings.Contains(err.Error(), "incomplete") {
		t.Errorf("%d tries, %v", asked.Load(), err)
	}
}

// TestRefusedConnection checks that a request that was certainly not carried out may be repeated, whatever it was.
func TestRefusedConnection(t *testing.T) {
	_, err := client(t, Options{Base: "http://127.0.0.1:1"}).
		Do(t.Context(), Request{Op: "create", Method: http.MethodPost, Path: "/", Tries: 2})
	var e *Error
	if !errors.As(err, &e) || e.Unsettled || e.Fault != Unavailable {
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
		"secret tok-1 and\x00control":                           `secret *** and\u0000control`,
	} {
		t.Run(body, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(400)
				_, _ = w.Write([]byte(body))
			}))
			_, err := client(t, Options{Base: s.URL, Token: "tok-1"}).
				Do(t.Context(), Request{Op: "ask", Method: http.MethodGet, Path: "/x?sig=1"})
			s.Close()
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sig=1") ||
				strings.ContainsFunc(err.Error(), unicode.IsControl) {
				t.Errorf("%q: %v", body, err)
			}
		})
	}
}

// TestEchoedToken checks that if a service repeats the token, in whatever form and with whatever status, it appears in
// no error.
func TestEchoedToken(t *testing.T) {
	const token, password = `to"k/en+1234567890`, "pa ss:wörd-1234"
	forms := []string{
		token, `to\"k/en+1234567890`, "to%22k%2Fen%2B1234567890", "dG8iay9lbisxMjM0NTY3ODkw", "to&#34;k/en+1234567890", password, "pa%20ss%3Aw%C3%B6rd-1234",
	}
	bodies := []func(string) string{
		func(f string) string { return "bad token: " + f },
		func(f string) string { return fmt.Sprintf(`{"detail": %q}`, "your header was Bearer "+f) },
		func(f string) string { return "<html><title>" + f + "</title>" },
		func(f string) string { return strings.Repeat("x", 290) + " " + f }, // cut in the middle of it
		func(f string) string { return strings.Repeat(" ", 1990) + f },
		func(f string) string { return "{" + f },
	}
	for _, code := range []int{200, 400, 401, 404, 429, 500} {
		for _, f := range forms {
			for i, body := range bodies {
				s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(code)
					fmt.Fprint(w, body(f))
				}))
				c := client(t, Options{
					Base:  strings.Replace(s.URL, "://", "://user:pa%20ss%3Aw%C3%B6rd-1234@", 1),
					Token: token,
				})
				reply, err := c.Do(t.Context(), Request{Op: "ask", Method: http.MethodGet, Path: "/"})
				if err == nil {
					err = reply.JSON(new(map[string]int))
				}
				s.Close()
				if err == nil {
					t.Fatal("no error")
				}
				for _, part := range []string{f, f[:8], f[len(f)-8:]} {
					if strings.Contains(err.Error(), part) {
						t.Errorf("%d, body %d: %q is in %v", code, i, part, err)
					}
				}
			}
		}
	}
}
