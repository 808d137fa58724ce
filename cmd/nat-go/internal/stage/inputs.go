package stage

import (
	"context"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// Inputs are the inputs of a run, one for each collection run. Stage read finds them, and stage build reads them.
type Inputs interface {
	// Runs returns the number of collection runs.
	Runs() int
	// Reads reports whether any part of a collection run is read.
	Reads(run int) bool
	// Bytes returns the total size of all collection runs, or 0 if it is unknown, as for compressed files and pipes.
	Bytes() int64
	// Before returns the total size of the collection runs that precede a run.
	Before(run int) int64
	// Open starts reading a collection run, after a position or, if that is nil, from the beginning.
	Open(ctx context.Context, run int, after *source.Cursor) Reader
}

// Reader reads a collection run, somewhat ahead of Next.
type Reader interface {
	// Next returns the next example. Once it returns an error, such as io.EOF, there aren't any more examples.
	Next(ctx context.Context) (Reading, error)
	// Close stops the reader, waits for it to finish, and describes the part of the collection run that it has read.
	Close() Read
}

// Reading is an example.
type Reading struct {
	Example *ttc.Example // nil if dataset.where drops the example
	At      source.Cursor
	Drops   []ledger.Drop // the source's drops that precede the example
}

// Read describes the part of a collection run that was read.
type Read struct {
	Seen  source.Stats
	Unmet int64        // number of examples that dataset.where drops
	Input source.Input // the last input
}

// DropOf returns d as the drop of an example, or of a part of it.
func DropOf(ex *ttc.Example, d ledger.Drop) ledger.Drop {
	d.Run, d.Example, d.File, d.Offset, d.Index = ex.Run, ex.ID, ex.File, ex.Offset, -1
	return d
}
