package verifiers

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// newest is the latest tested version of traces.
const newest = "1"

// trace reads a trace from version 1: a graph of nodes.
func (r *reader) trace(raw, episode json.Raw, part session.Kept) {
	if v, ok := raw.Get("version"); ok {
		r.tally.Wrote(source.Version{Program: "verifiers trace", Number: source.IDText(v), Newest: newest})
	}
	s := r.limits.New(source.IDText(session.At(raw, "id")))
	s.Task, s.Reward = taskOf(raw, episode), rewardOf(raw)
	list, nodes := session.At(raw, "tools"), session.At(raw, "nodes")
	if list == nil {
		list = session.At(session.First(nodes), "tools")
	}
	t := &tree{s: s, tools: exchange.Tools(list), calls: callsOf(raw)}
	for node := range nodes.Elements() {
		if err := t.add(node); err != nil {
			r.tally.DropSession(source.BadExample, err.Error(), s.ID, part.Path, part.Offset)
			return
		}
	}
	if why, detail := unusable(raw); why != "" {
		for range t.sampled {
			r.tally.DropCall(why, detail, s.ID, part.Path, part.Offset)
		}
		return
	}
	t.addCalls(part)
	r.out = append(r.out, s)
}

// unusable returns the reason why nothing in a trace can be trained on, or "" if the trace is usable.
func unusable(raw json.Raw) (ledger.Reason, string) {
	if trainable, ok := session.Value(session.At(raw, "agent"), "trainable").Bool(); ok && !trainable {
		return NotTrainable, ""
	}
	if fine, ok := session.Value(raw, "ok").Bool(); ok && !fine {
		return FailedRollout, "the rollout ended with " + session.Text(raw, "stop_condition")
	}
	if session.Text(raw, "stop_condition") == "error" {
		return FailedRollout, "the rollout ended in an error"
	}
	return "", ""
}

// taskOf returns the task that trials of one problem share: its key, its hash, the id of its group, or its index in its
// environment.
func taskOf(raw, episode json.Raw) string {
	task := session.At(raw, "task")
	if task == nil {
		task = session.At(episode, "task")
	}
	id := cmp.Or(session.Text(task, "key"), session.Text(task, "hash"), session.Text(episode, "group", "id"))
	if index := session.At(task, "data", "idx"); id == "" && index != nil {
		return session.Text(episode, "env", "id") + "/" + session.Text(task, "type") + "/" + source.IDText(index)
	}
	return id
}

// rewardOf returns the weighted sum of the scores. A null score is missing, not zero.
func rewardOf(raw json.Raw) *float64 {
	var sum *float64
	for _, r := range session.At(raw, "rewards").Members() {
		score := session.Finite(session.At(r, "score"))
		if score == nil {
			continue
		}
		weight := 1.0
		if x, ok := session.Value(r, "weight").Float64(); ok {
			weight = x
		}
		if sum == nil {
			sum = new(float64)
		}
		*sum += *score * weight
	}
	return sum
}

// tree holds the nodes of a trace.
type tree struct {
	s       *calls.Session
	tools   []chat.Tool
	nodes   []treeNode
	sampled []int
	calls   map[int]json.Raw
}

type treeNode struct {
	parent  int
	ref     calls.Ref
	call    calls.Call
	sampled bool
}

func callsOf(raw json.Raw) map[int]json.Raw {
	out := map[int]json.Raw{}
	for c := range session.At(raw, "calls").Elements() {
		if n, ok := session.Value(c, "node").Int64(); ok {
			out[int(n)] = c
		}
	}
	return out
}

// add adds a node.
func (t *tree) add(raw json.Raw) error {
	n := treeNode{parent: -1}
	if p, ok := session.Value(raw, "parent").Int64(); ok {
		if p < 0 || p >= int64(len(t.nodes)) {
			return fmt.Errorf("node %d has the parent %d, which doesn't come before it", len(t.nodes), p)
		}
		n.parent = int(p)
	}
	m, err := message(session.At(raw, "message"))
	if err != nil {
		return fmt.Errorf("node %d: %w", len(t.nodes), err)
	}
	n.sampled, _ = session.Value(raw, "sampled").Bool()
	ids := session.At(raw, "token_ids")
	full := exchange.TokenIDs(ids)
	tokens := uint64(0)
	if len(full) > 0 && m.Role == "assistant" {
		tokens = xxh3.Hash(ids)
	}
	if n.sampled && m.Role == "assistant" {
		finish := session.Text(t.calls[len(t.nodes)], "finish_reason")
		n.call = calls.Call{Output: m, Tokens: tokens, Tools: t.tools, FinishReason: finish}
		if err := n.tokens(raw, full); err != nil {
			return fmt.Errorf("node %d: %w", len(t.nodes), err)
		}
		t.sampled = append(t.sampled, len(t.nodes))
	}
	n.ref = t.s.Message(calls.Message{Message: m, Tokens: tokens})
	t.nodes = append(t.nodes, n)
	return nil
}

// tokens reads the ids that the model wrote, according to the mask; the others come from the template. The log-probs
// are either missing or given for each id that the model wrote.
func (n *treeNode) tokens(raw json.Raw, full []int32) error {
	if len(full) == 0 {
		return nil
	}
	i := 0
	out := []int32{}
	for e := range session.At(raw, "mask").Elements() {
		if wrote, _ := e.Bool(); wrote && i < len(full) {
			out = append(out, full[i])
		}
		i++
	}
	if i != len(full) {
		return fmt.Errorf("expected a mask for %d ids, got one of length %d", len(full), i)
	}
	probs := []float32{}
	for e := range session.At(raw, "logprobs").Elements() {
		f, ok := e.Float64()
		if !ok || math.IsNaN(f) || f > 0 {
			return fmt.Errorf("invalid log-prob: %s", e)
		}
		probs = append(probs, float32(f))
	}
	if len(out) == 0 {
		return nil
	}
	n.call.TokenIDs = out
	switch len(probs) {
	case 0:
	case len(out):
		n.call.LogProbs = probs
	default:
		return fmt.Errorf("%d log-probs for %d ids", len(probs), len(out))
	}
	return nil
}

// addCalls adds a call for each sampled node.
func (t *tree) addCalls(part session.Kept) {
	for _, i := range t.sampled {
		if t.s.TooLarge() {
			return
		}
		c := t.nodes[i].call
		for p := t.nodes[i].parent; p >= 0; p = t.nodes[p].parent {
			c.Input = append(c.Input, t.nodes[p].ref)
		}
		slices.Reverse(c.Input)
		meta := t.calls[i]
		c.ID = t.s.ID + "/" + strconv.Itoa(i)
		c.Model = session.Text(meta, "model")
		c.Time = int64(i) + 1
		c.Time = cmp.Or(session.Seconds(session.Value(session.At(meta, "time"), "start")), c.Time)
		usage := session.At(meta, "usage")
		c.Usage = calls.Usage{Input: count(usage, "prompt_tokens"), Output: count(usage, "completion_tokens")}
		c.File, c.Offset = part.Path, part.Offset
		t.s.Add(c)
	}
}

func count(raw json.Raw, key string) int64 {
	f, _ := session.Value(raw, key).Float64()
	return int64(f)
}
