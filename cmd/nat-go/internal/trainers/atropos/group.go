package atropos

import (
	"fmt"
	"math"
	"slices"

	"github.com/nat-go/nat-go/ttc/ledger"
)

// ignored is the mask of a token that is not trained on.
const ignored = -100

// lowest replaces a log-prob of minus infinity, as in vLLM, because the server can't send infinities.
const lowest = -9999

// noLogProb is Atropos's log-prob for masked positions.
const noLogProb = 1.0

// Group is a scored group, ScoredData in Atropos. Lists are indexed by sequence, then by token, and are unshifted:
// Masks[i][t] is Tokens[i][t] if that token is trained on, else -100, and all other entries at t refer to the token at
// t, given the preceding tokens.
type Group struct {
	Tokens            [][]int64      `json:"tokens"`
	Masks             [][]int64      `json:"masks"`
	Scores            []float64      `json:"scores"`
	Advantages        [][]float64    `json:"advantages,omitempty"`
	RefLogProbs       [][]float64    `json:"ref_logprobs,omitempty"`
	InferenceLogProbs [][]float64    `json:"inference_logprobs,omitempty"` // 1.0 where masked
	GenerationParams  map[string]any `json:"generation_params,omitempty"`
	// by sequence, token and rank; omitted if any sequence lacks them
	DistillTokenIDs [][][]int64    `json:"distill_token_ids,omitempty"`
	DistillLogProbs [][][]float64  `json:"distill_logprobs,omitempty"`
	GroupOverrides  map[string]any `json:"group_overrides,omitempty"` // settings for this group, such as teacher_top_k
	EnvID           *int64         `json:"env_id,omitempty"`

	// NoTeacher is the reason why check removed the group's distillation columns, if it did.
	NoTeacher string `json:"-"`
}

// fault is the reason why a group can't be sent.
type fault struct {
	reason ledger.Reason
	detail string
}

func faultf(r ledger.Reason, format string, a ...any) *fault {
	return &fault{r, fmt.Sprintf(format, a...)}
}

// check prepares a group for sending, or returns the reason why it can't be sent. It replaces log-probs of -inf, and
// removes invalid distillation columns.
func (g *Group) check(size, maxLen int, skipSame bool) *fault {
	n := len(g.Tokens)
	if n == 0 || len(g.Masks) != n || len(g.Scores) != n {
		return faultf(groupBadShape, "group has %d sequences, %d masks and %d scores", n, len(g.Masks), len(g.Scores))
	}
	if f := g.checkTokens(maxLen); f != nil {
		return f
	}
	for i, s := range g.Scores {
		if !finite(s) {
			return faultf(groupBadNumber, "score %d is %v", i, s)
		}
	}
	for _, c := range []struct {
		name string
		list [][]float64
		min  float64
	}{
		{"advantages", g.Advantages, 0},
		{"ref_logprobs", g.RefLogProbs, lowest},
		{"inference_logprobs", g.InferenceLogProbs, lowest},
	} {
		if f := g.checkColumn(c.name, c.list, c.min); f != nil {
			return f
		}
	}
	for i, row := range g.InferenceLogProbs {
		for t := range row {
			if g.Masks[i][t] == ignored {
				row[t] = noLogProb
			}
		}
	}
	if f := g.checkDistill(); f != nil { // as in Atropos itself, either all sequences have the columns or none does
		g.DistillTokenIDs, g.DistillLogProbs, g.NoTeacher = nil, nil, f.detail
	}
	switch {
	case n != size:
		return faultf(groupWrongSize, "expected %d sequences in the group, got %d", size, n)
	case skipSame && g.DistillTokenIDs == nil && allEqual(g.Scores):
		return faultf(groupSame, "all scores are %v", g.Scores[0])
	}
	return nil
}

func (g *Group) checkTokens(maxLen int) *fault {
	trained := false
	for i, seq := range g.Tokens {
		switch {
		case len(seq) == 0 || len(g.Masks[i]) != len(seq):
			return faultf(groupBadShape, "sequence %d has %d tokens and %d masks", i, len(seq), len(g.Masks[i]))
		case maxLen > 0 && len(seq) >= maxLen:
			return faultf(groupTooLong, "sequence %d has %d tokens; the limit is %d", i, len(seq), maxLen-1)
		}
		for t, id := range seq {
			m := g.Masks[i][t]
			if id < 0 || id > math.MaxInt32 || m != ignored && m != id {
				return faultf(groupBadShape, "sequence %d, position %d: invalid token %d or mask %d", i, t, id, m)
			}
			trained = trained || m != ignored
		}
	}
	if !trained {
		return faultf(groupNoTarget, "no token is trained")
	}
	return nil
}

// checkColumn checks that a column has one finite number per token. If min is below 0, it first replaces -inf by min.
func (g *Group) checkColumn(name string, list [][]float64, min float64) *fault {
	if list == nil {
		return nil
	}
	if len(list) != len(g.Tokens) {
		return faultf(groupBadShape, "%s: present for %d of %d sequences", name, len(list), len(g.Tokens))
	}
	for i, row := range list {
		if n := len(g.Tokens[i]); len(row) != n {
			return faultf(groupBadShape, "%s: sequence %d has %d values for %d tokens", name, i, len(row), n)
		}
		if f := finiteRow(name, i, row, min); f != nil {
			return f
		}
	}
	return nil
}

func finiteRow(name string, i int, row []float64, min float64) *fault {
	for t, v := range row {
		switch {
		case math.IsInf(v, -1) && min < 0:
			row[t] = min
		case !finite(v):
			return faultf(groupBadNumber, "%s: sequence %d, position %d is %v", name, i, t, v)
		}
	}
	return nil
}

func (g *Group) checkDistill() *fault {
	ids, logs := g.DistillTokenIDs, g.DistillLogProbs
	if ids == nil && logs == nil {
		return nil
	}
	if len(ids) != len(g.Tokens) || len(logs) != len(g.Tokens) {
		return faultf(groupBadShape, "distillation: got ids for %d and log-probs for %d of %d sequences",
			len(ids), len(logs), len(g.Tokens))
	}
	for i := range ids {
		if n, m := len(ids[i]), len(logs[i]); n != m || n != len(g.Tokens[i]) {
			return faultf(groupBadShape, "distillation: sequence %d has %d ids and %d log-probs for %d tokens", i, n, m,
				len(g.Tokens[i]))
		}
		for t := range ids[i] {
			n, m := len(ids[i][t]), len(logs[i][t])
			if n != m {
				return faultf(groupBadShape, "distillation: sequence %d, position %d has %d ids and %d log-probs", i, t,
					n, m)
			}
			if n == 0 && g.Masks[i][t] != ignored && t > 0 {
				return faultf(groupBadShape, "distillation: sequence %d lacks entries for the trained token at %d", i, t)
			}
			if f := finiteRow("distill_logprobs", i, logs[i][t], lowest); f != nil {
				return f
			}
		}
	}
	return nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func allEqual(s []float64) bool {
	return !slices.ContainsFunc(s, func(v float64) bool { return v != s[0] })
}
