package teacher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nat-go/nat-go/internal/httpclient"
	wire "github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Options configures a Client. Zero values mean the defaults in brackets.
type Options struct {
	// name of the teacher if there are several, so that their answers are stored separately; otherwise empty
	Name        string
	Endpoint    string        // base URL of the server
	Protocol    string        // vllm, trl, sglang or atropos [vllm]
	Model       string        // the model's name on the server; required by vllm
	APIKey      string        // bearer token
	TopK        int           // log-probs per token [20]
	Concurrency int           // concurrent requests [8]
	Timeout     time.Duration // per request [60s]
	Tries       int           // attempts per request in total [5]
	Backoff     time.Duration // delay before the second attempt; doubles, with jitter [500ms]
	MaxAnswer   int64         // maximum decompressed size of an answer in bytes [64 MiB]
	Store       string        // folder for answers; if empty, they are not stored
	Vocabulary  Vocabulary    // vocabulary that the ids belong to
	// Settled is called for each sequence that is scored or abandoned, possibly concurrently. It may be nil.
	Settled func()
}

// Vocabulary defines the tokens that ids identify. A server with a different vocabulary is detected before its scores
// are used.
type Vocabulary struct {
	Fingerprint string  // fingerprint of the tokenizer
	Size        int     // exclusive upper limit of ids; 0 means unknown
	Probes      []Probe // texts for which the server's ids must equal nat-go's
	Assume      bool    // trust the server's vocabulary without comparing ids
}

const (
	maxPause = 30 * time.Second
	// largeAnswers limits the total size in bytes of large answers in memory, regardless of the number of
	// concurrent requests.
	largeAnswers = 128 << 20
)

// Client scores sequences. It is safe for concurrent use.
type Client struct {
	o     Options
	p     *protocol
	http  *httpclient.Client
	store store
}

// New checks the options. It makes no requests.
func New(o Options) (*Client, error) {
	o.Protocol = cmp.Or(o.Protocol, "vllm")
	o.TopK = cmp.Or(o.TopK, 20)
	o.Concurrency = cmp.Or(o.Concurrency, 8)
	o.Timeout = cmp.Or(o.Timeout, time.Minute)
	o.Tries = cmp.Or(o.Tries, 5)
	o.Backoff = cmp.Or(o.Backoff, 500*time.Millisecond)
	o.MaxAnswer = cmp.Or(o.MaxAnswer, 64<<20)
	p := protocols[o.Protocol]
	switch {
	case p == nil:
		return nil, fmt.Errorf("teacher: unknown protocol %q: expected one of %s", o.Protocol,
			strings.Join(protocolNames(), ", "))
	case o.Protocol == "vllm" && o.Model == "":
		return nil, errors.New("teacher: missing model name: protocol vllm needs it")
	case o.TopK < 1 || o.Concurrency < 1 || o.Tries < 1 || o.Timeout < 0 || o.Backoff < 0:
		return nil, fmt.Errorf("teacher: invalid top_k %d, concurrency %d or tries %d: expected 1 or above", o.TopK,
			o.Concurrency, o.Tries)
	}
	client, err := httpclient.New(httpclient.Options{
		Base: o.Endpoint, Token: o.APIKey, Timeout: o.Timeout, Backoff: o.Backoff, MaxPause: maxPause,
		MaxAnswer: o.MaxAnswer, Large: int(max(1, largeAnswers/o.MaxAnswer)), Connections: o.Concurrency,
	})
	if err != nil {
		return nil, fmt.Errorf("teacher: invalid endpoint: %w", err)
	}
	return &Client{o: o, p: p, http: client, store: store{o.Store, o.MaxAnswer}}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.Close() }

// Fatal is an error that makes further requests pointless.
type Fatal struct{ Err error }

func (e *Fatal) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Fatal) Unwrap() error { return e.Err }

func fatal(format string, args ...any) error { return &Fatal{fmt.Errorf("teacher: "+format, args...)} }

// Result is the outcome for one sequence: scores, or a reason and an error.
type Result struct {
	Scores *Scores
	Each   []*Scores // for several teachers, the answer of each, in order
	Reason ledger.Reason
	Err    error
}

