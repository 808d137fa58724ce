package read

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/internal/where"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// A reader reads at most this many bytes ahead in an input, because queued examples take up memory. The higher limit
// applies while the builders are starting, and is about as much as can be read in that time. The lower limit applies
// after that, and is enough to keep the builders busy.
const (
	aheadBytes  = 12 << 20
	steadyBytes = 2 << 20
)

// Inputs holds the files of a run, one per collection run, and the settings for reading them.
type Inputs struct {
	Type       string               // the source's type
	Began      []source.Input       // identities of the files when the run began
	PassedOver []inspect.PassedOver // files in input folders that are skipped
	Notes      []string             // remarks, which become warnings
	// Prove checks examples with the tokenizer; nil means that examples aren't checked. If CanProve is set, the caller
	// may set Prove before it opens the inputs.
	Prove    source.Prove
	CanProve bool

	opt   Options
	paths []string
	// The field as holds all named paths if the source reads them as one input; paths then holds one joined string.
	as      []string
	where   where.Filter[*where.Subject] // selects the examples that are used
	models  bool                         // whether to count the models that sampled the examples
	lower   string                       // name of a builder for which lower scores are better, or ""
	parts   map[int]*source.Part         // the part of each path that a shard reads; nil means all of it
	planned []source.Input               // identities of the inputs in the shards' plan, if parts is set
	open    func(ctx context.Context, path string, opt source.Options) (source.Source, error)
	ahead   *reader // a reader that has already started to read the first input; nil once used

	// collect makes the input files before they are read; nil means that the files already exist.
	collect func(ctx context.Context, c source.Collection) ([]string, error)
}

// reader reads a collection run in its own goroutine, somewhat ahead of the consumer of its examples.
type reader struct {
	out    chan reading
	ahead  atomic.Int64  // bytes of the input waiting to be consumed
	most   atomic.Int64  // maximum value of ahead; an example larger than this is queued alone
	taken  chan struct{} // receives a value when an example is consumed
	cancel context.CancelFunc
	done   chan struct{} // closed when reading has ended; only then may Read be read
	stage.Read
}

// reading is an example, or the error that ended reading, such as io.EOF.
type reading struct {
	stage.Reading
	err   error
	bytes int64 // size of the example in the input
}

// newReader starts reading collection run k, after position resume or, if that is nil, from the beginning.
func newReader(ctx context.Context, in *Inputs, k int, resume *source.Cursor) *reader {
	rd := &reader{out: make(chan reading, 256), taken: make(chan struct{}, 1), done: make(chan struct{})}
	rd.most.Store(aheadBytes)
	ctx, rd.cancel = context.WithCancel(ctx)
	go func() {
		defer close(rd.done)
		rd.read(ctx, in, k, resume)
	}()
	return rd
}

func (rd *reader) read(ctx context.Context, in *Inputs, k int, resume *source.Cursor) {
	var next reading
	held := heldDrops{seen: map[stage.DropKind]int{}, rest: map[stage.DropKind]int{}}
	src, err := in.open(ctx, in.paths[k], source.Options{
		Drop:   func(d ledger.Drop) { d.Run = k; held.add(d) },
		Resume: resume,
		Inputs: in.Began[k : k+1],
		Part:   in.parts[k],
	})
	if err != nil {
		next.Drops, next.err = held.take(), err
		rd.send(ctx, next)
		return
	}
	defer src.Close()
	models, subject := map[string]int64{}, where.Subject{}
	at, end := in.bounds(k)
	if resume != nil {
		at = *resume
	}
	for {
		before := at.Offset
		if end > 0 && at.Row >= end {
			next.err = in.ended(k, at)
		} else if next.Example, next.At, next.err = src.Next(ctx); next.err == nil {
			at = next.At
			next.Example.Run, next.At.Run = k, k
			in.score(next.Example)
			subject.Example = next.Example
			if clause := in.where.FirstFailing(&subject); clause != "" {
				why := ledger.Drop{Stage: ledger.Source, Reason: where.NotMet, Unit: stage.UnitExample, Detail: clause}
				held.add(stage.DropOf(next.Example, why))
				next.Example = nil
				rd.Unmet++
			} else if in.models {
				countModels(models, next.Example)
			}
			next.bytes = max(at.Offset-before, 0)
		} else if errors.Is(next.err, io.EOF) {
			next.err = in.exhausted(k, src.Inputs())
		}
		next.Drops = held.take()
		rd.Seen = *src.Stats()
		if read := src.Inputs(); len(read) > 0 {
			rd.Input = read[len(read)-1]
		}
		rd.Seen.Models = models
		if next.err == nil && rd.Seen.ReadyPairs > 0 && in.lower != "" {
			next.err = exit.Failedf("%s names the better side of its pairs, which gets the higher score, but "+
				"trajectory_builders.%s has score_direction: lower, which would reverse each pair: remove it",
				in.paths[k], in.lower)
		}
		if !rd.send(ctx, next) || next.err != nil {
			return
		}
		next = reading{}
	}
}

