package endpoint

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/httpclient"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/compose"
	"github.com/nat-go/nat-go/ttc/source/internal/nat"
)

// Report describes the outcome of a collection.
type Report struct {
	Questions int
	Asked     int    // questions answered during this call; the other answers were already stored
	Raised    int    // questions on which the workflow raised an exception; their examples are marked as interrupted
	First     string // the first exception raised
}

// askAll asks every question that has not been answered in dir, and writes dir/workflow_output.json once all of them
// are answered. It calls progress with the number of answers. After an error, the answers so far are kept, and askAll
// can be called again.
func askAll(ctx context.Context, cfg Config, dir string, progress func(done, total int)) (string, *Report, error) {
	base, err := cfg.base()
	if err != nil {
		return "", nil, err
	}
	client, err := httpclient.New(httpclient.Options{
		Base: base, Token: cfg.Token, Timeout: cfg.Timeout,
		Backoff: cmp.Or(cfg.Backoff, time.Second), MaxPause: 30 * time.Second,
		MaxAnswer: cfg.MaxAnswer, Large: int(max(1, largeAnswers/max(1, cfg.MaxAnswer))), Connections: cfg.Concurrency,
	})
	if err != nil {
		return "", nil, fmt.Errorf("endpoint: %w", err)
	}
	defer client.Close()
	c := &collector{cfg: &cfg, dir: filepath.Join(dir, "answers"), progress: progress, http: client}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return "", nil, err
	}
	for _, left := range []string{dir, c.dir} { // remove the temporary files of a process that was killed
		if err := durable.Sweep(left); err != nil {
			return "", nil, err
		}
	}
	if err := eachEntry(ctx, &cfg, func(entry) error { c.report.Questions++; return nil }); err != nil {
		return "", nil, err
	}
	if err := c.ask(ctx); err != nil {
		return "", nil, err
	}
	path := filepath.Join(dir, nat.FileName)
	return path, &c.report, c.assemble(ctx, path)
}

// largeAnswers bounds the total size of large answers that are processed concurrently, because parsing doubles
// an answer's memory.
const largeAnswers = 64 << 20

type collector struct {
	cfg      *Config
	dir      string
	http     *httpclient.Client
	progress func(done, total int)

	mu     sync.Mutex
	path   string // the element of paths that the service accepts; empty if not yet known
	done   int
	failed int // number of questions without an answer
	row    int // number of failures since the last answer
	first  error
	report Report
}

// maxFailed is the number of consecutive failed questions after which the service is considered unavailable.
const maxFailed = 10

// ask asks the questions that lack an answer. It continues after a question that fails.
func (c *collector) ask(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(c.cfg.Concurrency)
	names := namer{}
	err := eachEntry(ctx, c.cfg, func(e entry) error {
		body := c.body(e)
		path := filepath.Join(c.dir, names.name(body, c.cfg.query()))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := os.Stat(path); err == nil {
			c.step()
			return nil
		}
		g.Go(func() error { return c.one(ctx, body, path) })
		return nil
	})
	if waitErr := g.Wait(); waitErr != nil {
		return waitErr
	}
	if err != nil {
		return err
	}
	if c.failed > 0 {
		return fmt.Errorf("%d of %d questions got no answer; the other answers are kept, and the run can be resumed. First error: %w", c.failed, c.report.Questions, c.first)
	}
	return nil
}

func (c *collector) body(e entry) []byte {
	return compose.Object(nil).Member(quote(c.cfg.InputKey), e.question).End()
}

// namer derives the names of answers from their questions. Repetitions of a question get different names.
type namer map[string]int

func (n namer) name(body []byte, query string) string {
	sum := sha256.Sum256(append([]byte(query+"\n"), body...))
	name := hex.EncodeToString(sum[:16])
	n[name]++
	return name + "-" + strconv.Itoa(n[name]) + ".txt"
}

func (c *collector) step() {
	c.mu.Lock()
	c.done++
	c.progress(c.done, c.report.Questions)
	c.mu.Unlock()
}

// one requests and stores the answer to one question.
func (c *collector) one(ctx context.Context, body []byte, path string) error {
	answer, err := c.post(ctx, body)
	var final *finalError
	switch {
	case err == nil:
		err := durable.WriteFile(path, answer.Body)
		answer.Close()
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.report.Asked++
		c.row = 0
		c.mu.Unlock()
		c.step()
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &final):
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed++
	c.row++
	c.first = cmp.Or(c.first, err)
	if c.row >= maxFailed {
		return fmt.Errorf("%d questions in a row got no answer; the other answers are kept, and the run can be resumed: %w", c.row, err)
	}
	return nil
}

// finalError is an error that would occur for every other question, too.
type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

