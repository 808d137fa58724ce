package online

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/build"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// Service makes batches from traces.
type Service struct {
	settings  *Settings
	tokenizer *tokenizer.Tokenizer
	collator  *collator.Collator
	builders  []*build.Direct // one builder for each channel
	closers   []io.Closer
	decoder   *readers.TracesDecoder
	policy    string
	body      bytes.Buffer // body of the last answer
}

// Close stops the programs started by builders, and closes the tokenizer.
func (v *Service) Close() {
	for _, c := range v.closers {
		_ = c.Close() // closing doesn't write anything, so errors don't matter
	}
	v.tokenizer.Close()
}

// Answer is the head of the frame that answers a request; the frame's body contains the tensors. With several channels,
// each tensor's name is prefixed with its channel and a dot. In the composer layout, tensors have that layout's names.
type Answer struct {
	ID       int64            `json:"id"`
	Channels []Made           `json:"channels"`       // descriptions of the channels that have rows
	Books    []ledger.Account `json:"books"`          // counts of inputs, outputs, and drops by reason
	Drops    []ledger.Drop    `json:"drops"`          // the first maxDrops drops
	LeftOut  int64            `json:"drops_left_out"` // number of dropped units not listed in Drops
}

// Made describes a channel's batch.
type Made struct {
	Channel  string       `json:"channel"`
	Rows     int          `json:"rows"`
	Tokens   int64        `json:"tokens"`   // number of tokens on all sides, without padding
	Active   int64        `json:"n_active"` // number of tokens in the loss or, for sdpo, number of pairs
	Rollouts []string     `json:"rollouts"` // rollout ids, indexed by row_rollout
	Examples []string     `json:"examples"` // trace ids, indexed by row_example
	Sites    []batch.Site `json:"sites,omitempty"`
}

// maxDrops is the maximum number of drops listed in an answer.
const maxDrops = 100

// maxBody is the maximum capacity at which a body's buffer is kept for the next answer.
const maxBody = 16 << 20

// failure is the head of the frame that answers a failed request.
type failure struct {
	ID    int64  `json:"id"`
	Error *Error `json:"error"`
}

// Serve answers frames until the input ends or the context is done. It returns an error if the settings are invalid,
// the input ends inside a frame, or reading or writing fails.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	// A read that is blocked when the context is done remains blocked until the input ends.
	settings, err := stage.UnlessEnded(ctx, func() (*Settings, error) { return readSettings(in) })
	var service *Service
	if err == nil {
		service, err = open(ctx, settings)
	}
	if err != nil {
		if bad, ok := errors.AsType[*Error](err); ok {
			err = errors.Join(err, writeFrame(out, failure{Error: bad}, nil))
		}
		if err == io.EOF || ctx.Err() != nil { // the input ended or the context is done before the first frame
			return nil
		}
		return err
	}
	defer service.Close()
	if err := send(ctx, out, map[string]Ready{"ready": service.ready()}, nil); err != nil {
		return err
	}
	frames := make(chan received)
	go receive(ctx, in, service.limit(), frames)
	for {
		select {
		case <-ctx.Done():
			return nil
		case f := <-frames:
			if f.err == io.EOF {
				return nil
			}
			if err := service.respond(ctx, f, out); err != nil {
				return err
			}
		}
	}
}

// received holds a frame, or the error from reading it.
type received struct {
	frame []byte
	err   error
}

// receive reads frames until the input ends or fails. A blocked read isn't interrupted when ctx is done.
func receive(ctx context.Context, in io.Reader, limit int64, frames chan<- received) {
	for {
		frame, err := readFrame(in, limit)
		select {
		case frames <- received{frame, err}:
		case <-ctx.Done():
			return
		}
		if err != nil && !errors.As(err, new(*Error)) {
			return
		}
	}
}

// respond answers a frame. It returns an error if the input or output fails.
func (v *Service) respond(ctx context.Context, f received, out io.Writer) error {
	a := &Answer{Channels: []Made{}, Drops: []ledger.Drop{}}
	err := f.err
	if err != nil && !errors.As(err, new(*Error)) {
		return err
	}
	var body []byte
	if err == nil {
		body, err = v.answer(ctx, f.frame, a)
	}
	if err == nil {
		return send(ctx, out, a, body)
	}
	if ctx.Err() != nil { // the error may be due to the context
		return nil
	}
	bad := failure{ID: a.ID}
	if !errors.As(err, &bad.Error) {
		bad.Error = problem(failed, "", "%v", err)
	}
	return send(ctx, out, bad, nil)
}

// endOfAnswer is the time limit for completing an answer once the context is done.
const endOfAnswer = 2 * time.Second

// send writes a frame. If the context is done during a write, send gives the reader endOfAnswer to accept the rest of
// the frame, because a partial frame is useless. A write that is still blocked after that remains blocked until the
// program exits.
func send(ctx context.Context, out io.Writer, head any, body []byte) error {
	written := make(chan error, 1)
	go func() { written <- writeFrame(out, head, body) }() // wait: the channel is buffered
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-written:
		return err
	case <-time.After(endOfAnswer):
		return nil
	}
}

func (v *Service) limit() int64 { return cmp.Or(max(0, v.settings.RequestBytes), defaultRequestBytes) }

