package collator

import (
	"fmt"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Channel makes rows of one kind of record.
type Channel interface {
	Kind() builders.Kind
	Batch() *batch.Channel // how its rows are written
	// Rows makes the rows of a record, or says why not all of it, or nothing, makes rows. It is called concurrently, with a
	// worker for each call, and must depend on the item alone.
	Rows(w *Worker, it *Item) Outcome
}

// Channels returns the channels sft, dpo, rl and sdpo.
func Channels() []Channel {
	return []Channel{demonstrations{}, preferences{}, rollouts{}, distillations{}}
}

// Item is a record to be collated.
type Item struct {
	Record  *builders.Resolved
	Split   batch.Split
	Hash    string // names the record's content; stands in the batch's line
	Ordinal int64  // place among all items; set by Collate
	// Dropped: curation left the record out. A rollout's reward still counts when others of its task are compared with each
	// other; nothing else of it does.
	Dropped bool
}

// Outcome is what became of a record. Turns are counted apart: Turns is how many were to be trained, and TurnDrops says
// which of them are in no row.
type Outcome struct {
	Rows      []batch.Row
	Refused   *Refusal // why there are no rows
	Turns     int
	TurnDrops []Refusal
	Sites     int // of a distillation; SiteDrops says which of them are in no row
	SiteDrops []Refusal

	left    leftOut
	encoded []*batch.Encoded
}

// leaves adds what one of the rows leaves out. The calls of a message are counted once, however many rows it stands in.
func (o *Outcome) leaves(l leftOut) {
	o.left.reasoning += l.reasoning
	o.left.calls = max(o.left.calls, l.calls)
}

// Refusal is why a record or turn makes no row.
type Refusal struct {
	Reason ledger.Reason
	Detail string
}

func (r *Refusal) Error() string { return string(r.Reason) + ": " + r.Detail }

func refuse(reason ledger.Reason, format string, a ...any) *Refusal {
	return &Refusal{reason, fmt.Sprintf(format, a...)}
}

// refused is the outcome of a record that is refused whole.
func refused(r *Refusal) Outcome { return Outcome{Refused: r} }