// post sends a question. Until the service has accepted one of the paths, post tries each of them.
func (c *collector) post(ctx context.Context, body []byte) (*httpclient.Reply, error) {
	c.mu.Lock()
	known := c.path
	c.mu.Unlock()
	list := paths
	if known != "" {
		list = []string{known}
	}
	for _, path := range list {
		reply, err := c.http.Do(ctx, httpclient.Request{
			Op:       "ask the workflow",
			Method:   http.MethodPost,
			Path:     path + c.cfg.query(),
			Accept:   "text/event-stream",
			Body:     httpclient.Bytes{ContentType: "application/json", Data: body},
			Tries:    c.cfg.Tries,
			Harmless: true,
			Check:    complete,
			OK:       []int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnprocessableEntity},
		})
		if err != nil {
			return nil, c.judge(err)
		}
		if reply.Status == http.StatusNotFound || reply.Status == http.StatusMethodNotAllowed {
			continue
		}
		c.mu.Lock()
		c.path = path
		c.mu.Unlock()
		if reply.Status == http.StatusUnprocessableEntity {
			return nil, &finalError{c.unprocessable(reply)}
		}
		return reply, nil
	}
	return nil, &finalError{fmt.Errorf("workflow at %s accepts neither %s: is this the address of a nat serve?",
		c.http.Place(), strings.Join(list, " nor "))}
}

// complete returns an error if an answer is incomplete or invalid.
func complete(r *httpclient.Reply) error {
	if r.Status/100 != 2 {
		return nil
	}
	_, err := parse(r.Body)
	return err
}

// judge distinguishes an error that concerns a single question from one that would affect all questions.
func (c *collector) judge(err error) error {
	var e *httpclient.Error
	switch {
	case !errors.As(err, &e), e.Fault == httpclient.Unavailable && !errors.Is(err, httpclient.ErrTooLong):
		return err
	case errors.Is(err, httpclient.ErrTooLong):
		return fmt.Errorf("%s: the answer is larger than max_answer_bytes (%d)", e.Op, c.cfg.MaxAnswer)
	default:
		return &finalError{err}
	}
}

// unprocessable explains an HTTP 422 response. Its most common cause is that the workflow's parameter has another name.
func (c *collector) unprocessable(r *httpclient.Reply) error {
	var v struct {
		Detail []struct {
			Type string `json:"type"`
			Loc  []any  `json:"loc"`
		} `json:"detail"`
	}
	if stdjson.Unmarshal(r.Body, &v) == nil {
		for _, d := range v.Detail {
			if d.Type == "missing" && len(d.Loc) == 2 && d.Loc[0] == "body" {
				want := c.http.Scrub(fmt.Sprint(d.Loc[1]))
				return fmt.Errorf("workflow at %s expects its question as %q, not as %q: set input_key: %s",
					c.http.Place(), want, c.cfg.InputKey, want)
			}
		}
	}
	return fmt.Errorf("workflow at %s rejected the question: HTTP 422 %s", c.http.Place(), r.Excerpt())
}

// assemble writes the entries with their answers in the format of workflow_output.json. A file that already has the
// same content is left untouched and keeps its modification time, by which a resumed run recognises its inputs.
func (c *collector) assemble(ctx context.Context, path string) error {
	w, err := durable.Create(path)
	if err != nil {
		return err
	}
	defer w.Abort()
	names := namer{}
	before, end := "[\n", "[]\n"
	err = eachEntry(ctx, c.cfg, func(e entry) error {
		b, err := durable.ReadFile(filepath.Join(c.dir, names.name(c.body(e), c.cfg.query())), c.cfg.MaxAnswer)
		if err != nil {
			return err
		}
		a, err := parse(b)
		if err != nil {
			return err
		}
		if a.raised != "" {
			if c.report.Raised++; c.report.Raised == 1 {
				c.report.First = c.http.Scrub(a.raised)
			}
			a.value, a.steps = json.Raw("null"), nil
		}
		_, err = w.WriteString(before)
		if err == nil {
			_, err = w.Write(c.object(e, a))
		}
		before, end = ",\n", "\n]\n"
		return err
	})
	if err != nil {
		return err
	}
	if _, err := w.WriteString(end); err != nil {
		return err
	}
	return w.CommitChanged()
}

// object returns an entry with the members that NAT adds.
func (c *collector) object(e entry, a *answer) []byte {
	var o compose.Object
	for k, v := range e.raw.Members() {
		var key string
		if stdjson.Unmarshal(k, &key) != nil || key != c.cfg.AnswerKey && key != c.cfg.TrajectoryKey {
			o = o.Member(k, v)
		}
	}
	return o.Member(quote(c.cfg.AnswerKey), a.value).Member(quote(c.cfg.TrajectoryKey), a.steps.End()).End()
}
