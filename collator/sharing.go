package collator

import (
	"fmt"
	"slices"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/internal/prefix"
)

// forwarded measures the work of a model's forward passes in tokens and attention pairs. A pair consists of a token and
// a token that it attends to, which may be the same one.
type forwarded struct {
	Tokens int64 `json:"tokens"`
	Pairs  int64 `json:"attended_pairs"`
}

// add adds a sequence of n tokens, whose first common tokens have already been forwarded.
func (f *forwarded) add(n, common int) {
	pairs := func(n int64) int64 { return n * (n + 1) / 2 }
	f.Tokens += int64(n - common)
	f.Pairs += pairs(int64(n)) - pairs(int64(common))
}

// sharing counts the forward passes over sft and rl rows in three ways: with every row counted in full, with every
// shared prefix counted once per record (a rollout), and with every shared prefix counted once per group (a task).
// Loaders that pack prefix trees forward a shared prefix only once.
type sharing struct {
	Alone  forwarded `json:"alone"`
	Record forwarded `json:"once_per_record"`
	Group  forwarded `json:"once_per_group"`
}

// Words describes the cost, or returns "" if counting shared prefixes once per task saves at most a sixth of the
// tokens. counts holds the counts of all batches.
func (s *sharing) Words(counts map[string]batch.Count) string {
	if 5*s.Alone.Tokens <= 6*s.Group.Tokens {
		return ""
	}
	inBatch := int64(0)
	for _, c := range counts {
		inBatch += c.Distinct
	}
	once := func(f forwarded) string {
		return fmt.Sprintf("%d (%.1f times fewer, %d pairs)", f.Tokens, float64(s.Alone.Tokens)/float64(f.Tokens), f.Pairs)
	}
	text := fmt.Sprintf("forwarding every row in full takes %d tokens and %d attended pairs; forwarding each shared "+
		"prefix once per record takes %s, once per task %s, once per batch %d (%.1f times fewer)", s.Alone.Tokens,
		s.Alone.Pairs, once(s.Record), once(s.Group), inBatch, float64(s.Alone.Tokens)/float64(inBatch))
	if s.Alone.Tokens > 2*s.Record.Tokens {
		text += `; natgo's trainers forward a prefix once with pack="tree" (plugins/python/README.md), and ` +
			"`collator.batch_by: task` keeps the rows of a task together"
	}
	return text
}

// sharedRow is a row of the current group.
type sharedRow struct {
	prefix.Place
	length int
	kept   bool // the row is in a batch
}

// share finds the prefixes that the rows of a group's outcomes share.
func share(outcomes []outcome) {
	var all [][]int32
	var made []*rowCounts
	for i := range outcomes {
		o := &outcomes[i]
		first := len(all)
		for k := range o.Rows {
			if r := &o.Rows[k]; len(r.Sides) == 1 {
				o.Made[k].Length = len(r.Sides[0].IDs)
				all, made = append(all, r.Sides[0].IDs), append(made, &o.Made[k])
			}
		}
		for k, p := range prefix.Places(all[first:]) {
			o.Once.add(made[first+k].Length, p.Common)
		}
	}
	for i, p := range prefix.Places(all) {
		made[i].Place = p
	}
}

// count appends a record's rows to group. If kept is set, the rows are in batches, and count also adds their cost to s.
func (s *sharing) count(o *counts, kept bool, group []sharedRow) []sharedRow {
	for i := range o.Made {
		r := &o.Made[i]
		if r.Length == 0 {
			continue
		}
		if kept {
			s.Alone.add(r.Length, 0)
		}
		group = append(group, sharedRow{r.Place, r.Length, kept})
	}
	if kept {
		s.Record.Tokens += o.Once.Tokens
		s.Record.Pairs += o.Once.Pairs
	}
	return group
}

// endGroup counts a group's rows, with each shared prefix counted once. The prefix shared by two successive kept rows
// is the one that these two and all rows between them share.
func (s *sharing) endGroup(rows []sharedRow) {
	slices.SortFunc(rows, func(a, b sharedRow) int { return a.Rank - b.Rank })
	common := 0
	for _, r := range rows {
		common = min(common, r.Common)
		if r.kept {
			s.Group.add(r.length, common)
			common = r.length
		}
	}
}
