package teacher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	wire "github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Options of a Client. Zero values take the defaults in brackets.
type Options struct {
	Endpoint    string        // base URL of the server
	Protocol    string        // vllm, trl, sglang or atropos [vllm]
	Model       string        // name the server knows the model by; vllm needs it
	APIKey      string        // bearer token
	TopK        int           // [20]
	Concurrency int           // requests at once [8]
	Timeout     time.Duration // of one request [60s]
	Tries       int           // how often a request is made in all [5]
	Backoff     time.Duration // before the second try; doubles, with jitter [500ms]
	Store       string        // folder for answers; empty: they are not kept
	Vocabulary  Vocabulary    // what the ids mean
	Settled     func()        // told of each sequence that is scored or given up, from several goroutines at once; may be nil
}

// Vocabulary says what ids mean, so that a server of another one is found out before it does harm.
type Vocabulary struct {
	Fingerprint string  // of the tokenizer
	Size        int     // 0: unknown; above: ids beyond are refused
	Probes      []Probe // texts with their ids, compared with the server's
	Assume      bool    // believe a server that can't tokenise
}

// Probe is a text and its ids, without special tokens added.
type Probe struct {
	Text string
	IDs  []int32
}

// Limits of an answer.
const (
	maxAnswerBytes = 1 << 30 // a row of 100,000 tokens with 100 entries each is below
	maxErrorBytes  = 300
	maxPause       = 30 * time.Second
)

// Client scores sequences. It is safe for concurrent use.
type Client struct {
	o     Options
	p     *protocol
	base  string
	http  *http.Client
	store store
}

