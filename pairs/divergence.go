package pairs

import (
	"slices"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Divergence is the point where two rollouts diverge, and the model's next action in each of them.
type Divergence struct {
	Shared int // number of leading messages that the rollouts share, which form the prompt
	// EndA and EndB are the indices after the last message that the model wrote in each rollout. Anything later -
	// results that were never answered - can't be trained on.
	EndA, EndB int
}

// Diverge finds where two rollouts of a task diverge; a and b are the messages of each, in order. Tool call ids are
// ignored, because every rollout generates new ones. The reason says why they don't form a pair: they diverge at a
// message from the environment rather than from the model, one of them continues after the other ends, or their first
// messages differ.
func Diverge(a, b []*ttc.Node) (d Divergence, why ledger.Reason) {
	for d.Shared < min(len(a), len(b)) && sameNode(a[d.Shared], b[d.Shared]) {
		d.Shared++
	}
	switch {
	case d.Shared == 0:
		return d, DifferentSetup
	case d.Shared == len(a) || d.Shared == len(b):
		return d, OneGoesOn
	case !written(a[d.Shared]) || !written(b[d.Shared]):
		return d, EnvironmentParted
	}
	d.EndA, d.EndB = end(a), end(b)
	return d, ""
}

// sameNode reports whether two nodes have the same message, ignoring call ids.
func sameNode(a, b *ttc.Node) bool {
	x, y := a.Message, b.Message
	x.ToolCallID, y.ToolCallID = "", ""
	x.ToolCalls, y.ToolCalls = nameless(x.ToolCalls), nameless(y.ToolCalls)
	return chat.Equal(&x, &y)
}

func nameless(calls []chat.ToolCall) []chat.ToolCall {
	calls = slices.Clone(calls)
	for i := range calls {
		calls[i].ID = ""
	}
	return calls
}

// written reports whether the model wrote this message in this rollout.
func written(n *ttc.Node) bool { return n.Message.Role == "assistant" && n.Sampled != ttc.No }

func end(nodes []*ttc.Node) int {
	for i := len(nodes); i > 0; i-- {
		if written(nodes[i-1]) {
			return i
		}
	}
	return 0
}

// Setup returns the number of messages before the first one the model wrote, which form the rollout's initial prompt.
func Setup(nodes []*ttc.Node) int {
	if i := slices.IndexFunc(nodes, written); i >= 0 {
		return i
	}
	return len(nodes)
}

// SameSetup reports whether two rollouts began with the same messages.
func SameSetup(a, b []*ttc.Node) bool {
	n := Setup(a)
	return n == Setup(b) && slices.EqualFunc(a[:n], b[:n], sameNode)
}

// SameSystem reports whether two rollouts began with the same system prompt, regardless of their users' messages.
func SameSystem(a, b []*ttc.Node) bool {
	return slices.EqualFunc(System(a), System(b), sameNode)
}

// System returns the system messages before the first message the model wrote.
func System(nodes []*ttc.Node) (out []*ttc.Node) {
	for _, n := range nodes[:Setup(nodes)] {
		if n.Message.Role == "system" || n.Message.Role == "developer" {
			out = append(out, n)
		}
	}
	return out
}

// DivergeAtAction finds the turns in which two rollouts first act differently, having made the same calls and read the
// same results until then. Text in between is not compared, since each user words things differently. If there are no
// such turns, the reason says why: the same calls had different results, or one rollout takes no further action.
// Rollouts without any action can't be compared.
func DivergeAtAction(a, b []*ttc.Node) (turnA, turnB int, why ledger.Reason) {
	for why = DifferentSetup; ; why = OneGoesOn {
		turnA, turnB = nextAction(a, turnA), nextAction(b, turnB)
		if turnA == len(a) || turnB == len(b) {
			return 0, 0, why
		}
		if !sameCalls(&a[turnA].Message, &b[turnB].Message) {
			return turnA, turnB, ""
		}
		turnA, turnB = turnA+1, turnB+1
		readA, readB := results(a[turnA:]), results(b[turnB:])
		if !slices.EqualFunc(readA, readB, sameNode) {
			return 0, 0, EnvironmentParted
		}
		turnA, turnB = turnA+len(readA), turnB+len(readB)
	}
}

// nextAction returns the index of the first turn with calls at or after from, or the number of messages.
func nextAction(nodes []*ttc.Node, from int) int {
	for i := from; i < len(nodes); i++ {
		if written(nodes[i]) && len(nodes[i].Message.ToolCalls) > 0 {
			return i
		}
	}
	return len(nodes)
}

func sameCalls(a, b *chat.Message) bool {
	x, y := chat.Message{ToolCalls: nameless(a.ToolCalls)}, chat.Message{ToolCalls: nameless(b.ToolCalls)}
	return chat.Equal(&x, &y)
}

// results returns the tool results that nodes begin with.
func results(nodes []*ttc.Node) []*ttc.Node {
	n := 0
	for n < len(nodes) && nodes[n].Message.Role == "tool" {
		n++
	}
	return nodes[:n]
}
