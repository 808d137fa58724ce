package builders_test

import (
	"fmt"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// TestWhatIsTrained: whatever the policy says, a turn that the model didn't sample is context.
func TestWhatIsTrained(t *testing.T) {
	turn := func(sampled ttc.Sampled, calls int) ttc.Node {
		return ttc.Node{Sampled: sampled, Message: chat.Message{Role: "assistant", ToolCalls: make([]chat.ToolCall,
			calls)}}
	}
	nodes := []ttc.Node{
		{Sampled: ttc.Yes, Message: chat.Message{Role: "user"}},
		turn(ttc.Yes, 1), turn(ttc.No, 1), turn(ttc.Assumed, 0), turn(ttc.No, 0),
	}
	for train, want := range map[builders.Train]string{
		builders.TrainAll:     "[false true false true false]",
		builders.TrainLast:    "[false false false true false]",
		builders.TrainCalls:   "[false true false false false]",
		builders.TrainFlagged: "[false false false true false]",
	} {
		if got := fmt.Sprint(train.Turns(nodes, []bool{true, false, true, true, true})); got != want {
			t.Errorf("policy %d: got %s, want %s", train, got, want)
		}
	}
}

// TestEditedIsPartial: what an edited context supports is less than its example does, and it says why.
func TestEditedIsPartial(t *testing.T) {
	r := &builders.Resolved{
		Record: &builders.Demonstration{}, Origin: &builders.Origin{Fidelity: ttc.IDs, Gaps: ttc.NoTools},
	}
	if r.Fidelity() != ttc.IDs || len(r.Gaps()) != 1 {
		t.Error(r.Fidelity(), r.Gaps())
	}
	r.Record.Header().Edits = builders.FailedCallsRemoved
	if got := r.Gaps(); r.Fidelity() != ttc.Partial || len(got) != 2 || got[1] != "failed_calls_removed" {
		t.Error(r.Fidelity(), got)
	}
}