// New checks the options. It makes no request.
func New(o Options) (*Client, error) {
	if o.Protocol == "" {
		o.Protocol = "vllm"
	}
	if o.TopK == 0 {
		o.TopK = 20
	}
	if o.Concurrency == 0 {
		o.Concurrency = 8
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	if o.Tries == 0 {
		o.Tries = 5
	}
	if o.Backoff == 0 {
		o.Backoff = 500 * time.Millisecond
	}
	p := protocols[o.Protocol]
	u, err := url.Parse(o.Endpoint)
	switch {
	case p == nil:
		return nil, fmt.Errorf("teacher: there is no protocol %q: there are %s", o.Protocol, strings.Join(Protocols(), ", "))
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("teacher: the endpoint is no address of a server: it has to look like http://host:port") // it may hold a password
	case o.Protocol == "vllm" && o.Model == "":
		return nil, errors.New("teacher: vllm has to be told the model")
	case o.TopK < 1 || o.Concurrency < 1 || o.Tries < 1 || o.Timeout < 0 || o.Backoff < 0:
		return nil, fmt.Errorf("teacher: top_k %d, concurrency %d, %d tries: want 1 or above", o.TopK, o.Concurrency, o.Tries)
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: o.Concurrency, IdleConnTimeout: 30 * time.Second,
		DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext, TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true,
	}
	return &Client{
		o: o, p: p, base: strings.TrimRight(o.Endpoint, "/"), store: store{o.Store},
		http: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}, nil
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Fatal is an error that makes every further request pointless.
type Fatal struct{ Err error }

func (e *Fatal) Error() string { return e.Err.Error() }

// Unwrap returns what is the matter.
func (e *Fatal) Unwrap() error { return e.Err }

// refusal is an answer with another status than 200.
type refusal struct {
	status int
	pause  time.Duration // what the server asks us to wait
	text   string
}

func (e *refusal) Error() string {
	return fmt.Sprintf("the teacher answered %d %s: %s", e.status, http.StatusText(e.status), e.text)
}

// Result is the outcome for one sequence: scores, or a reason and an error.
type Result struct {
	Scores *Scores
	Reason ledger.Reason
	Err    error
}

// Check compares the server's vocabulary with ours. A server that can't tokenise has to be believed (Vocabulary.Assume).
func (c *Client) Check(ctx context.Context) error {
	v := c.o.Vocabulary
	if v.Assume {
		return nil
	}
	if c.p.tokenize == "" || len(v.Probes) == 0 {
		return &Fatal{fmt.Errorf("teacher: nothing shows that the %s server at %s has the vocabulary of the model to be trained: say so in the config if you know it", c.o.Protocol, c.place())}
	}
	for _, probe := range v.Probes {
		body, err := c.post(ctx, c.p.tokenize, encode(map[string]any{"model": c.o.Model, "prompt": probe.Text, "add_special_tokens": false}))
		var no *refusal
		switch {
		case errors.As(err, &no) && (no.status == http.StatusNotFound || no.status == http.StatusMethodNotAllowed):
			return &Fatal{fmt.Errorf("teacher: the server at %s does not tokenise, so nothing shows that it has the vocabulary of the model to be trained: say so in the config if you know it", c.place())}
		case err != nil:
			return err
		}
		list, ok := body.Get("tokens")
		if !ok || list.Kind() != wire.Array {
			return &Fatal{bad("%s gave no tokens", c.p.tokenize)}
		}
		var ids []int32
		for e := range list.Elements() {
			id, ok := e.Int64()
			if !ok || id < 0 || id > 1<<31-1 {
				return &Fatal{bad("%.40s is no token id", e)}
			}
			ids = append(ids, int32(id))
		}
		if !slices.Equal(ids, probe.IDs) {
			return &Fatal{fmt.Errorf("teacher: the server at %s has another vocabulary: %q is %v there and %v for the model to be trained", c.place(), probe.Text, ids, probe.IDs)}
		}
	}
	return nil
}

// Score scores one sequence, from the store where it was scored before.
func (c *Client) Score(ctx context.Context, s Sequence) (*Scores, error) {
	if s.From < 0 || s.From >= len(s.IDs)-1 {
		return nil, fmt.Errorf("teacher: scores from position %d of %d tokens are asked for, nothing is predicted there", s.From, len(s.IDs))
	}
	key := c.key(s)
	if scores, ok := c.store.get(key, s); ok {
		return scores, nil
	}
	body, err := c.post(ctx, c.p.path, encode(c.p.ask(&c.o, s)))
	var no *refusal
	switch {
	case errors.As(err, &no) && (no.status == http.StatusNotFound || no.status == http.StatusMethodNotAllowed):
		return nil, &Fatal{fmt.Errorf("teacher: %w (%s%s): check endpoint, protocol and model%s", err, c.place(), c.p.path, c.p.gone)}
	case err != nil:
		return nil, err
	}
	positions, err := c.p.answer(&c.o, s, body)
	if err != nil {
		return nil, err
	}
	scores, err := normalise(s, c.o.TopK, c.o.Vocabulary.Size, positions)
	if err != nil {
		return nil, err
	}
	return scores, c.store.put(key, s, scores)
}

// ScoreAll scores sequences, several at once, equal ones once. Results are in order. The error is of what makes all further
// requests pointless, or of the context.
func (c *Client) ScoreAll(ctx context.Context, all []Sequence) ([]Result, error) {
	results := make([]Result, len(all))
	first := map[string]int{}
	same := make([]int, len(all))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.o.Concurrency)
	for i, s := range all {
		key := c.key(s)
		if j, ok := first[key]; ok {
			same[i] = j
			continue
		}
		first[key], same[i] = i, i
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			scores, err := c.Score(ctx, s)
			if c.o.Settled != nil && ctx.Err() == nil {
				c.o.Settled()
			}
			results[i] = Result{Scores: scores, Err: err}
			if err == nil {
				return nil
			}
			results[i].Scores = nil
			var fatal *Fatal
			var answer *badAnswer
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.As(err, &fatal):
				return err
			case errors.As(err, &answer):
				results[i].Reason = ledger.TeacherBadAnswer
			default:
				results[i].Reason = ledger.TeacherUnavailable
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i, j := range same {
		results[i] = results[j]
	}
	return results, nil
}

// post makes a request, again where that may help, and parses the answer.
func (c *Client) post(ctx context.Context, path string, body []byte) (wire.Raw, error) {
	pause := c.o.Backoff
	for try := 1; ; try++ {
		answer, err := c.once(ctx, path, body)
		var no *refusal
		var unusable *badAnswer
		switch {
		case err == nil:
			return answer, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.As(err, &unusable):
			return nil, err
		case errors.As(err, &no) && (no.status == http.StatusUnauthorized || no.status == http.StatusForbidden):
			return nil, &Fatal{fmt.Errorf("teacher: %w: check api_key", err)}
		case errors.As(err, &no) && no.status != http.StatusTooManyRequests && no.status != http.StatusRequestTimeout && no.status < 500:
			return nil, err
		case try >= c.o.Tries:
			return nil, fmt.Errorf("%w (tried %d times)", err, try)
		}
		wait := pause/2 + rand.N(pause/2+1)
		if no != nil && no.pause > 0 {
			wait = no.pause
		}
		timer := time.NewTimer(min(wait, maxPause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
		pause = min(2*pause, maxPause)
	}
}

func (c *Client) once(ctx context.Context, path string, body []byte) (wire.Raw, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New(c.clean(err.Error()))
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "nat-go")
	if c.o.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+c.o.APIKey)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err // without the address, which may hold a password
		}
		return nil, fmt.Errorf("the teacher at %s gave no answer: %s", c.place(), c.clean(err.Error()))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
		no := &refusal{status: resp.StatusCode, text: c.clean(strings.ToValidUTF8(string(text), "?"))}
		if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 && s < 1<<20 {
			no.pause = time.Duration(s) * time.Second
		}
		return nil, no
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the teacher's answer broke off: %s", c.clean(err.Error()))
	case len(data) > maxAnswerBytes:
		return nil, bad("it is longer than %d bytes", maxAnswerBytes)
	}
	answer, err := wire.Parse(data, wire.Limits{Depth: 20, Size: maxAnswerBytes})
	if err != nil {
		return nil, bad("%s", err)
	}
	if answer.Kind() != wire.Object && answer.Kind() != wire.Array {
		return nil, bad("it is no JSON object")
	}
	return answer, nil
}

// place is the server's address without credentials.
func (c *Client) place() string {
	u, err := url.Parse(c.base)
	if err != nil {
		return "its address"
	}
	return u.Scheme + "://" + u.Host
}

func (c *Client) clean(text string) string {
	if c.o.APIKey != "" {
		text = strings.ReplaceAll(text, c.o.APIKey, "***")
	}
	return text
}
