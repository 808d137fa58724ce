package endpoint

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/nat"
)

// Report is how a collection went.
type Report struct {
	Questions int
	Asked     int    // of this call; the others' answers were there
	Raised    int    // workflows that raised: their examples are interrupted
	First     string // what the first of them raised
}

// Collect asks every question that has no answer in dir yet, and writes dir/workflow_output.json once all have one. progress
// is told how many have; it may be nil. An error leaves what was answered, and Collect can be called again.
func Collect(ctx context.Context, cfg Config, dir string, progress func(done, total int)) (string, *Report, error) {
	base, err := cfg.base()
	if err != nil {
		return "", nil, err
	}
	c := &collector{cfg: &cfg, base: base, dir: filepath.Join(dir, "answers"), progress: progress, http: &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: cfg.Concurrency, IdleConnTimeout: 10 * time.Second},
	}}
	defer c.http.CloseIdleConnections()
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return "", nil, err
	}
	if err := eachEntry(&cfg, func(entry) error { c.report.Questions++; return nil }); err != nil {
		return "", nil, err
	}
	if err := c.ask(ctx); err != nil {
		return "", nil, err
	}
	path := filepath.Join(dir, nat.FileName)
	return path, &c.report, c.assemble(path)
}

type collector struct {
	cfg      *Config
	base     string
	dir      string
	http     *http.Client
	progress func(done, total int)

	mu     sync.Mutex
	path   string // of those in paths, the one that is there; empty: not known yet
	done   int
	failed int // questions without an answer
	row    int // of these, in a row
	first  error
	report Report
}

// maxFailed is how many questions in a row may fail before the service is taken to be gone.
const maxFailed = 10

// ask asks what has no answer yet. That one question fails does not keep the others from being asked.
func (c *collector) ask(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(c.cfg.Concurrency)
	names := namer{}
	err := eachEntry(c.cfg, func(e entry) error {
		body := c.body(e)
		path := filepath.Join(c.dir, names.of(body, c.cfg.query()))
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
		return fmt.Errorf("%d of %d questions got no answer; the others' are kept, and the run can be resumed. The first: %w", c.failed, c.report.Questions, c.first)
	}
	return nil
}

func (c *collector) body(e entry) []byte {
	b := append([]byte{'{'}, quote(c.cfg.InputKey)...)
	return append(append(append(b, ':'), e.question...), '}')
}

// namer names answers by what was asked; the same question a second time gets a name of its own.
type namer map[string]int

func (n namer) of(body []byte, query string) string {
	sum := sha256.Sum256(append([]byte(query+"\n"), body...))
	name := hex.EncodeToString(sum[:16])
	n[name]++
	return name + "-" + strconv.Itoa(n[name]) + ".txt"
}

func (c *collector) step() {
	c.mu.Lock()
	c.done++
	if c.progress != nil {
		c.progress(c.done, c.report.Questions)
	}
	c.mu.Unlock()
}

// one gets and stores the answer to one question.
func (c *collector) one(ctx context.Context, body []byte, path string) error {
	answer, err := c.tries(ctx, body)
	var final *finalError
	switch {
	case err == nil:
		if err := replace(path, answer); err != nil {
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
	if c.first == nil {
		c.first = err
	}
	if c.row >= maxFailed {
		return fmt.Errorf("%d questions in a row got no answer; the others' are kept, and the run can be resumed: %w", c.row, err)
	}
	return nil
}

// finalError is one that every other question would get, too.
type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

// tries asks until there is an answer.
func (c *collector) tries(ctx context.Context, body []byte) ([]byte, error) {
	pause := c.cfg.Backoff
	if pause == 0 {
		pause = time.Second
	}
	for try := 1; ; try++ {
		b, wait, err := c.post(ctx, body)
		var final *finalError
		if err == nil || errors.As(err, &final) || try >= c.cfg.Tries || ctx.Err() != nil {
			return b, err
		}
		t := time.NewTimer(min(max(pause, wait), 30*time.Second))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		}
		pause *= 2
	}
}

// post asks once. A path that isn't there is tried under its other name before it is an error.
func (c *collector) post(ctx context.Context, body []byte) (answer []byte, wait time.Duration, err error) {
	c.mu.Lock()
	known := c.path
	c.mu.Unlock()
	list := paths
	if known != "" {
		list = []string{known}
	}
	for _, path := range list {
		status, b, wait, err := c.send(ctx, path, body)
		if err != nil {
			return nil, 0, err
		}
		if status == http.StatusNotFound || status == http.StatusMethodNotAllowed {
			continue
		}
		if known == "" {
			c.mu.Lock()
			c.path = path
			c.mu.Unlock()
		}
		return b, wait, c.judge(status, b)
	}
	return nil, 0, &finalError{fmt.Errorf("%s has neither %s: is this the address of a nat serve?", c.cfg.place(c.base), strings.Join(list, " nor "))}
}

func (c *collector) send(ctx context.Context, path string, body []byte) (status int, answer []byte, wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path+c.cfg.query(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("User-Agent", "nat-go")
	if c.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, 0, fmt.Errorf("%s: %s", c.cfg.place(c.base), c.reason(err))
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, c.cfg.MaxAnswer+1))
	if err != nil {
		return 0, nil, 0, fmt.Errorf("%s: the answer broke off: %s", c.cfg.place(c.base), c.reason(err))
	}
	if int64(len(answer)) > c.cfg.MaxAnswer {
		return 0, nil, 0, fmt.Errorf("%s: the answer is larger than max_answer_bytes (%d)", c.cfg.place(c.base), c.cfg.MaxAnswer)
	}
	if secs, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		wait = time.Duration(secs) * time.Second
	}
	return resp.StatusCode, answer, wait, nil
}

