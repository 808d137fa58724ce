package collator

import (
	"fmt"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// channel makes rows of one kind of record.
type channel interface {
	Kind() builders.Kind
	Batch() *batch.Channel // how its rows are written
	// Rows makes the rows of a record, or says why not all of it, or nothing, makes rows. It is called concurrently,
	// with a worker for each call, and depends on the item alone.
	Rows(w *worker, it *Item) outcome
}

// Item is a record to be collated.
type Item struct {
	Record *builders.Resolved
	Split  batch.Split
	Hash   string // names the record's content; stands in the batch's line
	// Dropped: curation left the record out. A rollout's reward still counts when others of its task are compared with
	// each other; nothing else of it does.
	Dropped bool
	Index   int // the caller's own number of the item in its group, by which Prepare has it decided on later

	ordinal int64 // place among all items
}

// outcome is what became of a record. Turns are counted apart: Turns is how many were to be trained, and TurnDrops says
// which of them are in no row.
type outcome struct {
	Rows      []batch.Row
	Refused   *cause // why there are no rows
	Turns     int
	TurnDrops []cause
	Sites     int // of a distillation; SiteDrops says which of them are in no row
	SiteDrops []cause

	left    leftOut
	encoded []*batch.Encoded
}

// leaves adds what one of the rows leaves out. The calls of a message are counted once, however many rows it stands in.
func (o *outcome) leaves(l leftOut) {
	o.left.reasoning += l.reasoning
	o.left.calls = max(o.left.calls, l.calls)
}

// cause is why a record or turn makes no row.
type cause struct {
	Reason ledger.Reason
	Detail string
}

func (r *cause) Error() string { return string(r.Reason) + ": " + r.Detail }

func refuse(reason ledger.Reason, format string, a ...any) *cause {
	return &cause{reason, fmt.Sprintf(format, a...)}
}

// refused is the outcome of a record that is refused whole.
func refused(r *cause) outcome { return outcome{Refused: r} }
