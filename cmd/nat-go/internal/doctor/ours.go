package doctor

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"path/filepath"

	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Side is one sequence in a row: the row itself, or the chosen or rejected one.
type Side struct {
	Name    string
	IDs     []int32
	Trained []bool   // whether each token is trained; false for the first token, which can't be predicted
	class   []string // the kind of each token; set only for our rows
}

// The kinds of tokens, in words.
const (
	classTurns     = "assistant turns"
	classUntrained = "assistant turns that we don't train on"
	classTemplate  = "template text"
)

var classOfOwner = map[string]string{
	batch.InLoss: classTurns, batch.Markup: classTemplate, batch.Tools: "tool definitions",
	batch.Filler: "template filler (no model wrote it)", batch.CutOff: "ends of turns that were cut off",
	batch.NotSampled: classUntrained, batch.OtherRow: classUntrained, batch.Policy: classUntrained,
}

var classOfRole = map[string]string{
	"tool":      "tool results",
	"function":  "tool results",
	"user":      "user messages",
	"system":    "system messages",
	"developer": "system messages",
}

// collate builds our rows from rows that are not tokenised yet, one per conversation, as trainers of text rows do. It
// sets the field ours of each row or, if the collator refuses the row, the field why.
func collate(ctx context.Context, cfg collator.Config, in *Input, scratch string) error {
	cfg.Rows, cfg.Layout, cfg.Workers = collator.Trajectory, batch.Padded, 1
	cfg.BatchTokens = max(cfg.BatchTokens, cfg.MaxLength)
	c, err := collator.New(cfg)
	if err != nil {
		return err
	}
	var rows []*row // by ordinal
	byExample := map[string]*row{}
	for _, r := range in.rows {
		if r.item != nil {
			rows, byExample[r.item.Hash] = append(rows, r), r
		}
	}
	var items iter.Seq2[[]collator.Item, error] = func(yield func([]collator.Item, error) bool) {
		for _, r := range rows {
			if !yield([]collator.Item{*r.item}, nil) {
				return
			}
		}
	}
	if len(byExample) == 0 {
		return nil
	}
	_, err = c.Collate(ctx, items, scratch, scratch, func(d ledger.Drop) {
		if r := byExample[d.Example]; r != nil && (d.Unit == "record" || r.why == "") {
			r.why = fmt.Sprintf("%s: %s", d.Reason, d.Detail)
		}
	})
	if err != nil {
		return err
	}
	dir := filepath.Join(scratch, "batches")
	return batch.EachLine(filepath.Join(dir, batch.IndexName), func(l *batch.Line) error {
		made, err := batch.Read(dir, l)
		if err != nil {
			return err
		}
		for _, b := range made {
			r := rows[b.Meta.Ordinal]
			r.ours = sidesOf(b, r.roles)
		}
		return nil
	})
}

// sidesOf returns the sides of a row in a batch. roles holds the roles of each side's messages.
func sidesOf(b *batch.Row, roles [][]string) []Side {
	names := sideNames[sft]
	if len(b.Sides) == 2 {
		names = sideNames[dpo]
	}
	out := make([]Side, len(names))
	for k := range out {
		from := &b.Sides[k]
		s := Side{
			Name: names[k], IDs: from.IDs, Trained: make([]bool, len(from.IDs)),
			class: make([]string, len(from.IDs)),
		}
		for _, run := range from.Trained {
			for i := run.Start; i < run.End; i++ {
				s.Trained[i] = true
			}
		}
		var owners batch.Owners
		if k < len(b.Meta.Proof) {
			owners = b.Meta.Proof[k].Owners
		}
		at := 0
		for _, o := range owners {
			class := classOfOwner[o.Why]
			if o.Why == batch.Context {
				class = "context"
				if k < len(roles) && o.Message >= 0 && o.Message < len(roles[k]) {
					role := roles[k][o.Message]
					class = cmp.Or(classOfRole[role], fmt.Sprintf("messages with role %q", role))
				}
			}
			for ; at < o.End && at < len(s.class); at++ {
				s.class[at] = class
			}
		}
		out[k] = s
	}
	return out
}