// reason is a transport's error without the address, which may hold credentials.
func (c *collector) reason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %s", c.cfg.Timeout)
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return c.cfg.clean(err.Error())
		}
		err = inner
	}
}

// judge says whether a status and a body are an answer.
func (c *collector) judge(status int, body []byte) error {
	where := c.cfg.place(c.base)
	switch {
	case status == http.StatusOK:
		if _, err := parse(body); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		return nil
	case status == http.StatusUnprocessableEntity:
		return &finalError{c.unprocessable(where, body)}
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return &finalError{fmt.Errorf("%s: HTTP %d: the token is missing or wrong", where, status)}
	case status == http.StatusTooManyRequests || status >= 500:
		return fmt.Errorf("%s: HTTP %d %s", where, status, c.excerpt(body))
	default:
		return &finalError{fmt.Errorf("%s: HTTP %d %s", where, status, c.excerpt(body))}
	}
}

// unprocessable explains a 422: most often the workflow's parameter has another name.
func (c *collector) unprocessable(where string, body []byte) error {
	var v struct {
		Detail []struct {
			Type string `json:"type"`
			Loc  []any  `json:"loc"`
		} `json:"detail"`
	}
	if stdjson.Unmarshal(body, &v) == nil {
		for _, d := range v.Detail {
			if d.Type == "missing" && len(d.Loc) == 2 && d.Loc[0] == "body" {
				return fmt.Errorf("%s takes its question as %q, not as %q: set input_key: %v", where, d.Loc[1], c.cfg.InputKey, d.Loc[1])
			}
		}
	}
	return fmt.Errorf("%s: HTTP 422 %s", where, c.excerpt(body))
}

func (c *collector) excerpt(body []byte) string {
	s := c.cfg.clean(string(body[:min(len(body), 300)]))
	return strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "?")
}

// assemble writes the entries with their answers in the form of workflow_output.json.
func (c *collector) assemble(path string) error {
	return write(path, func(w *bufio.Writer) error {
		names := namer{}
		n := 0
		err := eachEntry(c.cfg, func(e entry) error {
			b, err := os.ReadFile(filepath.Join(c.dir, names.of(c.body(e), c.cfg.query())))
			if err != nil {
				return err
			}
			a, err := parse(b)
			if err != nil {
				return err
			}
			if a.raised != "" {
				if c.report.Raised++; c.report.Raised == 1 {
					c.report.First = c.cfg.clean(a.raised)
				}
				a.value, a.steps = json.Raw("null"), nil
			}
			sep := "[\n"
			if n > 0 {
				sep = ",\n"
			}
			n++
			_, err = w.WriteString(sep)
			if err == nil {
				_, err = w.Write(c.object(e, a))
			}
			return err
		})
		if err != nil {
			return err
		}
		end := "\n]\n"
		if n == 0 {
			end = "[]\n"
		}
		_, err = w.WriteString(end)
		return err
	})
}

// object is an entry with what NAT adds to it.
func (c *collector) object(e entry, a *answer) []byte {
	b := []byte{'{'}
	for k, v := range e.raw.Members() {
		var key string
		if stdjson.Unmarshal(k, &key) == nil && (key == c.cfg.AnswerKey || key == c.cfg.TrajectoryKey) {
			continue
		}
		b = append(append(append(append(b, k...), ':'), v...), ',')
	}
	b = append(append(append(append(b, quote(c.cfg.AnswerKey)...), ':'), a.value...), ',')
	b = append(append(b, quote(c.cfg.TrajectoryKey)...), ":["...)
	return append(append(b, a.steps...), "]}"...)
}

func replace(path string, b []byte) error {
	return write(path, func(w *bufio.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// write makes a file appear under its name when it is complete. One that is there with the same content stays, and keeps its
// time, by which a resumed run knows its inputs again.
func write(path string, fill func(*bufio.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriter(f)
	if err := fill(w); err != nil {
		f.Close()
		return err
	}
	if err := errors.Join(w.Flush(), f.Sync(), f.Close()); err != nil {
		return err
	}
	if same(f.Name(), path) {
		return os.Remove(f.Name())
	}
	return os.Rename(f.Name(), path) //nolint:forbidigo // synced above; this package builds without cmd
}

// same says whether two files hold the same bytes.
func same(a, b string) bool {
	x, errX := os.Open(a)
	if errX == nil {
		defer x.Close()
	}
	y, errY := os.Open(b)
	if errY == nil {
		defer y.Close()
	}
	if errX != nil || errY != nil {
		return false
	}
	bx, by := make([]byte, 1<<16), make([]byte, 1<<16)
	for {
		n, errX := io.ReadFull(x, bx)
		m, errY := io.ReadFull(y, by)
		if n != m || !bytes.Equal(bx[:n], by[:m]) {
			return false
		}
		if errX != nil || errY != nil {
			return errX == errY
		}
	}
}
