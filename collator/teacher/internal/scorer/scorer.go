package scorer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nat-go/nat-go/internal/process"
	"github.com/nat-go/nat-go/internal/tensors"
)

// version is the protocol's name.
const version = "nat.logits.v1"

const (
	maxAnswer = 1 << 20 // maximum size of a response line, in bytes
	maxVocab  = 1 << 24
	maxModel  = 200 // maximum size of a model name, in bytes
	// maxFailures is the number of consecutive failures after which a Scorer gives up on its program.
	maxFailures = 5
	// maxTokens is the maximum number of tokens, over all sequences, in a request that several sites share.
	maxTokens = 16 << 10
)

// Options configures a Scorer. Zero values mean the defaults in brackets.
type Options struct {
	Command      []string      // the program and its arguments
	Memory       int64         // size in bytes of the memory shared with the program [64 MiB]
	Timeout      time.Duration // per response [5m]
	StartTimeout time.Duration // limit on the time to load the model [10m]
	Probes       []Probe       // texts whose ids the program must report
	Assume       bool          // trust a program that reports no ids for the probes
}

// Probe is a text and its ids, without special tokens.
type Probe struct {
	Text string
	IDs  []int32
}

// Sequence holds token ids and the positions at which logits are wanted, each for the next token.
type Sequence struct {
	IDs       []int32 `json:"ids"`
	Positions []int32 `json:"positions"`
}

// Model is the program's description of its model.
type Model struct {
	Name  string
	Vocab int // number of columns in a row
	DType tensors.DType
}

// Failed is the error for one request; the next request may succeed.
type Failed struct{ Err error }

func (e *Failed) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Failed) Unwrap() error { return e.Err }

// Scorer runs a program that computes logits. It serves one caller at a time.
type Scorer struct {
	o        Options
	program  *process.Responder
	memory   *memory
	model    Model
	requests int64
	failures int   // consecutive failures
	starts   int   // number of times the program was started
	last     error // the last failure
}

// New checks the options. It doesn't start the program; the first request does.
func New(o Options) (*Scorer, error) {
	o.Memory = cmp.Or(o.Memory, 64<<20)
	o.Timeout = cmp.Or(o.Timeout, 5*time.Minute)
	o.StartTimeout = cmp.Or(o.StartTimeout, 10*time.Minute)
	if len(o.Command) == 0 || o.Command[0] == "" {
		return nil, errors.New("missing command for the scoring program")
	}
	if o.Memory < 0 || o.Timeout < 0 || o.StartTimeout < 0 {
		return nil, fmt.Errorf("the memory (%d bytes) and the timeouts (%s and %s) must not be negative",
			o.Memory, o.Timeout, o.StartTimeout)
	}
	return &Scorer{o: o}, nil
}

// Close ends the program and releases the memory.
func (s *Scorer) Close() { s.stop() }

// Starts returns the number of times the program was started.
func (s *Scorer) Starts() int { return s.starts }

// Requests returns how many requests were made.
func (s *Scorer) Requests() int64 { return s.requests }

// stop ends the program and returns its messages. It also releases the shared memory, so that child processes that
// are still running cannot write to the memory of the next program.
func (s *Scorer) stop() (said string) {
	if s.program != nil {
		said = s.program.End()
		s.program = nil
	}
	if s.memory != nil {
		s.memory.close()
		s.memory = nil
	}
	return said
}

// Model starts the program if it isn't running, and returns its description.
func (s *Scorer) Model(ctx context.Context) (Model, error) {
	if s.program != nil {
		return s.model, nil
	}
	for {
		switch err := s.start(ctx); {
		case err == nil:
			return s.model, nil
		case !s.failed(ctx, err):
			return Model{}, s.last
		}
	}
}

// failed records a failure and reports whether the program may be tried again.
func (s *Scorer) failed(ctx context.Context, err error) bool {
	said := s.stop()
	if ctx.Err() != nil {
		s.last = context.Cause(ctx)
		return false
	}
	err = fmt.Errorf("scoring program %s %w", s.o.Command[0], err)
	if said != "" {
		err = fmt.Errorf("%w; it says: %s", err, said)
	}
	s.last = err
	if _, ok := errors.AsType[*refused](err); ok {
		return false
	}
	if s.failures++; s.failures >= maxFailures {
		s.last = fmt.Errorf("%w; gave up after %d failures in a row", err, s.failures)
		return false
	}
	return true
}

// refused is the error for a program that restarting would not make usable.
type refused struct{ why string }

func (e *refused) Error() string { return e.why }

func refusef(format string, a ...any) error { return &refused{fmt.Sprintf(format, a...)} }

type hello struct {
	Hello  string   `json:"hello"`
	Memory int64    `json:"memory"`
	Probes []string `json:"probes"`
}

type introduction struct {
	Vocab  int       `json:"vocab"`
	DType  string    `json:"dtype"`
	Model  string    `json:"model"`
	Probes [][]int32 `json:"probes"`
}

func (s *Scorer) start(ctx context.Context) (err error) {
	if s.memory, err = newMemory(s.o.Memory); err != nil {
		return refusef("cannot be started without shared memory: %v", err)
	}
	s.starts++
	s.program, err = process.Respond(
		process.Config{Args: s.o.Command, Env: os.Environ(), Files: []*os.File{s.memory.file}},
		maxAnswer,
	)
	if err != nil {
		return refusef("cannot be started: %v", err)
	}
	ask := hello{Hello: version, Memory: s.o.Memory, Probes: []string{}}
	for _, p := range s.o.Probes {
		ask.Probes = append(ask.Probes, p.Text)
	}
	var in introduction
	if err := s.exchange(ctx, ask, s.o.StartTimeout, &in); err != nil {
		return err
	}
	return s.checkModel(&in)
}

