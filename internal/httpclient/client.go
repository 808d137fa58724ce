package httpclient

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/internal/terminal"
)

// maxAnswer is the default limit on a response's size in bytes.
const maxAnswer = 8 << 20

// Options are the settings of a client.
type Options struct {
	Base           string // "https://host/prefix"; requests' paths are appended
	Token          string // bearer token; if empty, no Authorization header is sent
	TLS            TLS
	ConnectTimeout time.Duration // dial timeout; 0 means ten seconds
	// Timeout limits the time from the last request byte accepted to the end of the response; 0 means a minute.
	Timeout     time.Duration
	Backoff     time.Duration // delay before the second attempt, then doubled, with jitter; 0 means half a second
	MaxPause    time.Duration // longest pause between two attempts, even if the service asks for more; 0 means a minute
	MaxAnswer   int64         // maximum size of a decompressed response, in bytes; 0 means maxAnswer
	Connections int           // idle connections kept for later requests; 0 means two
	Secrets     []string      // values that must not appear in errors, in addition to Token and the secrets in Base

	// Large is the maximum number of concurrent responses larger than an eighth of MaxAnswer; others wait, with their
	// time limits suspended. A Reply counts until it is closed. 0 means no limit.
	Large int
}

// Client makes requests to one service. It is safe for concurrent use.
type Client struct {
	o       Options
	base    string
	http    *http.Client
	secrets *secret.Values
	large   chan struct{}
}

// New makes a client. It doesn't send any requests.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.Base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("invalid service address %q: expected https://host or http://host:port/prefix",
			address(o.Base, secret.NewValues(o.Secrets...)))
	}
	if o.TLS.InsecureSkipVerify &&
		(o.Token != "" || u.User != nil || slices.ContainsFunc(o.Secrets, func(s string) bool { return s != "" })) {
		return nil, errors.New("tls.insecure_skip_verify can't be combined with a token: " +
			"the token would go to any server that answers; " +
			"set tls.ca_file to the authority that signed the service's certificate")
	}
	conf, err := o.TLS.config()
	if err != nil {
		return nil, err
	}
	o.ConnectTimeout, o.Timeout = cmp.Or(o.ConnectTimeout, 10*time.Second), cmp.Or(o.Timeout, time.Minute)
	o.Backoff, o.MaxPause = cmp.Or(o.Backoff, 500*time.Millisecond), cmp.Or(o.MaxPause, time.Minute)
	o.MaxAnswer, o.Connections = cmp.Or(o.MaxAnswer, maxAnswer), cmp.Or(o.Connections, 2)
	c := &Client{
		o:       o,
		base:    strings.TrimRight(o.Base, "/"),
		secrets: secret.NewValues(append([]string{o.Token}, o.Secrets...)...),
	}
	c.secrets.AddAddress(o.Base)
	if o.Large > 0 {
		c.large = make(chan struct{}, o.Large)
	}
	transport := Transport(o.ConnectTimeout, o.Connections)
	transport.TLSClientConfig = conf
	c.http = &http.Client{Transport: transport, CheckRedirect: checkRedirect}
	return c, nil
}

// Transport returns a transport with a dial timeout and a limit on idle connections per host.
func Transport(connect time.Duration, kept int) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: connect}).DialContext,
		TLSHandshakeTimeout:    connect,
		MaxIdleConnsPerHost:    kept,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
		ForceAttemptHTTP2:      true,
	}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Request describes a request.
type Request struct {
	Op     string // purpose of the request: "create the job"
	Method string
	Path   string // "/v1/jobs", appended to the base unchanged; or a full URL supplied by the service
	Query  url.Values
	Header http.Header
	Body   Body // nil means none
	Accept string

	Anonymous bool  // don't send the bearer token; the request may then be redirected to another host
	Tries     int   // maximum number of attempts; 0 means one
	Harmless  bool  // the request is idempotent: sending it twice has the same effect as once
	OK        []int // statuses other than 2xx that are not errors
	// Check returns an error for an unusable response with a successful status, after which a Harmless request may be
	// repeated. It may be nil.
	Check func(*Reply) error
}

// patience is the maximum multiple of MaxPause for which the client waits at a service's request. If a service asks
// for more, such as a day, the client doesn't wait, because the run would seem to hang.
const patience = 10

// Do makes the request and reads the whole response. It retries the request if that is allowed and may help.
func (c *Client) Do(ctx context.Context, req Request) (*Reply, error) {
	wait := c.o.Backoff
	for try := 1; ; try++ {
		reply, err := c.once(ctx, req)
		var e *Error
		if err == nil || !errors.As(err, &e) || e.Fault != Unavailable || errors.Is(err, ErrTooLong) ||
			e.Unsettled && !req.Harmless || try >= req.Tries {
			return reply, err
		}
		if e.RetryAfter > patience*c.o.MaxPause {
			e.Fix = fmt.Sprintf("the service asks for a pause of %s: try again later", e.RetryAfter.Round(time.Second))
			return reply, err
		}
		pause := wait/2 + rand.N(wait/2+1) // random, so that clients don't retry simultaneously
		if e.RetryAfter > 0 {
			pause = e.RetryAfter + rand.N(wait/2+1)
		}
		if !Sleep(ctx, min(pause, c.o.MaxPause)) {
			return nil, err
		}
		wait = min(wait*2, c.o.MaxPause)
	}
}

