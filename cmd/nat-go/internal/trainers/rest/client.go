package rest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
)

// MaxReply is the most bytes of an answer that are read.
const MaxReply = 8 << 20

// TLS says how a service proves who it is, and how we do. It is part of adapters' configs.
type TLS struct {
	CAFile             string `yaml:"ca_file" doc:"PEM file of the authorities that may sign the service's certificate; unset: the system's"`
	CertFile           string `yaml:"cert_file" validate:"required_with=KeyFile" doc:"PEM file of our own certificate, for services that ask for one"`
	KeyFile            string `yaml:"key_file" validate:"required_with=CertFile" doc:"PEM file of its key"`
	ServerName         string `yaml:"server_name" doc:"name the service's certificate is checked against, where it is not the host's"`
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify" default:"false" doc:"don't check the service's certificate at all; for tests only"`
}

// Options are the settings of a client.
type Options struct {
	Base           string // "https://host/prefix"; requests' paths are appended
	Token          string // bearer token; empty: no Authorization header is sent
	TLS            TLS
	ConnectTimeout time.Duration // for a connection
	Timeout        time.Duration // for an answer to be complete, counted from the last byte of the request that was taken
	Backoff        time.Duration // before the second try; doubles; 0: half a second
	Secrets        []string      // never shown in an error, even where the service repeats them
}

// Client makes requests to one host.
type Client struct {
	base    string
	token   string
	http    *http.Client
	timeout time.Duration
	backoff time.Duration
	secrets []string
}

// New makes a client. It makes no request.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.Base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q is no address of a service: it has to look like https://host or http://host:port/prefix", address(o.Base, o.Secrets))
	}
	conf, err := tlsConfig(o.TLS)
	if err != nil {
		return nil, err
	}
	c := &Client{base: strings.TrimRight(o.Base, "/"), token: o.Token, timeout: o.Timeout, backoff: o.Backoff}
	if c.backoff == 0 {
		c.backoff = 500 * time.Millisecond
	}
	for _, s := range append([]string{o.Token}, o.Secrets...) {
		if s != "" {
			c.secrets = append(c.secrets, s)
		}
	}
	c.secrets = append(c.secrets, Credentials(o.Base)...)
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: o.ConnectTimeout}).DialContext,
			TLSHandshakeTimeout: o.ConnectTimeout,
			TLSClientConfig:     conf,
			MaxIdleConnsPerHost: 2,
			IdleConnTimeout:     30 * time.Second,
			ForceAttemptHTTP2:   true,
		},
		CheckRedirect: redirect,
	}
	return c, nil
}

// Credentials lists the secrets in an address: what they become in a header, and the password or else the name, which alone is
// as a rule a token.
func Credentials(address string) []string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return nil
	}
	password, with := u.User.Password()
	header := base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
	if !with {
		return []string{header, u.User.Username()}
	}
	return []string{header, password}
}

// redirect follows a redirect that keeps the method, and shows another host nothing but the request itself.
func redirect(req *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case len(via) >= 5:
		return errors.New("more than 5 redirects")
	case req.Method != first.Method:
		return fmt.Errorf("redirected to %s://%s, which would lose the body of the request: use that address in the config", req.URL.Scheme, req.URL.Host)
	case first.URL.Scheme == "https" && req.URL.Scheme != "https":
		return fmt.Errorf("redirected from https to %s://%s", req.URL.Scheme, req.URL.Host)
	}
	if req.URL.Host != first.URL.Host {
		for k := range req.Header {
			if k != "Accept" && k != "Content-Type" && k != "User-Agent" {
				req.Header.Del(k)
			}
		}
	}
	return nil
}

func tlsConfig(t TLS) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.InsecureSkipVerify}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls.ca_file: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca_file: %s holds no PEM certificate", t.CAFile)
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("tls.cert_file: %w", err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Request is one request.
type Request struct {
	Op     string // what it is for: "create the job"
	Method string
	Path   string // "/v1/jobs", appended to the base as it stands; or a whole URL of another host
	Query  url.Values
	Header http.Header
	Body   Body // nil: none
	Accept string

	Anonymous bool  // no bearer token, even if there is one
	Tries     int   // how many in all; 0: one
	Harmless  bool  // doing it twice is the same as once
	OK        []int // statuses beside 2xx that are no error
}

// Body is a request body that can be sent more than once.
type Body interface {
	Type() string // content type
	Size() int64
	Open() (io.ReadCloser, error)
}

// Reply is an answer.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte

	url string
	op  string
	c   *Client
}

// Do makes the request, again where that is allowed and helps, and reads the whole answer.
func (c *Client) Do(ctx context.Context, req Request) (*Reply, error) {
	wait := c.backoff
	for try := 1; ; try++ {
		reply, err := c.once(ctx, req)
		var e *trainers.Error
		if err == nil || !errors.As(err, &e) || e.Fault != trainers.Unavailable || (e.Unsettled && !req.Harmless) || try >= req.Tries {
			return reply, err
		}
		pause := wait
		if e.RetryAfter > 0 {
			pause = min(e.RetryAfter, time.Minute)
		}
		if !sleep(ctx, pause) {
			return nil, err
		}
		wait = min(wait*2, 8*time.Second)
	}
}

