package read

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/source"
)

// CheckDivisible returns an error if the inputs don't exist yet, or can be read only once.
func (in *Inputs) CheckDivisible() error {
	if in.collect != nil {
		return exit.Usagef("source %s makes agent runs, which can't be divided: collect them with `nat-go run`, "+
			"and specify the files with --from", in.Type)
	}
	for _, f := range in.Began {
		info, err := os.Stat(f.Path)
		if f.Path == source.Stdin || in.as == nil && err == nil && !info.Mode().IsRegular() {
			return exit.Usagef("input %s can be read only once, but every shard reads a part of it: specify a file",
				f.Path)
		}
	}
	return nil
}

// cutter reads the inputs and cuts them at example boundaries into shards of roughly equal size.
type cutter struct {
	*shards.Plan
	notes  []string // remarks for the user
	in     *Inputs
	to     shards.Folder
	tell   func(stage.Progress)
	number int
	total  int64 // total size of all inputs on disk
	before int64 // size of the inputs before the current one

	at     shards.Shard      // the current shard
	part   shards.Part       // last part of the current shard
	named  *shards.NamedFile // file with the current shard's example ids
	bytes  int64             // offset, counted over all inputs, at which the current shard begins
	failed error             // error from storing an id or a file of ids
}

// Divide adds to a plan the inputs, divided into a number of shards or, if that is 0, into shards of roughly the given
// number of bytes. It writes files of example ids to the plan's folder, and returns remarks for the user.
func (in *Inputs) Divide(
	ctx context.Context, number int, bytes int64, p *shards.Plan, to shards.Folder, tell func(stage.Progress),
) ([]string, error) {
	c := &cutter{Plan: p, in: in, to: to, tell: tell, number: number}
	err := c.cut(ctx, bytes)
	return c.notes, err
}

// cut reads the inputs and fills in c.Inputs and c.Shards.
func (c *cutter) cut(ctx context.Context, bytes int64) error {
	for _, f := range c.in.Began {
		c.total += f.Size
	}
	if c.number == 0 {
		c.number = int(min(int64(math.Ceil(float64(c.total)/float64(bytes))), shards.MaxShards+1))
	}
	if c.number = max(c.number, 1); c.number > shards.MaxShards {
		return exit.Usagef("--shard-bytes %d makes more than %d shards: set a larger number", bytes, shards.MaxShards)
	}
	c.begin()
	defer func() { c.named.Abort() }()
	for k := range c.in.paths {
		if err := c.cutInput(ctx, k); err != nil {
			return err
		}
		c.before += c.in.Began[k].Size
	}
	for c.failed == nil && len(c.Shards) < c.number {
		c.end(c.total)
	}
	return exit.Cant("write the plan", c.failed)
}

// begin begins a shard.
func (c *cutter) begin() {
	c.at, c.named = shards.Shard{Parts: []shards.Part{}}, c.to.NewNamed(len(c.Shards))
}

// end ends the current shard at an offset counted over all inputs.
func (c *cutter) end(place int64) {
	c.at.Named, c.failed = c.named.Commit()
	c.at.Bytes = place - c.bytes
	c.bytes = place
	c.Shards = append(c.Shards, c.at)
	c.begin()
}

// endFull ends the shards that are full at an offset counted over all inputs.
func (c *cutter) endFull(place int64) error {
	for c.failed == nil && c.isFull(place) {
		c.end(place)
	}
	return exit.Cant("write the plan", c.failed)
}

// isFull reports whether the current shard has reached its share at an offset counted over all inputs.
func (c *cutter) isFull(place int64) bool {
	next := float64(c.total) / float64(c.number) * float64(len(c.Shards)+1)
	return len(c.Shards) < c.number-1 && float64(place) >= next
}

// keep returns a function that stores the example ids in input k that can't be derived from the examples' positions.
func (c *cutter) keep(k int) func(row int64, id string) {
	return func(row int64, id string) {
		if c.failed == nil {
			c.failed = c.named.Add(k, row, id)
		}
	}
}