// checkModel checks the program's description.
func (s *Scorer) checkModel(in *introduction) error {
	dtype, ok := map[string]tensors.DType{
		"float32": tensors.Float32, "bfloat16": tensors.BFloat16, "float16": tensors.Float16,
	}[in.DType]
	switch {
	case !ok:
		return refusef("returned logits of type %q, expected float32, bfloat16 or float16", in.DType)
	case in.Vocab < 2 || in.Vocab > maxVocab:
		return refusef("reported an invalid vocabulary size of %d tokens", in.Vocab)
	case int64(2*in.Vocab*dtype.Size()) > s.o.Memory:
		return refusef("needs %d bytes for a pair of rows: the shared memory has %d", 2*in.Vocab*dtype.Size(),
			s.o.Memory)
	case in.Probes == nil && s.o.Assume:
	case in.Probes == nil:
		return refusef("doesn't report its tokenizer's ids for the probes, so it can't be checked whether it has the " +
			"vocabulary of the model to be trained: set `vocabulary: assume` if you know that it does")
	case len(in.Probes) != len(s.o.Probes):
		return refusef("reported ids for %d of %d probes", len(in.Probes), len(s.o.Probes))
	}
	for i, ids := range in.Probes {
		if want := s.o.Probes[i]; !slices.Equal(ids, want.IDs) {
			return refusef("has a different vocabulary: %q is %v there and %v for the model to be trained", want.Text,
				ids[:min(len(ids), 40)], want.IDs)
		}
	}
	m := Model{Name: strings.ToValidUTF8(in.Model[:min(len(in.Model), maxModel)], "?"), Vocab: in.Vocab, DType: dtype}
	if s.model.Vocab != 0 && (m.Vocab != s.model.Vocab || m.DType != s.model.DType) {
		return refusef("returned different logits after a restart: %d columns of %v, not %d of %v", m.Vocab, m.DType,
			s.model.Vocab, s.model.DType)
	}
	s.model = m
	return nil
}

// exchange sends a request and reads the response.
func (s *Scorer) exchange(ctx context.Context, ask any, wait time.Duration, into any) error {
	line, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	answer, err := s.program.Ask(ctx, append(line, '\n'), wait)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(answer))
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("returned an unreadable answer (%w): %s", err, process.Beginning(answer))
	}
	return nil
}

type request struct {
	ID        int64      `json:"id"`
	Sequences []Sequence `json:"sequences"`
}

type response struct {
	ID    int64   `json:"id"`
	Rows  *int    `json:"rows"`
	Error *string `json:"error"`
}

// Fits reports whether a request's rows and tokens fit in the memory and within the limits. The model must be known.
func (s *Scorer) Fits(rows, tokens int) bool {
	return int64(rows)*int64(s.model.Vocab*s.model.DType.Size()) <= s.o.Memory && (tokens <= maxTokens || rows <= 2)
}

// Score has the program score sequences and returns their rows contiguously. The result is valid until the next call.
// After a *Failed, a smaller request may succeed; any other error makes further requests pointless.
func (s *Scorer) Score(ctx context.Context, all []Sequence) ([]byte, error) {
	if _, err := s.Model(ctx); err != nil {
		return nil, err
	}
	rows := 0
	for i := range all {
		rows += len(all[i].Positions)
		for _, p := range all[i].Positions {
			if p < 0 || int(p) >= len(all[i].IDs) {
				return nil, fmt.Errorf("invalid position %d in a sequence of %d tokens", p, len(all[i].IDs))
			}
		}
		if at := slices.IndexFunc(all[i].IDs,
			func(id int32) bool { return id < 0 || int(id) >= s.model.Vocab }); at >= 0 {
			return nil, fmt.Errorf("scoring program %s has a vocabulary of %d tokens, but the batches contain id %d",
				s.o.Command[0], s.model.Vocab, all[i].IDs[at])
		}
	}
	size := rows * s.model.Vocab * s.model.DType.Size()
	if int64(size) > s.o.Memory {
		return nil, fmt.Errorf("%d rows of logits do not fit in %d bytes", rows, s.o.Memory)
	}
	s.requests++
	data, err := s.rows(ctx, all, rows, size)
	var no *declined
	switch {
	case err == nil:
		s.failures = 0
		return data, nil
	case errors.As(err, &no): // the program reported the error, and is still running
		return nil, &Failed{fmt.Errorf("scoring program %s %w", s.o.Command[0], err)}
	case s.failed(ctx, err):
		return nil, &Failed{s.last}
	default:
		return nil, s.last
	}
}

// declined is the error for a request that the program says it can't handle.
type declined struct{ why string }

func (e *declined) Error() string { return "reports an error: " + e.why }

func (s *Scorer) rows(ctx context.Context, all []Sequence, rows, size int) ([]byte, error) {
	var r response
	if err := s.exchange(ctx, request{s.requests, all}, s.o.Timeout, &r); err != nil {
		return nil, err
	}
	switch {
	case r.ID != s.requests:
		return nil, fmt.Errorf("answered request %d instead of %d", r.ID, s.requests)
	case r.Error != nil:
		return nil, &declined{strings.ToValidUTF8((*r.Error)[:min(len(*r.Error), 500)], "?")}
	case r.Rows == nil || *r.Rows != rows:
		return nil, fmt.Errorf("did not return the %d requested rows", rows)
	}
	return s.memory.read(size)
}