// exchange is a single attempt at a request.
type exchange struct {
	c      *Client
	op     string
	target string
	sent   atomic.Bool // whether the service may have seen the request
	watch  *watch
}

func (c *Client) once(ctx context.Context, req Request) (*Reply, error) {
	target := req.Path
	if target == "" || strings.HasPrefix(target, "/") {
		target = c.base + target
	}
	if len(req.Query) > 0 {
		target += "?" + req.Query.Encode()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(c.o.Timeout, func() { cancel(errStalled) })
	x := &exchange{c: c, target: target, watch: &watch{timer: stalled, timeout: c.o.Timeout}}
	defer x.watch.stop()
	x.op = fmt.Sprintf("%s (%s %s)", req.Op, req.Method, c.place(target))
	traced := httptrace.WithClientTrace(ctx,
		&httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { x.sent.Store(true) }})

	h, err := x.build(traced, req)
	if err != nil {
		return nil, &Error{Op: x.op, Why: c.Scrub(err.Error()), Fault: Local, Err: err}
	}
	resp, err := c.http.Do(h)
	if err != nil {
		return nil, x.failed(ctx, err, x.sent.Load())
	}
	defer resp.Body.Close()
	reply := &Reply{Status: resp.StatusCode, Header: resp.Header, x: x}
	if err := reply.read(ctx, resp); err != nil {
		reply.Close()
		return nil, err
	}
	if reply.Status/100 != 2 && !slices.Contains(req.OK, reply.Status) {
		reply.Close()
		return reply, reply.refusal()
	}
	if req.Check != nil {
		if err := req.Check(reply); err != nil {
			reply.Close()
			return reply, x.broken(c.Scrub(err.Error()), err)
		}
	}
	return reply, nil
}

// errStalled is the cause with which a stalled request is cancelled.
var errStalled = errors.New("no answer within the time limit")

func (x *exchange) build(ctx context.Context, req Request) (*http.Request, error) {
	open := func() (io.ReadCloser, error) {
		r, err := req.Body.Open()
		return &watched{ReadCloser: r, watch: x.watch}, err
	}
	var body io.ReadCloser = http.NoBody
	if req.Body != nil {
		var err error
		if body, err = open(); err != nil {
			return nil, err
		}
	}
	h, err := http.NewRequestWithContext(ctx, req.Method, x.target, body)
	if err != nil {
		body.Close()
		return nil, err
	}
	maps.Copy(h.Header, req.Header)
	if req.Body != nil {
		h.ContentLength = req.Body.Size()
		h.GetBody = open
		if t := req.Body.Type(); t != "" {
			h.Header.Set("Content-Type", t)
		}
		if h.ContentLength == 0 {
			body.Close()
			h.Body, h.GetBody = http.NoBody, nil
		}
	}
	h.Header.Set("User-Agent", "nat-go")
	if req.Accept != "" {
		h.Header.Set("Accept", req.Accept)
	}
	switch {
	case req.Anonymous:
		*h = *h.WithContext(context.WithValue(h.Context(), anonymous{}, true))
	case x.c.o.Token != "":
		h.Header.Set("Authorization", "Bearer "+x.c.o.Token)
	}
	return h, nil
}

// anonymous marks the context of a request without credentials.
type anonymous struct{}

const maxRedirects = 5

// redirectError is a redirect that is not followed.
type redirectError string

func (e redirectError) Error() string { return string(e) }

func refuseRedirect(format string, args ...any) error {
	return redirectError(fmt.Sprintf(format, args...))
}

// checkRedirect decides whether to follow a redirect; see the package comment.
func checkRedirect(req *http.Request, via []*http.Request) error {
	first := via[0]
	req.Header.Del("Referer") // an address may contain a signature
	to := req.URL.Scheme + "://" + req.URL.Host
	switch {
	case len(via) > maxRedirects:
		return refuseRedirect("more than %d redirects", maxRedirects)
	case req.Method != first.Method:
		return refuseRedirect("redirected to %s as a %s, which would lose the request body: use that address in "+
			"the config", to, req.Method)
	case origin(req.URL) == origin(first.URL):
		return nil
	case first.Context().Value(anonymous{}) == nil:
		return refuseRedirect("redirected to %s, which is not followed: if the service is there, use that address", to)
	case first.URL.Scheme == "https" && req.URL.Scheme != "https":
		return refuseRedirect("redirected from https to %s", to)
	}
	for k := range req.Header {
		if !slices.Contains([]string{"Accept", "Content-Type", "User-Agent"}, k) {
			req.Header.Del(k)
		}
	}
	return nil
}

