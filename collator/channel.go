package collator

import (
	"fmt"
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/internal/prefix"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// channel makes rows from one kind of record.
type channel struct {
	kind  builders.Kind
	batch *batch.Channel // the batch channel of its rows
	// rows makes a record's rows, and returns the reasons why the record or parts of it yield no rows. It is called
	// concurrently, with a separate worker in each goroutine, and its result depends only on the item's group.
	rows func(w *worker, it *Item) outcome
}

// channels holds one channel for each kind of record.
var channels = []channel{
	{builders.KindDemonstration, batch.SFT, (*worker).demonstration},
	{builders.KindRollout, batch.RL, (*worker).scored},
	{builders.KindDistillation, batch.SDPO, (*worker).distillation},
	{builders.KindPreference, batch.DPO, (*worker).preference},
}

// channelOf returns the channel for a kind of record, or nil if there is none.
func channelOf(kind builders.Kind) *channel {
	if i := slices.IndexFunc(channels, func(c channel) bool { return c.kind == kind }); i >= 0 {
		return &channels[i]
	}
	return nil
}

// Item is a record to be collated.
type Item struct {
	Record *builders.Resolved
	Split  batch.Split
	Hash   string // identifies the record's content; appears in the batch's line
	// Dropped reports whether curation dropped the record. A rollout's reward and teacher_top_k still count for its
	// task; the rollout is otherwise ignored.
	Dropped bool
	Index   int // the caller's number for the item in its group, later passed to KeptGroup.Decide
}

// outcome is the result of collating a record.
type outcome struct {
	counts
	Rows []batch.Row
}

// counts holds the parts of an outcome that are counted. Turns is the number of turns to be trained, and TurnDrops
// lists the turns that no row trains on.
type counts struct {
	Refused   *cause  `json:",omitempty"` // reason why the record is refused
	Turns     int     `json:",omitempty"`
	TurnDrops []cause `json:",omitempty"`
	// number of a distillation's sites; SiteDrops lists those that aren't in any row
	Sites     int         `json:",omitempty"`
	SiteDrops []cause     `json:",omitempty"`
	Sizes     []int       `json:",omitempty"` // number of tokens on each row's longest side before cutting
	LeftOut   LeftOut     `json:",omitzero"`
	Made      []rowCounts `json:",omitempty"` // rows

	Once forwarded `json:",omitzero"` // forward-pass work for the record's rows, counting each shared token once
}

// rowCounts holds the counts taken from a row.
type rowCounts struct {
	IDs, OnPolicy, Args string
	Flags               []string `json:",omitempty"`
	Open                int      `json:",omitempty"`
	RL                  bool     `json:",omitempty"`

	prefix.Place     // the row's place among the group's rows that have a single sequence
	Length       int `json:",omitempty"` // number of tokens, if the row has a single sequence
}

// count counts the rows once all of them are made.
func (o *outcome) count() {
	for i := range o.Rows {
		m := &o.Rows[i].Meta
		o.Made = append(o.Made, rowCounts{
			IDs: m.IDs, OnPolicy: m.OnPolicy, Args: m.Args, Flags: m.Flags, Open: len(m.Open), RL: m.RL != nil,
		})
	}
}

// addOmissions adds a row's omissions. A message's calls are counted once, even if several rows contain the message.
func (o *outcome) addOmissions(l LeftOut) {
	o.LeftOut.Reasoning += l.Reasoning
	o.LeftOut.Calls = max(o.LeftOut.Calls, l.Calls)
}

// cause is the reason why a record, turn or site doesn't yield a row.
type cause struct {
	Reason ledger.Reason
	Detail string
}

func (r *cause) Error() string { return string(r.Reason) + ": " + r.Detail }

func refuse(reason ledger.Reason, format string, a ...any) *cause {
	return &cause{reason, fmt.Sprintf(format, a...)}
}

// refused returns the outcome for a record that is refused as a whole.
func refused(r *cause) outcome { return outcome{counts: counts{Refused: r}} }