// Check compares the server's vocabulary with the model's, unless Vocabulary.Assume is set. It returns an error for a
// server that can't tokenise.
func (c *Client) Check(ctx context.Context) error {
	v := c.o.Vocabulary
	if v.Assume {
		return nil
	}
	if c.p.tokenize == "" || len(v.Probes) == 0 {
		return fatal("cannot confirm that the %s server at %s has the vocabulary of the model to be trained: set "+
			"collator.teacher.vocabulary: assume if you know that it does", c.o.Protocol, c.http.Place())
	}
	for _, probe := range v.Probes {
		var ids []int32
		ask := encode(map[string]any{"model": c.o.Model, "prompt": probe.Text, "add_special_tokens": false})
		err := c.post(ctx, "compare vocabularies with the teacher", c.p.tokenize, ask, func(body wire.Raw) (err error) {
			ids, err = c.tokens(body, len(probe.IDs))
			return err
		})
		switch {
		case missing(err):
			return fatal("cannot confirm the vocabulary of the server at %s, which does not tokenise: set "+
				"collator.teacher.vocabulary: assume if you know that it does", c.http.Place())
		case err != nil:
			return err
		case !slices.Equal(ids, probe.IDs):
			return fatal("the server at %s has a different vocabulary: %q is %v there and %v for the model to be "+
				"trained", c.http.Place(), probe.Text, ids, probe.IDs)
		}
	}
	return nil
}

// tokens reads the ids that a server returns for a text that should have want ids. It reads at most a few more ids,
// which suffice to detect a mismatch.
func (c *Client) tokens(body wire.Raw, want int) ([]int32, error) {
	list, ok := body.Get("tokens")
	if !ok || list.Kind() != wire.Array {
		return nil, &Fatal{bad("%s returned no tokens", c.p.tokenize)}
	}
	var ids []int32
	for e := range list.Elements() {
		id, ok := e.Int64()
		if !ok || id < 0 || id > 1<<31-1 {
			return nil, &Fatal{bad("%.40s is not a token id", e)}
		}
		if ids = append(ids, int32(id)); len(ids) > want+16 {
			break
		}
	}
	return ids, nil
}

// missing reports whether an error means that the server doesn't have the path.
func missing(err error) bool {
	var e *httpclient.Error
	return errors.As(err, &e) && (e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed)
}

// Score scores one sequence. The scores of a sequence that was scored before are read from the store.
func (c *Client) Score(ctx context.Context, s Sequence) (*Scores, error) {
	if s.From < 0 || s.From >= len(s.IDs)-1 {
		return nil, fmt.Errorf("teacher: cannot score from position %d of %d tokens: no token follows it", s.From,
			len(s.IDs))
	}
	key := c.key(s)
	if data, ok := c.store.read(key); ok {
		if scores, ok := decode(data, s); ok {
			return scores, nil
		}
	}
	var scores *Scores
	ask := encode(c.p.ask(&c.o, s))
	err := c.post(ctx, "score a sequence with the teacher", c.p.path, ask, func(body wire.Raw) error {
		positions, err := c.p.answer(&c.o, s, body)
		if err == nil {
			scores, err = normalise(s, s.entries(c.o.TopK), c.o.Vocabulary.Size, positions)
		}
		return err
	})
	switch {
	case missing(err):
		return nil, fatal("%w: check endpoint, protocol and model%s", err, c.p.missingHint)
	case err != nil:
		return nil, err
	case c.store.dir == "":
		return scores, nil
	}
	return scores, c.store.write(key, appendScores(nil, s, scores))
}

// ScoreAll scores sequences concurrently, and scores duplicates once. Results are in order. It returns an error only if
// further requests are pointless or the context is done.
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
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.As(err, new(*Fatal)):
				return err
			}
			results[i].Reason = reasonOf(err)
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

// post makes a request, retries it if it fails with a temporary error, and passes the answer to use.
func (c *Client) post(ctx context.Context, op, path string, body []byte, use func(wire.Raw) error) error {
	reply, err := c.http.Do(ctx, httpclient.Request{
		Op: op, Method: http.MethodPost, Path: path, Tries: c.o.Tries, Harmless: true,
		Body: httpclient.Bytes{ContentType: "application/json", Data: body},
	})
	var e *httpclient.Error
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, httpclient.ErrTooLong):
		return bad("it is longer than max_answer_bytes (%d)", c.o.MaxAnswer)
	case errors.As(err, &e) && e.Fault == httpclient.Denied:
		return fatal("%w: check api_key", err)
	case errors.As(err, &e) && e.Fault == httpclient.Local:
		return fatal("%w", err)
	default:
		return err
	}
	defer reply.Close()
	answer, err := wire.Parse(reply.Body, wire.Limits{Depth: 20, Size: c.o.MaxAnswer})
	if err != nil {
		return bad("%s", err)
	}
	if answer.Kind() != wire.Object && answer.Kind() != wire.Array {
		return bad("it is neither a JSON object nor an array")
	}
	return use(answer)
}