// origin returns scheme, host and port.
func origin(u *url.URL) string {
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// failed returns the error for a request without a complete response.
func (x *exchange) failed(ctx context.Context, err error, sent bool) error {
	c := x.c
	why := err
	if ue, ok := errors.AsType[*url.Error](err); ok {
		why = ue.Err // omit the address, which may contain credentials
	}
	e := &Error{Op: x.op, Why: c.Scrub(why.Error()), Fault: Unavailable, Unsettled: sent, Err: err}
	switch {
	case errors.Is(context.Cause(ctx), errStalled):
		e.Why, e.Err = fmt.Sprintf("no answer within %s", c.o.Timeout), errStalled
	case ctx.Err() != nil:
		e.Why, e.Err = "interrupted", context.Cause(ctx)
	case errors.As(err, new(*tls.CertificateVerificationError)):
		e.Fault, e.Unsettled = Local, false
		e.Fix = "set tls.ca_file to the authority that signed the service's certificate"
	case errors.As(err, new(redirectError)):
		e.Fault, e.Unsettled = Local, false // a redirected request was not carried out
	case !sent:
		e.Fix = "check the address and that the service is up"
	}
	return e
}

// broken returns the error for an unusable response.
func (x *exchange) broken(why string, err error) *Error {
	return &Error{Op: x.op, Why: why, Fault: Unavailable, Unsettled: true, Err: err}
}

// address returns an address, which may be invalid, without credentials.
func address(s string, secrets *secret.Values) string {
	if at := strings.LastIndex(s, "@"); at >= 0 {
		s = secret.Mask + s[at:]
	}
	return terminal.Line(secrets.Redact(s))
}

// place returns a URL for display: without credentials and without a query, which may contain a signature.
func (c *Client) place(target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return address(target, c.secrets)
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return c.Scrub(u.String())
}

// Place returns the service's address for display.
func (c *Client) Place() string { return c.place(c.base) }

// Scrub prepares text from the service for display on one line: without known or recognisable secrets, and without
// terminal control characters.
func (c *Client) Scrub(s string) string { return terminal.Line(secret.Shape(c.secrets.Redact(s))) }

// Sleep waits, and reports whether it waited for the full duration.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// read reads the response's body, up to the limit.
func (r *Reply) read(ctx context.Context, resp *http.Response) error {
	c, limit := r.x.c, r.x.c.o.MaxAnswer
	if resp.StatusCode/100 != 2 {
		limit = min(limit, maxRefusal)
	}
	tooLong := func() error {
		e := r.x.broken("the answer is longer than "+size(limit), ErrTooLong)
		e.Status = r.Status
		return e
	}
	if resp.ContentLength > limit && resp.StatusCode/100 == 2 {
		return tooLong()
	}
	small := limit
	if c.large != nil {
		small = limit / 8
	}
	text := pieces{in: resp.Body}
	err := text.read(small + 1)
	if err == nil && text.n > small && small < limit {
		if err := r.enlarge(ctx); err != nil {
			return err
		}
		err = text.read(limit + 1)
	}
	if err == nil && text.n > limit && resp.StatusCode/100 == 2 {
		return tooLong()
	}
	r.Body = text.join()
	switch {
	case err != nil:
		return r.x.failed(ctx, err, true)
	case int64(len(r.Body)) <= limit:
		return nil
	}
	r.Body, r.cut = r.Body[:limit], true
	return nil
}

// pieces collects data of unknown length in pieces. They are joined only once, at the end, because growing a buffer
// would produce twice as much garbage.
type pieces struct {
	in   io.Reader
	list [][]byte
	n    int64
}

// read reads until it has limit bytes in total or reaches the end.
func (p *pieces) read(limit int64) error {
	for p.n < limit {
		piece := make([]byte, 0, min(limit-p.n, max(4<<10, min(p.n, 1<<20))))
		var err error
		for err == nil && len(piece) < cap(piece) {
			var n int
			n, err = p.in.Read(piece[len(piece):cap(piece)])
			piece = piece[:len(piece)+n]
		}
		p.list, p.n = append(p.list, piece), p.n+int64(len(piece))
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *pieces) join() []byte {
	if len(p.list) == 1 {
		return p.list[0]
	}
	text := bytes.Join(p.list, nil)
	p.list = nil
	return text
}

// ErrTooLong is wrapped by the error for a response above the limit. Such a request is not repeated.
var ErrTooLong = errors.New("answer is too long")

func size(n int64) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}

// enlarge waits for a slot for a large response.
func (r *Reply) enlarge(ctx context.Context) error {
	r.x.watch.stop()
	defer r.x.watch.reset()
	select {
	case r.x.c.large <- struct{}{}:
		r.held = true
		return nil
	case <-ctx.Done():
		return r.x.failed(ctx, ctx.Err(), true)
	}
}
