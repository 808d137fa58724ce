package builders

import (
	"context"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Builder turns a group of examples into records. Build is a pure function of the config and the group. An error drops
// the whole group for this builder; records from other builders are kept. A builder that implements io.Closer is closed
// at the end of its session.
type Builder interface {
	Build(ctx context.Context, g *ttc.Group, out Output) error
}

// Output receives a builder's records and drops. If a method returns an error, the run has ended, and Build must
// return that error.
type Output interface {
	Record(Record) error // doesn't retain the record, so a builder may reuse it
	Drop(ledger.Drop) error
	// Count adds n to one of the builder's own counters, such as "total_turns". Counters are summed over the run and
	// shown in its statistics.
	Count(name string, n int64) error
}

// NewDrop returns a drop for all or part of an example, with the example's position in the input and an Index of -1.
func NewDrop(ex *ttc.Example, unit string, why ledger.Reason) ledger.Drop {
	return ledger.Drop{
		Stage: ledger.Build, Reason: why, Unit: unit, Run: ex.Run, Example: ex.ID, Index: -1,
		File: ex.File, Offset: ex.Offset,
	}
}

// Info describes a builder.
type Info struct {
	Name      string // the name used in YAML: "dpo_traj_builder"
	Version   string
	Stability string // "stable", "beta" or "experimental"
	Doc       string // a description of one line
	Unit      Unit
	Kinds     []Kind // the kinds of record that the builder may emit
	Config    any    // a pointer to the config struct, used only for its type; builders/schema describes the tags
	RawSteps  bool   // the builder needs Example.Steps
}

// Unit is the size of the groups that a builder works on.
type Unit uint8

// The units, finest first. A run uses the coarsest unit that any of its builders requires; a builder with a finer unit
// is called once per example.
const (
	UnitExample Unit = iota
	UnitTask
	UnitRun
)

// String returns the unit's name, as used in messages.
func (u Unit) String() string {
	return nameOf(int(u), "example", "task", "run")
}

// nameOf returns the name at an index, or "unknown" if the index is out of range.
func nameOf(index int, names ...string) string {
	if index < len(names) {
		return names[index]
	}
	return "unknown"
}

// Kind is the kind of a record.
type Kind uint8

// The kinds of record.
const (
	KindPreference Kind = iota + 1
	KindDemonstration
	KindRollout
	KindDistillation
	KindState
)

// String returns the kind's name, as used in files and messages.
func (k Kind) String() string {
	return nameOf(int(k), "unknown", "preference", "demonstration", "rollout", "distillation", "state")
}

// Record is one of *Preference, *Demonstration, *Rollout, *Distillation and *State.
type Record interface {
	Kind() Kind
	Header() *Head
}

// Head holds the fields common to all records.
type Head struct {
	Example  int      // index in the group of the example that the record comes from
	Turn     string   // turn id within the example; empty if the record covers the whole example
	Metadata json.Raw // one JSON object with its keys in output order; nil if the record has no metadata
	Edits    Edits    // how the record's messages differ from the example's
}

// Header returns the head itself, so that embedding types satisfy Record.
func (h *Head) Header() *Head { return h }

// Preference is a pair of answers to a prompt, the better one chosen and the worse one rejected.
type Preference struct {
	Head
	Prompt           Content // text or messages
	Chosen, Rejected Content // text, or messages that continue the prompt
	// margin of the chosen side, either the score difference or the builder's own measure
	Reward float64

	ScoreName                    string // the quantity that the scores measure
	ChosenScore, RejectedScore   float64
	ChosenIndex, RejectedIndex   int64  // candidate_index of each side
	ChosenPolicy, RejectedPolicy string // model that sampled each side; empty if unknown
}

// Demonstration is a conversation whose assistant turns the model should imitate.
type Demonstration struct {
	Head
	Messages Content
	Train    Train
	Trained  []bool   // one flag per message, for TrainFlagged
	Weight   float64  // weight of the demonstration in the loss; 1 by default
	Score    *float64 // score by which the demonstration was selected; nil if it has none

	MaskReasoning bool // keep the reasoning in trained turns as context, but don't train on it
}

// Train is a loss policy: which assistant turns to train on.
type Train uint8

// The loss policies.
const (
	TrainAll     Train = iota // all sampled assistant turns
	TrainLast                 // the last sampled assistant turn
	TrainCalls                // the sampled assistant turns with tool calls
	TrainFlagged              // turns flagged in Trained
)

// Rollout is a conversation and its reward; token ids and log-probs come from the referenced nodes.
type Rollout struct {
	Head
	Messages Content
	Reward   *float64 // nil if the rollout is not scored, unlike a reward of zero
	Task     string   // rollouts for the same task form a group for advantages
}

// Distillation is a conversation with error sites and, for each, a hint that the teacher sees and the student does not.
type Distillation struct {
	Head
	Messages Content
	Sites    []Site
}

// State is a prompt for which a trainer samples its own answer. The metadata contains the action that the rollout took
// at that point, and the outcome.
type State struct {
	Head
	Messages Content
	Task     string
}

// Site is a failed tool call. Indices are into the record's messages.
type Site struct {
	Call    int    // the assistant message with the call
	CallSeq int    // position among that message's tool calls; -1 if it has no tool calls
	Result  int    // the tool or user message that shows the error; -1 if the call itself shows it (FailedTurn only)
	Target  Target // which turn to distil
	Tool    string // name of the tool that was called
	Error   string // class of the error: "arguments_not_json", "unknown_tool", "schema", "tool_error", ...

	Hint       string
	HintSource string // where the hint comes from: "rules", "schema", "feedback", "success", "command"
	HintKind   HintKind
}

// Target selects the turn of a site to which the teacher's distribution applies.
type Target uint8

// The targets of a site.
const (
	FailedTurn Target = iota // the turn with the failing call; the hint goes directly before it
	NextTurn                 // the assistant turn after the error; the hint goes after the result
)

// HintKind classifies a hint by whether the model could have known its content.
type HintKind uint8

// The kinds of hint.
const (
	Knowable  HintKind = iota // schemas, tool lists, formats, stated policies
	Hindsight                 // facts about the environment, or a sibling's solution
)

// Content is text or messages, inline or as a reference into the group.
type Content struct {
	Ref      Ref
	Messages []chat.Message // inline messages if Ref.Part is InlineMessages
	Text     string         // inline text if Ref.Part is InlineText
}

// Ref points into a group.
type Ref struct {
	Part      Part
	Example   int // index into the group's examples
	Candidate int // index into the example's candidates, for CandidatePrompt and CandidateOutput
	// for NodeSpan: the messages on the path from the root to node Last, except the first Skip
	Last, Skip int
}

// Part is the kind of a Ref's target.
type Part uint8

// The parts.
const (
	InlineText Part = iota
	InlineMessages
	CandidatePrompt
	CandidateOutput
	NodeSpan
)

// Kind returns KindPreference.
func (*Preference) Kind() Kind { return KindPreference }

// Kind returns KindDemonstration.
func (*Demonstration) Kind() Kind { return KindDemonstration }

// Kind returns KindRollout.
func (*Rollout) Kind() Kind { return KindRollout }

// Kind returns KindDistillation.
func (*Distillation) Kind() Kind { return KindDistillation }

// Kind returns KindState.
func (*State) Kind() Kind { return KindState }

// Contents returns a record's contents: the prompt, chosen and rejected sides of a preference, or the messages of any
// other kind. It returns nil for a record of unknown kind.
func Contents(r Record) []*Content {
	switch r := r.(type) {
	case *Preference:
		return []*Content{&r.Prompt, &r.Chosen, &r.Rejected}
	case *Demonstration:
		return []*Content{&r.Messages}
	case *Rollout:
		return []*Content{&r.Messages}
	case *Distillation:
		return []*Content{&r.Messages}
	case *State:
		return []*Content{&r.Messages}
	}
	return nil
}
