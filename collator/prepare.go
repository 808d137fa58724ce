package collator

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/fanout"
)

// Group are records that are collated together, and what Prepare made of them, where that was done before.
type Group struct {
	Items    []Item
	Prepared []byte // nil: nothing was
}

// Prepare does the part of Collate that depends on nothing but the group itself, which is nearly all the work: it makes
// the rows of its records. put is called in the order of the groups, from one goroutine, with what CollatePrepared
// takes for the group. Records that curation would leave out are prepared, too.
func (c *Collator) Prepare(ctx context.Context, groups iter.Seq2[[]Item, error], put func([]byte) error) error {
	workers := max(1, c.cfg.Workers)
	start := func() fanout.Worker[[]Item, []byte] {
		w := c.worker()
		return fanout.Worker[[]Item, []byte]{
			Work: func(items []Item) ([]byte, error) {
				outcomes, err := w.Work(Group{Items: items})
				if err != nil {
					return nil, err
				}
				return appendOutcomes(nil, outcomes)
			},
			Stop: w.Stop,
		}
	}
	return fanout.Ordered(ctx, workers, 4*workers, groups, start, func(_ []Item, b []byte) error { return put(b) })
}

// prepared is an outcome as it is kept: what is counted of its rows, whose encodings follow.
type prepared struct {
	Refused   *cause        `json:",omitempty"`
	Turns     int           `json:",omitempty"`
	TurnDrops []cause       `json:",omitempty"`
	Sites     int           `json:",omitempty"`
	SiteDrops []cause       `json:",omitempty"`
	Reasoning int           `json:",omitempty"`
	Calls     int           `json:",omitempty"`
	Rows      []preparedRow `json:",omitempty"`
}

type preparedRow struct {
	IDs      string
	OnPolicy string
	Args     string
	Flags    []string `json:",omitempty"`
	Open     int      `json:",omitempty"`
	RL       bool     `json:",omitempty"`
}

// appendOutcomes encodes what became of the records of a group.
func appendOutcomes(dst []byte, outcomes []outcome) ([]byte, error) {
	kept := make([]prepared, len(outcomes))
	for i := range outcomes {
		o := &outcomes[i]
		kept[i] = prepared{
			Refused: o.Refused, Turns: o.Turns, TurnDrops: o.TurnDrops, Sites: o.Sites, SiteDrops: o.SiteDrops,
			Reasoning: o.left.reasoning, Calls: o.left.calls,
		}
		for k := range o.Rows {
			m := &o.Rows[k].Meta
			kept[i].Rows = append(kept[i].Rows, preparedRow{
				IDs: m.IDs, OnPolicy: m.OnPolicy, Args: m.Args, Flags: m.Flags, Open: len(m.Open), RL: m.RL != nil,
			})
		}
	}
	head, err := json.Marshal(kept)
	if err != nil {
		return nil, err
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(head)))
	dst = append(dst, head...)
	for i := range outcomes {
		for _, e := range outcomes[i].encoded {
			dst = e.Append(dst)
			e.Free()
		}
	}
	return dst, nil
}

var errPrepared = errors.New("what was prepared of a group is damaged")

// readOutcomes decodes what appendOutcomes made of a group of so many records.
func readOutcomes(b []byte, items []Item) ([]outcome, error) {
	if len(b) < 4 || uint64(len(b)-4) < uint64(binary.LittleEndian.Uint32(b)) {
		return nil, errPrepared
	}
	n := int(binary.LittleEndian.Uint32(b))
	var kept []prepared
	if err := json.Unmarshal(b[4:4+n], &kept); err != nil {
		return nil, fmt.Errorf("%w: %v", errPrepared, err)
	}
	if len(kept) != len(items) {
		return nil, fmt.Errorf("%w: it is of %d records, and the group has %d", errPrepared, len(kept), len(items))
	}
	b = b[4+n:]
	outcomes := make([]outcome, len(kept))
	for i := range kept {
		k, o := &kept[i], &outcomes[i]
		*o = outcome{
			Refused: k.Refused, Turns: k.Turns, TurnDrops: k.TurnDrops, Sites: k.Sites, SiteDrops: k.SiteDrops,
			left: leftOut{reasoning: k.Reasoning, calls: k.Calls}, Rows: make([]batch.Row, len(k.Rows)),
		}
		for j, r := range k.Rows {
			m := &o.Rows[j].Meta
			m.IDs, m.OnPolicy, m.Args, m.Flags, m.Open = r.IDs, r.OnPolicy, r.Args, r.Flags, make([]int, r.Open)
			if r.RL {
				m.RL = &batch.Scored{}
			}
			e, rest, err := batch.ReadEncoded(b)
			if err != nil {
				return nil, err
			}
			o.encoded, b = append(o.encoded, e), rest
		}
	}
	if len(b) > 0 {
		return nil, errPrepared
	}
	return outcomes, nil
}
