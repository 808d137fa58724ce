package pairs

import (
	"slices"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Divergence is where two rollouts part, and what the model did in each of them afterwards.
type Divergence struct {
	Shared int // number of messages both begin with: the prompt
	// EndA and EndB are the indices after the last message that the model wrote in each rollout. Anything later -
	// results that were never answered - can't be trained.
	EndA, EndB int
}

// Diverge finds where two rollouts of a task part; a and b are the messages of each, in order. Tool call ids are
// ignored, because every rollout draws new ones. The reason says why there is no pair: they part at a message from the
// environment, so the model did nothing differently there; one continues where the other ends; or they share nothing.
func Diverge(a, b []*ttc.Node) (d Divergence, why ledger.Reason) {
	for d.Shared < min(len(a), len(b)) && sameMessage(&a[d.Shared].Message, &b[d.Shared].Message) {
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

// sameMessage compares two messages, ignoring the ids of their calls.
func sameMessage(a, b *chat.Message) bool {
	x, y := *a, *b
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

// Setup returns the number of messages before the first one the model wrote: what the rollout was given to start with.
func Setup(nodes []*ttc.Node) int {
	if i := slices.IndexFunc(nodes, written); i >= 0 {
		return i
	}
	return len(nodes)
}

// SameSetup reports whether two rollouts began with the same messages.
func SameSetup(a, b []*ttc.Node) bool {
	n := Setup(a)
	return n == Setup(b) && slices.EqualFunc(a[:n], b[:n], func(x, y *ttc.Node) bool {
		return sameMessage(&x.Message, &y.Message)
	})
}
