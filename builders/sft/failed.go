package sft

import (
	"fmt"
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/internal/emit"
	"github.com/nat-go/nat-go/builders/internal/evidence"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// failure holds a turn's failed calls, which may be some or all of its calls.
type failure struct {
	calls   []int // positions of the failed calls in the turn
	results []int // the messages that show the failures, by position in the walk
}

// failures finds the failed calls on a walk, by the turn that made them.
func failures(g *ttc.Graph, walk []int) map[int]failure {
	var out map[int]failure
	for i, n := range walk {
		m := &g.Nodes[n].Message
		if m.Role != "assistant" || len(m.ToolCalls) == 0 {
			continue
		}
		f := failure{}
		next := 0
		for k := i + 1; k < len(walk) && g.Nodes[walk[k]].Message.Role == "tool"; k++ {
			result := &g.Nodes[walk[k]]
			call := callOf(m, &result.Message, next)
			next = call + 1
			if call < len(m.ToolCalls) && failed(result, &m.ToolCalls[call]) {
				f.calls, f.results = append(f.calls, call), append(f.results, k)
			}
		}
		if f.calls != nil {
			if out == nil {
				out = map[int]failure{}
			}
			out[i] = f
		}
	}
	return out
}

// callOf returns the call that a result answers, matched by id or, without ids, by position.
func callOf(m, result *chat.Message, next int) int {
	if result.ToolCallID != "" {
		for i := range m.ToolCalls {
			if m.ToolCalls[i].ID == result.ToolCallID {
				return i
			}
		}
	}
	return next
}

func failed(n *ttc.Node, call *chat.ToolCall) bool {
	if flagged, _ := evidence.Flagged(n); flagged || n.Error != nil {
		return flagged
	}
	args := call.Parsed
	if args.Kind() != json.Object {
		args = nil
	}
	return evidence.Read(n.Message.AllText(), evidence.Call{Arguments: args}).Failed
}

// withoutFailed returns the walk as messages, without failed calls, and reports which messages are trained on. A turn
// is removed if all of its calls failed; otherwise only the failed calls are removed.
func withoutFailed(
	g *ttc.Graph, walk []int, flags []bool, fs map[int]failure,
) (messages []chat.Message, trained []bool) {
	var out []int // positions of the omitted results
	for _, f := range fs {
		out = append(out, f.results...)
	}
	for i, n := range walk {
		m := g.Nodes[n].Message
		f, some := fs[i]
		switch {
		case some && len(f.calls) == len(m.ToolCalls), slices.Contains(out, i):
			continue
		case some:
			calls := []chat.ToolCall{}
			for k, c := range m.ToolCalls {
				if !slices.Contains(f.calls, k) {
					calls = append(calls, c)
				}
			}
			m.ToolCalls = calls
		}
		messages, trained = append(messages, m), append(trained, flags[i])
	}
	return messages, trained
}

// recorded reports whether the token ids of a walk were recorded. If so, its messages must not change.
func recorded(g *ttc.Graph, walk []int) bool {
	return slices.ContainsFunc(walk, func(n int) bool { return g.Nodes[n].TokenIDs != nil })
}

// report counts the failed calls on a walk and the turns that made them, unless an earlier branch contained them. If
// the calls are removed, it also drops each of these turns, and returns the removal as an edit.
func report(
	ex *ttc.Example, walk []int, failing map[int]failure, told []bool, remove bool, out *emit.Output,
) (edits builders.Edits) {
	calls, turns := 0, 0
	for i, n := range walk {
		f, some := failing[i]
		if some && remove {
			edits = builders.FailedCallsRemoved
		}
		if !some || told[n] {
			continue
		}
		told[n] = true
		calls, turns = calls+len(f.calls), turns+1
		if !remove {
			continue
		}
		d := builders.NewDrop(ex, "turn", RemovedCall)
		d.Index = n
		d.Detail = fmt.Sprintf("cut out: %s of %d, with results",
			ledger.Quantity(int64(len(f.calls)), "failed call"), len(ex.Graph.Nodes[n].Message.ToolCalls))
		out.Drop(d)
	}
	out.Count("failed_calls", int64(calls))
	out.Count("failed_turns", int64(turns))
	return edits
}
