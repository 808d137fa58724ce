package collator

import (
	"fmt"
	"slices"

	"github.com/nat-go/nat-go/collator/batch"
)

// Sharing counts the forward passes over the rows of sft and rl: alone, and with each token once that has the same
// tokens before it in its record (a rollout) or its group (a task), as loaders that pack prefix trees forward it.
type Sharing struct {
	Alone  batch.Forwarded `json:"alone"`
	Record batch.Forwarded `json:"once_per_record"`
	Group  batch.Forwarded `json:"once_per_group"`
}

// Words describes the cost, or returns "" where the rows of a task have less than a sixth in common. counts are the
// counts of all batches.
func (s *Sharing) Words(counts map[string]batch.Count) string {
	if 5*s.Alone.Tokens <= 6*s.Group.Tokens {
		return ""
	}
	inBatch := int64(0)
	for _, c := range counts {
		inBatch += c.Distinct
	}
	times := func(n int64) string {
		return fmt.Sprintf("%d (%.1f times fewer)", n, float64(s.Alone.Tokens)/float64(n))
	}
	text := fmt.Sprintf("%d tokens are forwarded if each row is alone; with each prefix once per record %s, once per task %s, "+
		"once per batch %s", s.Alone.Tokens, times(s.Record.Tokens), times(s.Group.Tokens), times(inBatch))
	if s.Alone.Tokens > 2*s.Record.Tokens {
		text += `; natgo's trainers forward a prefix once with pack="tree" (plugins/python/README.md), and ` +
			"collator.batch_by task keeps the rows of a task together"
	}
	return text
}

// sharedRow is a row of the current group.
type sharedRow struct {
	batch.Place
	length int
	kept   bool // it is in a batch
}

// share finds out what the rows of a group's outcomes have in common.
func share(outcomes []outcome) {
	var rows []*batch.Row
	var made []*rowCounts
	for i := range outcomes {
		o := &outcomes[i]
		own := make([]*batch.Row, len(o.Rows))
		for k := range o.Rows {
			own[k] = &o.Rows[k]
			if len(own[k].Sides) == 1 {
				o.Made[k].Length = len(own[k].Sides[0].IDs)
				made = append(made, &o.Made[k])
			}
		}
		o.Once = batch.Once(batch.Single(own))
		rows = append(rows, own...)
	}
	for i, p := range batch.Places(batch.Single(rows)) {
		made[i].Place = p
	}
}

// count adds a record whose rows are in batches, or not.
func (s *Sharing) count(o *counts, kept bool, group []sharedRow) []sharedRow {
	for i := range o.Made {
		r := &o.Made[i]
		if r.Length == 0 {
			continue
		}
		if kept {
			s.Alone.Add(r.Length, 0)
		}
		group = append(group, sharedRow{r.Place, r.Length, kept})
	}
	if kept {
		s.Record = s.Record.Plus(o.Once)
	}
	return group
}

// endGroup counts the rows of a group once. A kept row has in common with the kept row before it what all rows between
// them have in common.
func (s *Sharing) endGroup(rows []sharedRow) {
	slices.SortFunc(rows, func(a, b sharedRow) int { return a.Rank - b.Rank })
	common := 0
	for _, r := range rows {
		common = min(common, r.Common)
		if r.kept {
			s.Group.Add(r.length, common)
			common = r.length
		}
	}
}
