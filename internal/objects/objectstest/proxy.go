package objectstest

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Proxy is a proxy in front of a server. It injects the faults of networks and busy servers.
type Proxy struct {
	Address string

	server string
	mu     sync.Mutex
	rng    *rand.Rand
	rate   float64
	faults map[string]int
	// Before is called before each request without a fault; if it returns true, the request is not forwarded.
	Before func(w http.ResponseWriter, r *http.Request) bool
}

// The kinds of fault.
var kinds = []string{"dropped", "slow", "status 500", "503 SlowDown", "cut", "answer lost"}

// NewProxy starts a proxy that injects faults into a share of the requests, which are chosen using the seed.
func NewProxy(t testing.TB, server string, seed uint64, rate float64) *Proxy {
	t.Helper()
	p := &Proxy{server: server, rng: rand.New(rand.NewPCG(seed, 1)), rate: rate, faults: map[string]int{}}
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	p.Address = strings.TrimPrefix(s.URL, "http://")
	return p
}

// Faults returns the number of faults of each kind.
func (p *Proxy) Faults() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.faults)
}

// draw picks a fault, or "" for none, and the share of the response or of the delay that it applies to.
func (p *Proxy) draw() (kind string, share float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rng.Float64() >= p.rate {
		return "", 0
	}
	kind = kinds[p.rng.IntN(len(kinds))]
	p.faults[kind]++
	return kind, p.rng.Float64()
}

func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, share := p.draw()
	if kind == "" && p.Before != nil && p.Before(w, r) {
		return
	}
	switch kind {
	case "dropped":
		panic(http.ErrAbortHandler)
	case "slow":
		time.Sleep(time.Duration(share * float64(50*time.Millisecond)))
	case "status 500":
		http.Error(w, "<html>Internal Server Error</html>", http.StatusInternalServerError)
		return
	case "503 SlowDown":
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, "<Error><Code>SlowDown</Code><Message>Please reduce your request rate, %s %s</Message></Error>",
			ID, Secret)
		return
	}
	p.pass(w, r, kind, share)
}

// Lose forwards a request and loses the response.
func (p *Proxy) Lose(w http.ResponseWriter, r *http.Request) { p.pass(w, r, "answer lost", 0) }

func (p *Proxy) pass(w http.ResponseWriter, r *http.Request, kind string, share float64) {
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if kind == "cut" && len(sent) > 0 {
		panic(http.ErrAbortHandler) // the server doesn't receive the end of the data, and so writes nothing
	}
	to := r.Clone(r.Context())
	to.URL.Scheme, to.URL.Host, to.Host, to.RequestURI = "http", p.server, r.Host, ""
	to.Body, to.ContentLength = io.NopCloser(bytes.NewReader(sent)), int64(len(sent))
	if len(sent) == 0 {
		to.Body = http.NoBody
	}
	resp, err := passing.RoundTrip(to)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || kind == "answer lost" {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), resp.Header)
	if r.Method != http.MethodHead {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	}
	w.WriteHeader(resp.StatusCode)
	if kind == "cut" {
		_, _ = w.Write(body[:int(share*float64(len(body)))])
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(body)
}

var passing = &http.Transport{DisableKeepAlives: true, DisableCompression: true}
