package sdpo

import (
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// call is a tool call on a walk and its outcome. Indices are positions on the walk.
type call struct {
	turn   int   // the assistant message
	seq    int   // position among its message's calls
	result int   // the first tool message that answers it; -1 if there is none
	more   []int // further tool messages that answer it
	made   *chat.ToolCall
}

// isResult reports whether a message is a tool result.
func isResult(m *chat.Message) bool { return m.Role == "tool" || m.Role == "function" }

// link finds the calls on a walk, in order, with their results. A result belongs to the nearest preceding call with its
// id, because ids repeat in real traces; among parallel calls with the same id, it belongs to the first without a
// result. A result without an id belongs to the first unanswered call in the turn just before it. orphans are results
// that don't belong to a call.
func link(walk []*ttc.Node) (calls []call, orphans []int) {
	byID := map[string][]int{} // for each id, its calls in the last turn that used it
	var turn []int             // calls of the last turn
	for at, n := range walk {
		m := &n.Message
		switch {
		case m.Role == "assistant":
			turn = nil
			for seq := range m.ToolCalls {
				made := &m.ToolCalls[seq]
				if before := byID[made.ID]; before != nil && calls[before[0]].turn != at {
					byID[made.ID] = nil
				}
				byID[made.ID] = append(byID[made.ID], len(calls))
				turn = append(turn, len(calls))
				calls = append(calls, call{turn: at, seq: seq, result: -1, made: made})
			}
		case isResult(m):
			among := turn
			if m.ToolCallID != "" {
				among = byID[m.ToolCallID]
			}
			if c := answered(calls, among, m); c < 0 {
				orphans = append(orphans, at)
			} else if calls[c].result < 0 {
				calls[c].result = at
			} else {
				calls[c].more = append(calls[c].more, at)
			}
		default:
			turn = nil
		}
	}
	return calls, orphans
}

// answered returns the call that a result belongs to: the first call without a result or, failing that, the last
// call. It returns -1 if there are no calls. A result with a name but without an id belongs to a call of that name.
func answered(calls []call, among []int, m *chat.Message) int {
	last := -1
	for _, c := range among {
		if m.ToolCallID == "" && m.Name != "" && calls[c].made.Name != m.Name {
			continue
		}
		if last = c; calls[c].result < 0 {
			return c
		}
	}
	return last
}