// cutInput reads an input and cuts it at each point where a shard is full.
func (c *cutter) cutInput(ctx context.Context, k int) (err error) {
	src, err := c.in.open(ctx, c.in.paths[k], source.Options{Named: c.keep(k)})
	if err != nil {
		return c.unreadable(k, err)
	}
	defer src.Close()
	c.part = shards.Part{Input: k}
	whole, first := "", true
	for {
		_, at, err := src.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return c.endInput(k, identityOf(src, c.in.Began[k]), whole)
		case err != nil:
			return c.unreadable(k, err)
		}
		if first {
			if whole, first = indivisible(src), false; whole == "" && c.in.Began[k].Size > source.DefaultBlock {
				return c.scan(ctx, k, identityOf(src, c.in.Began[k]))
			}
		}
		if err := c.addExample(k, at, whole == ""); err != nil {
			return err
		}
	}
}

// scanBlock returns how many bytes of an input a worker scans at a time. The number is small enough for several rounds,
// so that all workers finish at about the same time.
func scanBlock(size int64, workers int) int64 {
	const least, rounds = 1 << 20, 8
	return min(max(size/int64(rounds*workers), least), source.DefaultBlock)
}

// scan cuts a large input, reading it with one worker per processor.
func (c *cutter) scan(ctx context.Context, k int, id source.Input) (err error) {
	path, size, workers := c.in.paths[k], c.in.Began[k].Size, runtime.GOMAXPROCS(0)
	id.Sum, err = source.Scan(ctx, source.ScanOptions{
		Path: path, Size: size, Workers: workers, Block: scanBlock(size, workers),
		Open: func(ctx context.Context, opt source.Options) (source.Source, error) {
			return c.in.open(ctx, path, opt)
		},
		Named: c.keep(k),
	}, func(at source.Cursor) error { return c.addExample(k, at, true) })
	// read the input again for an error with the correct line numbers
	if err != nil && exit.Code(err) == exit.Failed && ctx.Err() == nil {
		_, first := c.in.EachExample(ctx, k, func(*ttc.Example) bool { return false })
		return c.unreadable(k, cmp.Or(first, err))
	}
	if err != nil {
		return err
	}
	return c.endInput(k, id, "")
}

// addExample counts an example and cuts after it if the current shard is full.
func (c *cutter) addExample(k int, at source.Cursor, divisible bool) error {
	c.at.Examples++
	place := c.before + at.Offset
	if !divisible || !c.isFull(place) {
		return exit.Cant("write the plan", c.failed)
	}
	c.part.To = at
	c.at.Parts = append(c.at.Parts, c.part)
	c.part = shards.Part{Input: k, Part: source.Part{From: at}}
	c.tell(stage.Progress{Step: "plan", Done: place, Total: c.total, Unit: stage.UnitByte})
	return c.endFull(place)
}

// identityOf returns the identity of the input that the source opened last. If the source hasn't opened any, it returns
// began.
func identityOf(src source.Source, began source.Input) source.Input {
	if read := src.Inputs(); len(read) > 0 {
		return read[len(read)-1]
	}
	return began
}

// endInput records an input's identity, and ends the shards that are full at the end of the input. whole is the reason
// that the input couldn't be cut, or "".
func (c *cutter) endInput(k int, input source.Input, whole string) error {
	c.at.Parts = append(c.at.Parts, c.part)
	c.Inputs = append(c.Inputs, input)
	place := c.before + c.in.Began[k].Size
	if share := c.total / int64(c.number); whole != "" && c.in.Began[k].Size > share+share/2 {
		c.notes = append(c.notes, fmt.Sprintf("the input %s stays in one shard, which is larger than the others: "+
			"%s", c.in.paths[k], whole))
	}
	return c.endFull(place)
}

func (c *cutter) unreadable(k int, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return exit.With(exit.Failed, fmt.Errorf("cannot read collection run %d: %w", k, err))
}

// indivisible returns the reason that an input can't be cut, or "" if it can.
func indivisible(src source.Source) string {
	if d, ok := src.(source.Divisible); ok {
		return d.Indivisible()
	}
	return "groups span its files"
}