// bounds returns the position at which to start reading path k, and the row before which to stop. A row of 0 means the
// end of the file.
func (in *Inputs) bounds(k int) (from source.Cursor, end int64) {
	if p := in.parts[k]; p != nil {
		return p.From, p.To.Row
	}
	return from, in.opt.Limit
}

// score gives an example the scores of the rules and the score files.
func (in *Inputs) score(ex *ttc.Example) {
	if in.opt.Rules != nil {
		in.opt.Rules.Give(ex)
	}
	if in.opt.Scores != nil {
		in.opt.Scores.Give(ex)
	}
}

// heldDrops holds the drops that belong to the next reading. For each kind, it keeps as many as dropped.jsonl lists,
// plus one that counts the rest. This bounds the memory for a file whose lines are all dropped.
type heldDrops struct {
	drops []ledger.Drop
	seen  map[stage.DropKind]int
	rest  map[stage.DropKind]int // index in drops of the drop that counts the rest
}

func (h *heldDrops) add(d ledger.Drop) {
	k := stage.KindOf(&d)
	h.seen[k]++
	switch n := h.seen[k]; {
	case n <= stage.MaxListed:
		h.drops = append(h.drops, d)
	case n == stage.MaxListed+1:
		d.Count = d.N()
		h.rest[k] = len(h.drops)
		h.drops = append(h.drops, d)
	default:
		h.drops[h.rest[k]].Count += d.N()
	}
}

func (h *heldDrops) take() []ledger.Drop {
	drops := h.drops
	h.drops = nil
	clear(h.seen)
	return drops
}

// send puts an example into the queue once there is room for it. It returns false if the reader is stopped.
func (rd *reader) send(ctx context.Context, next reading) bool {
	for rd.ahead.Load() > 0 && rd.ahead.Load()+next.bytes > rd.most.Load() {
		select {
		case <-rd.taken:
		case <-ctx.Done():
			return false
		}
	}
	rd.ahead.Add(next.bytes)
	select {
	case rd.out <- next:
		return true
	case <-ctx.Done():
		return false
	}
}

// Next implements stage.Reader.
func (rd *reader) Next(ctx context.Context) (stage.Reading, error) {
	select {
	case next := <-rd.out:
		rd.ahead.Add(-next.bytes)
		select {
		case rd.taken <- struct{}{}:
		default:
		}
		return next.Reading, next.err
	case <-ctx.Done():
		return stage.Reading{}, context.Cause(ctx)
	}
}

// Close implements stage.Reader.
func (rd *reader) Close() stage.Read {
	rd.cancel()
	<-rd.done // wait: the reader was cancelled
	return rd.Read
}

// countModels counts an example once for each model that sampled any part of it.
func countModels(models map[string]int64, ex *ttc.Example) {
	var names []string
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for i := range ex.Graph.Nodes {
		if n := &ex.Graph.Nodes[i]; n.Message.Role == "assistant" && n.Sampled != ttc.No {
			if n.Policy == "" {
				add(ex.Policy)
			}
			add(n.Policy)
		}
	}
	if len(ex.Candidates) > 0 {
		add(ex.Policy)
	}
	for _, name := range names {
		models[name]++
	}
}

// Open implements stage.Inputs. It reuses the reader that was started ahead of time.
func (in *Inputs) Open(ctx context.Context, run int, after *source.Cursor) stage.Reader {
	rd := in.ahead
	if rd != nil && run == 0 {
		in.ahead = nil
	} else {
		rd = newReader(ctx, in, run, after)
	}
	rd.most.Store(steadyBytes)
	return rd
}

// Ahead starts reading the first input while the builders start. It does nothing if reading has to wait for the
// tokenizer that checks claims, or for the agent that produces the input. It doesn't open pipes either, because that
// may block.
func (in *Inputs) Ahead(ctx context.Context) {
	if !in.CanProve && in.collect == nil && len(in.Began) > 0 && in.Began[0].Size > 0 {
		in.ahead = newReader(ctx, in, 0, nil)
	}
}

// Close stops the reader that was started ahead of time, if it wasn't used.
func (in *Inputs) Close() {
	if in != nil && in.ahead != nil {
		in.ahead.Close()
	}
}

// ended returns the error that stops reading path k at the limit or at the end of the shard's part. It is io.EOF, or a
// different error if the part doesn't end where the plan says.
func (in *Inputs) ended(k int, at source.Cursor) error {
	if p := in.parts[k]; p != nil {
		if at.Run = p.To.Run; at != p.To {
			return in.otherThanPlanned(k)
		}
	}
	return io.EOF
}

// exhausted returns io.EOF at the end of path k. For a shard, it returns a different error if the content doesn't match
// the plan.
func (in *Inputs) exhausted(k int, read []source.Input) error {
	n := len(read)
	if in.planned != nil && (n == 0 || read[n-1].Sum != in.planned[k].Sum || in.parts[k].To.Row > 0) {
		return in.otherThanPlanned(k)
	}
	return io.EOF
}

func (in *Inputs) otherThanPlanned(k int) error {
	return exit.Failedf("input %s changed since the plan was made: make a plan in another folder, or put the "+
		"file back as it was", in.paths[k])
}