func (c *Client) once(ctx context.Context, req Request) (*Reply, error) {
	target := req.Path
	if strings.HasPrefix(target, "/") {
		target = c.base + target
	}
	if len(req.Query) > 0 {
		target += "?" + req.Query.Encode()
	}
	op := fmt.Sprintf("%s (%s %s)", req.Op, req.Method, c.place(target))

	var sent atomic.Bool // whether the service may have seen the request
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	watch := time.AfterFunc(c.timeout, func() { cancel(errStalled) })
	defer watch.Stop()

	h, err := c.build(ctx, req, target, watch)
	if err != nil {
		return nil, &trainers.Error{Op: op, Why: c.clean(err.Error()), Fault: trainers.Local, Err: err}
	}
	resp, err := c.http.Do(h)
	if err != nil {
		return nil, c.failed(ctx, op, err, sent.Load())
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxReply+1))
	switch {
	case err != nil:
		return nil, c.failed(ctx, op, err, true)
	case len(body) > MaxReply:
		return nil, &trainers.Error{Op: op, Why: fmt.Sprintf("the answer is longer than %d MiB", MaxReply>>20), Fault: trainers.Unavailable, Unsettled: true}
	}
	reply := &Reply{Status: resp.StatusCode, Header: resp.Header, Body: body, url: target, op: op, c: c}
	if reply.Status/100 == 2 {
		return reply, nil
	}
	for _, s := range req.OK {
		if reply.Status == s {
			return reply, nil
		}
	}
	return reply, reply.refusal()
}

// errStalled is the cause of a request that was given up on.
var errStalled = errors.New("no answer in time")

func (c *Client) build(ctx context.Context, req Request, target string, watch *time.Timer) (*http.Request, error) {
	var body io.ReadCloser = http.NoBody
	if req.Body != nil {
		r, err := req.Body.Open()
		if err != nil {
			return nil, err
		}
		body = &watched{ReadCloser: r, watch: watch, timeout: c.timeout}
	}
	h, err := http.NewRequestWithContext(ctx, req.Method, target, body)
	if err != nil {
		body.Close()
		return nil, err
	}
	for k, v := range req.Header {
		h.Header[k] = v
	}
	if req.Body != nil {
		h.ContentLength = req.Body.Size()
		h.GetBody = func() (io.ReadCloser, error) {
			r, err := req.Body.Open()
			return &watched{ReadCloser: r, watch: watch, timeout: c.timeout}, err
		}
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
	if c.token != "" && !req.Anonymous {
		h.Header.Set("Authorization", "Bearer "+c.token)
	}
	return h, nil
}

// watched puts off the end of a request for as long as its body keeps being taken, so that an upload may take hours and a
// stalled one does not.
type watched struct {
	io.ReadCloser
	watch   *time.Timer
	timeout time.Duration
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if n > 0 {
		w.watch.Reset(w.timeout)
	}
	return n, err
}

// failed is the error of a request without a whole answer.
func (c *Client) failed(ctx context.Context, op string, err error, sent bool) error {
	why := c.clean(err.Error())
	var ue *url.Error
	if errors.As(err, &ue) {
		why = c.clean(ue.Err.Error())
	}
	e := &trainers.Error{Op: op, Why: why, Fault: trainers.Unavailable, Unsettled: sent, Err: err}
	switch {
	case errors.Is(context.Cause(ctx), errStalled):
		e.Why = fmt.Sprintf("no answer within %s", c.timeout)
		e.Err = errStalled
	case ctx.Err() != nil:
		e.Why, e.Err = "interrupted", context.Cause(ctx)
	case isCertificate(err):
		e.Fault, e.Unsettled = trainers.Local, false
		e.Fix = "set tls.ca_file to the authority that signed the service's certificate"
	case !sent:
		e.Fix = "check the address and that the service is up"
	}
	return e
}

func isCertificate(err error) bool {
	var ce *tls.CertificateVerificationError
	return errors.As(err, &ce)
}

// address is what was given as one, without credentials.
func address(s string, secrets []string) string {
	if at := strings.LastIndex(s, "@"); at >= 0 {
		s = "***" + s[at:]
	}
	return scrub(s, secrets)
}

// place is a URL fit to be shown: without credentials and without a query, which may hold a signature.
func (c *Client) place(target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return c.clean(target)
	}
	u.User, u.RawQuery = nil, ""
	return c.clean(u.String())
}

// clean takes the secrets out of a text.
func (c *Client) clean(s string) string { return scrub(s, c.secrets) }

// Scrub makes a text that came from the service fit to be shown: without the client's secrets, and without what would steer a
// terminal.
func (c *Client) Scrub(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, c.clean(s))
}

func scrub(s string, secrets []string) string {
	for _, secret := range secrets {
		if secret == "" {
			continue
		}
		s = strings.ReplaceAll(s, secret, "***")
		if esc := url.QueryEscape(secret); esc != secret {
			s = strings.ReplaceAll(s, esc, "***")
		}
	}
	return s
}

// sleep waits, and says whether it waited to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
