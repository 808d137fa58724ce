package sdpo

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/internal/emit"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// repair emits the other records of a repaired failure: a preference for the successful call over the failed one, and
// the successful turn as a demonstration.
func (w *work) repair(t *trace, f *failure) {
	pairs, demos := w.cfg.emits(emitRepairPairs), w.cfg.emits(emitDemonstrations)
	if !pairs && !demos {
		return
	}
	good := t.corrected(f)
	if good < 0 {
		w.dropSite(f, NoRepair, "")
		return
	}
	head := builders.Head{Example: w.at, Metadata: t.metadata(f, good)}
	if demos {
		trained := make([]bool, good+1)
		trained[good] = true
		w.records++
		w.out.Record(&builders.Demonstration{
			Head: head, Messages: emit.Span(w.at, t.nodes[good], 0),
			Train: builders.TrainFlagged, Trained: trained, Weight: 1,
		})
	}
	if !pairs {
		return
	}
	if f.turn == 0 || t.walk[f.turn].Sampled == ttc.No {
		w.dropSite(f, ledger.TurnNotSampled, "a pair needs a prompt and a turn sampled from the model")
		return
	}
	w.records++
	w.out.Record(&builders.Preference{
		Head:   head,
		Prompt: emit.Span(w.at, t.nodes[f.turn-1], 0),
		// Written inline, because any token ids of the turns were sampled with another prompt.
		Chosen: emit.Inline(t.walk[good].Message), Rejected: emit.Inline(t.walk[f.turn].Message),
		Reward: 1, ScoreName: "call_worked", ChosenScore: 1, RejectedScore: 0, RejectedIndex: 0, ChosenIndex: 1,
		// The chosen turn was sampled after the error, not with this prompt, so it is off-policy here, regardless of
		// the model that sampled it.
		ChosenPolicy:   strings.TrimSpace(w.group.Examples[w.at].Policy + " after the error"),
		RejectedPolicy: cmp.Or(t.walk[f.turn].Policy, w.group.Examples[w.at].Policy),
	})
}

// corrected returns the position of the turn that repaired a failed call: the next successful call to the same tool,
// with only messages from the model and its tools in between. All calls in that turn must have succeeded. It returns -1
// if no turn qualifies.
func (t *trace) corrected(f *failure) int {
	failed := t.failedTurns()
	for i := range t.calls {
		c := &t.calls[i]
		if c.turn <= f.turn || c.made.Name != f.made.Name || failed[c.turn] || t.walk[c.turn].Sampled == ttc.No {
			continue
		}
		for _, n := range t.walk[f.turn+1 : c.turn] {
			if m := &n.Message; m.Role != "assistant" && !isResult(m) {
				return -1
			}
		}
		if strings.TrimSpace(c.made.Arguments) == strings.TrimSpace(f.made.Arguments) {
			return -1 // the same call succeeded later, so the call wasn't at fault
		}
		return c.turn
	}
	return -1
}

// metadata describes the origin of a repair.
func (t *trace) metadata(f *failure, good int) json.Raw {
	m := json.AppendString([]byte(`{"off_policy": true, "class": `), f.class)
	m = json.AppendString(append(m, `, "tool": `...), f.made.Name)
	return fmt.Appendf(m, `, "failed_message": %d, "corrected_message": %d}`, f.turn, good)
}