func (v *Service) ready() Ready {
	r := Ready{Tokenizer: v.tokenizer.Fingerprint()}
	r.Template, r.PadID, r.VocabSize = v.collator.Model()
	return r
}

// answer makes the batches for a request, {"id": 1, "traces": [...]}. The returned body is valid until the next call.
func (v *Service) answer(ctx context.Context, frame []byte, a *Answer) ([]byte, error) {
	maxObjects := cmp.Or(max(0, v.settings.RequestObjects), defaultRequestObjects)
	request, err := json.Parse(frame, json.Limits{Size: v.limit(), Objects: maxObjects})
	if _, ok := errors.AsType[*json.SizeError](err); ok {
		return nil, problem(tooLarge, "", "the request has more than %d objects and lists: raise the limit with the setting "+
			"request_objects, or send fewer traces at a time", maxObjects)
	}
	if err != nil {
		return nil, problem(badRequest, "", "the request is not JSON: %v", json.LineError(err))
	}
	if request.Kind() != json.Object {
		return nil, problem(badRequest, "", "expected an object {id, traces}, got %s", request.Kind())
	}
	if id, given := request.Get("id"); given {
		n, ok := id.Int64()
		if !ok {
			return nil, problem(badRequest, "id", "expected a whole number, got %s", id.Kind())
		}
		a.ID = n
	}
	list, _ := request.Get("traces")
	if list.Kind() != json.Array {
		return nil, problem(badRequest, "traces", "expected a list of traces, got %s", list.Kind())
	}
	made, err := v.collate(ctx, list, a)
	if err != nil {
		return nil, err
	}
	for i := range made.Lines {
		l := &made.Lines[i]
		a.Channels = append(a.Channels, Made{
			Channel: l.Channel, Rows: l.Rows, Tokens: l.Tokens, Active: l.NActive,
			Rollouts: l.Rollouts, Examples: l.Examples, Sites: l.Sites,
		})
	}
	if v.body.Cap() > maxBody {
		v.body = bytes.Buffer{}
	}
	v.body.Reset()
	err = made.Write(&v.body, len(v.settings.Channels) > 1)
	return v.body.Bytes(), err
}

// collate makes the batches from traces, and records the accounts and drops in the answer.
func (v *Service) collate(ctx context.Context, list json.Raw, a *Answer) (*batch.Assembled, error) {
	books := ledger.NewBook()
	drop := func(d ledger.Drop) {
		books.Drop(d)
		if len(a.Drops) == maxDrops {
			a.LeftOut += d.N()
			return
		}
		a.Drops = append(a.Drops, d)
	}
	examples, stats, err := v.decoder.Decode(ctx, "traces", list, drop)
	if err != nil {
		return nil, problem(badRequest, "traces", "%v", err)
	}
	stage.AddAccounts(books, stats.Accounts())
	groups, err := v.build(ctx, examples, books, drop)
	if err != nil {
		return nil, err
	}
	made, res, err := v.collator.Online(ctx, func(yield func([]collator.Item, error) bool) {
		for i := 0; i < len(groups) && yield(groups[i], nil); i++ {
		}
	}, drop)
	switch {
	case errors.As(err, new(*batch.TooLarge)):
		return nil, problem(tooLarge, "traces", "%v: raise collator.batch_tokens, or send fewer traces at a time", err)
	case errors.As(err, new(*batch.Mixed)):
		return nil, problem(badRequest, "traces", "%v: send traces without logprobs in a separate call, or give all sampled "+
			"messages logprobs", err)
	case err != nil:
		return nil, err
	}
	stage.AddAccounts(books, res.Accounts)
	a.Books = books.Accounts()
	return made, nil
}

// build makes records from the examples, grouped by task, in the order in which the tasks first occur.
func (v *Service) build(
	ctx context.Context, examples []*ttc.Example, books *ledger.Book, drop func(ledger.Drop),
) ([][]collator.Item, error) {
	var out [][]collator.Item
	for _, g := range v.tasks(examples) {
		frame := recordlog.NewBuilder(v.settings.Channels)
		frame.Begin(g)
		for i, b := range v.builders {
			if err := b.Build(ctx, frame, i, g); err != nil {
				return nil, err
			}
		}
		made := frame.Group()
		for _, d := range made.Drops {
			drop(d)
		}
		stage.AddAccounts(books, made.Accounts)
		contents := made.Contents()
		items := make([]collator.Item, len(made.Records))
		for i := range made.Records {
			items[i] = collator.Item{Record: &made.Records[i], Hash: hex.EncodeToString(contents[i][:])}
		}
		if len(items) > 0 {
			out = append(out, items)
		}
	}
	return out, nil
}

// tasks groups examples by task. An example without a task has its own group. A trace without a model counts as sampled
// by the model to be trained.
func (v *Service) tasks(examples []*ttc.Example) (out []*ttc.Group) {
	by := map[string]*ttc.Group{}
	for _, ex := range examples {
		ex.Policy = cmp.Or(ex.Policy, v.policy)
		g := by[ex.Task]
		if g == nil || ex.Task == "" {
			g = &ttc.Group{Key: ex.Task}
			by[ex.Task] = g
			out = append(out, g)
		}
		g.Examples = append(g.Examples, ex)
	}
	return out
}
