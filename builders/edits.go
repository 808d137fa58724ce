package builders

import "github.com/nat-go/nat-go/ttc"

// Edits is a set of intentional differences between a record's messages and its example's. Turns after an edit are
// trained in a context that the model didn't have, so the fidelity of an edited record is partial.
type Edits uint8

// The edits.
const (
	FailedCallsRemoved Edits = 1 << iota // failed tool calls and their results were removed

	allEdits Edits = 1<<iota - 1
)

// editNames are the names of the edits in files, in bit order.
var editNames = [...]string{"failed_calls_removed"}

// Known returns the edits that have a name in this version.
func (e Edits) Known() Edits { return e & allEdits }

// Names lists the edits, in a fixed order.
func (e Edits) Names() (out []string) {
	for i, name := range editNames {
		if e&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// Fidelity returns ttc.Partial if the record's messages were edited, and otherwise the fidelity of its example.
func (r *Resolved) Fidelity() ttc.Fidelity {
	if r.Record.Header().Edits != 0 {
		return ttc.Partial
	}
	return r.Origin.Fidelity
}

// Gaps lists the reasons why the fidelity is not higher: the trace's gaps, then the edits to the record's messages.
func (r *Resolved) Gaps() []string {
	return append(r.Origin.Gaps.Names(), r.Record.Header().Edits.Names()...)
}

// Turns reports, for each message, whether it is trained on under the policy; only TrainFlagged uses flags. A message
// that the model didn't sample is never trained on.
func (t Train) Turns(nodes []ttc.Node, flags []bool) []bool {
	out := make([]bool, len(nodes))
	last := -1
	for i := range nodes {
		n := &nodes[i]
		if n.Message.Role != "assistant" || n.Sampled == ttc.No {
			continue
		}
		last = i
		switch t {
		case TrainAll:
			out[i] = true
		case TrainCalls:
			out[i] = len(n.Message.ToolCalls) > 0
		case TrainFlagged:
			out[i] = i < len(flags) && flags[i]
		}
	}
	if t == TrainLast && last >= 0 {
		out[last] = true
	}
	return out
}
