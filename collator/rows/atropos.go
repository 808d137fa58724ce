package rows

import (
	"math"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
)

// atropos is Atropos's scored group (ScoredData in atroposlib 0.4), which holds a task's rollouts as token ids. The
// mask holds a token's id if the model sampled it and -100 otherwise; masked tokens have a log-prob of 1. Nothing is
// shifted.
//
// This format doesn't need a tokenizer, but accepts only rollouts whose messages all have token ids. For other
// rollouts, use the rl token channel, whose batches the trainer adapter can push as well.
var atropos = Format{
	Name:     "atropos",
	Service:  true,
	Consumer: "Atropos (run-api, ScoredData)",
	Shape:    `{"tokens": [[ids]], "masks": [[id or -100]], "scores": [numbers], "inference_logprobs": [[numbers]]}`,
	Carries:  []builders.Kind{builders.KindRollout},
	Files:    splitFiles,
	holds:    "rollouts",
	encode:   (*Encoder).atroposRow,
	parts:    []builders.Kind{builders.KindRollout},
	read:     (*rowReader).atropos,
	columns: func(builders.Kind, columns) parquet.Group {
		ids, numbers := parquet.List(parquet.Int(64)), parquet.List(parquet.Leaf(parquet.DoubleType))
		return parquet.Group{
			"tokens": parquet.List(ids), "masks": parquet.List(ids), "scores": numbers,
			"inference_logprobs": parquet.Optional(parquet.List(numbers)),
		}
	},
	together: func(r *builders.Resolved) string {
		if rollout, ok := r.Record.(*builders.Rollout); ok {
			return "task " + rollout.Task
		}
		return ""
	},
}

const (
	maskedToken   = -100
	maskedLogProb = "1.0"
	lowestLogProb = -9999 // a lower log-prob is written as this number, because JSON can't express minus infinity
)

func (e *Encoder) atroposRow(dst []byte, _ *builders.Resolved) []byte {
	rs, logProbs, some := e.records, true, false
	for i, r := range rs {
		if r.Record.(*builders.Rollout).Reward == nil {
			e.refuse("rollout %d of the task has no reward", i)
		}
		complete := e.tokens(i, r.Messages.Nodes)
		logProbs, some = logProbs && complete, some || complete
	}
	if e.err != nil {
		return dst
	}
	if some && !logProbs {
		e.omitted = append(e.omitted, "log-probs of a task in which some rollout has none")
	}
	dst = tokenLists(append(dst, `{"tokens": `...), rs, func(dst []byte, n *ttc.Node, t int) []byte {
		return strconv.AppendInt(dst, int64(n.TokenIDs[t]), 10)
	})
	dst = tokenLists(append(dst, `, "masks": `...), rs, func(dst []byte, n *ttc.Node, t int) []byte {
		if !isSampled(n) {
			return strconv.AppendInt(dst, maskedToken, 10)
		}
		return strconv.AppendInt(dst, int64(n.TokenIDs[t]), 10)
	})
	dst = append(dst, `, "scores": [`...)
	for _, r := range rs {
		dst = strconv.AppendFloat(item(dst), *r.Record.(*builders.Rollout).Reward, 'g', -1, 64)
	}
	dst = append(dst, ']')
	if logProbs {
		dst = tokenLists(append(dst, `, "inference_logprobs": `...), rs, func(dst []byte, n *ttc.Node, t int) []byte {
			if !isSampled(n) {
				return append(dst, maskedLogProb...)
			}
			return strconv.AppendFloat(dst, max(float64(n.LogProbs[t]), lowestLogProb), 'g', -1, 64)
		})
	}
	return append(dst, '}')
}

// tokens checks that every token of a rollout is known, and reports whether the log-probs of its sampled tokens are
// known too.
func (e *Encoder) tokens(rollout int, nodes []ttc.Node) (logProbs bool) {
	logProbs = true
	sampled := 0
	for i := range nodes {
		n := &nodes[i]
		if n.TokenIDs == nil {
			e.refuse("message %d of rollout %d has no token ids: use token batches (collator.tokenizer) instead", i, rollout)
		}
		if isSampled(n) {
			sampled += len(n.TokenIDs)
			logProbs = logProbs && len(n.LogProbs) == len(n.TokenIDs)
		}
	}
	if sampled == 0 {
		e.refuse("no token of rollout %d was sampled", rollout)
	}
	return logProbs
}

func isSampled(n *ttc.Node) bool { return n.Message.Role == "assistant" && n.Sampled != ttc.No }

// tokenLists appends a list for each rollout. The list has one item per token.
func tokenLists(dst []byte, rs []*builders.Resolved, token func(dst []byte, n *ttc.Node, t int) []byte) []byte {
	dst = append(dst, '[')
	for _, r := range rs {
		dst = append(item(dst), '[')
		for k := range r.Messages.Nodes {
			n := &r.Messages.Nodes[k]
			for t := range n.TokenIDs {
				dst = token(item(dst), n, t)
			}
		}
		dst = append(dst, ']')
	}
	return append(dst, ']')
}

// atropos reads a group back and checks the values, because the server checks only their types.
func (r *rowReader) atropos() *Row {
	tokens, masks, scores := r.take("tokens", json.Array), r.take("masks", json.Array), r.take("scores", json.Array)
	n, trained := 0, false
	for s := range scores.Elements() {
		n++
		if v, ok := s.Float64(); !ok || math.IsNaN(v) || math.IsInf(v, 0) {
			r.fail("scores", "holds %s", s)
		}
	}
	ids, marks := r.numbers("tokens", tokens, n), r.numbers("masks", masks, n)
	for i := range min(len(ids), len(marks)) {
		if len(ids[i]) == 0 || len(ids[i]) != len(marks[i]) {
			r.fail("masks", "has %d for %d tokens in sequence %d", len(marks[i]), len(ids[i]), i)
			break
		}
		for t, id := range ids[i] {
			if m := marks[i][t]; id < 0 || id != math.Trunc(id) || m != id && m != maskedToken {
				r.fail("masks", "has %v for token %v (sequence %d, position %d)", m, id, i, t)
			} else if m != maskedToken {
				trained = true
			}
		}
	}
	if !trained {
		r.fail("masks", "leaves no token to train")
	}
	if r.has("inference_logprobs") {
		logs := r.numbers("inference_logprobs", r.take("inference_logprobs", json.Array), n)
		for i := range min(len(ids), len(logs)) {
			if len(logs[i]) != len(ids[i]) {
				r.fail("inference_logprobs", "has %d for %d tokens in sequence %d", len(logs[i]), len(ids[i]), i)
			}
		}
	}
	r.shape = append(r.shape, "tokens: ids")
	return &Row{
		Kind:       builders.KindRollout,
		Prompt:     builders.Passage{Text: string(tokens)},
		Completion: builders.Passage{Text: string(masks) + string(scores)},
	}
}

// numbers reads n lists of finite numbers.
func (r *rowReader) numbers(key string, v json.Raw, n int) (out [][]float64) {
	for list := range v.Elements() {
		row := []float64{}
		if list.Kind() != json.Array {
			r.fail(key, "holds %s, expected a list", list.Kind())
			return nil
		}
		for x := range list.Elements() {
			f, ok := x.Float64()
			if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
				r.fail(key, "holds %s", x)
			}
			row = append(row, f)
		}
		out = append(out, row)
	}
	if len(out) != n {
		r.fail(key, "has %d sequences for %d scores", len(out), n)
	}
	return out
}
