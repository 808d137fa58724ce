package builders

import (
	"context"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Builder turns a group of examples into records. Build is pure in (config, group). An error drops the whole group for
// this builder; other builders' records of the group stand. A builder that is an io.Closer is closed with its session.
type Builder interface {
	Build(ctx context.Context, g *ttc.Group, out Output) error
}

// Output takes what a builder emits. An error means that the run is over: return it.
type Output interface {
	Record(Record) error // keeps nothing of the record: a builder may use its memory for the next
	Drop(ledger.Drop) error
	// Count adds n to a counter of the builder's own ("total_turns"), summed over the run and shown with its
	// statistics.
	Count(name string, n int64) error
}

// Info is what a builder says of itself.
type Info struct {
	Name      string // as in YAML: "dpo_traj_builder"
	Version   string
	Stability string // "stable", "beta", "experimental"
	Doc       string // one line
	Unit      Unit
	Kinds     []Kind // the kinds of record it may emit
	Config    any    // a pointer to its config struct, of which only the type counts; tags as in builders/schema
	RawSteps  bool   // it needs Example.Steps
}

// Unit is the size of the groups a builder works on.
type Unit uint8

// The units, finest first. A run's unit is the coarsest its builders ask for; a builder of a finer unit is called once
// an example.
const (
	UnitExample Unit = iota
	UnitTask
	UnitRun
)

// String is the unit's name in messages.
func (u Unit) String() string {
	switch u {
	case UnitExample:
		return "example"
	case UnitTask:
		return "task"
	case UnitRun:
		return "run"
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
)

// String is the kind's name in files and messages.
func (k Kind) String() string {
	switch k {
	case KindPreference:
		return "preference"
	case KindDemonstration:
		return "demonstration"
	case KindRollout:
		return "rollout"
	case KindDistillation:
		return "distillation"
	}
	return "unknown"
}

// Record is one of *Preference, *Demonstration, *Rollout, *Distillation.
type Record interface {
	Kind() Kind
	Header() *Head
}

// Head is what every record has.
type Head struct {
	Example  int      // index into the group's examples: where the record comes from
	Turn     string   // turn id within the example; empty where the record is about the whole of it
	Metadata json.Raw // one JSON object in the order it is to be written; nil: none
}

// Header returns the head itself, for embedding.
func (h *Head) Header() *Head { return h }

// Preference says that one answer to a prompt is better than another.
type Preference struct {
	Head
	Prompt           Content // text or messages
	Chosen, Rejected Content // text, or messages that continue the prompt
	Reward           float64 // by how much: the margin of the scores, or what the builder makes of it

	ScoreName                    string // what the scores measure: the step's name unless the source says more
	ChosenScore, RejectedScore   float64
	ChosenIndex, RejectedIndex   int64  // candidate_index of either side
	ChosenPolicy, RejectedPolicy string // model that sampled either side; empty: unknown
}

// Demonstration is a conversation whose assistant turns are to be imitated.
type Demonstration struct {
	Head
	Messages Content
	Train    Train
	Trained  []bool   // where Train is TrainFlagged: one per message
	Weight   float64  // of the demonstration in the loss; 1 where the builder has no opinion
	Score    *float64 // what it was chosen by; nil: it was not scored
}

// Train is a loss policy: which assistant turns are trained.
type Train uint8

// The loss policies.
const (
	TrainAll     Train = iota // all sampled assistant turns
	TrainLast                 // the last one
	TrainCalls                // those that call tools
	TrainFlagged              // those flagged in Trained
)

// Rollout is a conversation and the reward it got; its ids and log-probs come from the referenced nodes.
type Rollout struct {
	Head
	Messages Content
	Reward   *float64 // nil is no zero: the rollout was not scored
	Task     string   // rollouts of one task form a group for advantages
}

// Distillation is a conversation with error sites and, at each, a hint that a teacher is given and the student is not.
type Distillation struct {
	Head
	Messages Content
	Sites    []Site
}

// Site is a failed tool call. Indices are into the record's messages.
type Site struct {
	Call    int    // the assistant message that made the call
	CallSeq int    // which of its tool calls; -1 of a message without any
	Result  int    // what shows the error, a tool's message or a user's; -1: the call itself (FailedTurn only)
	Target  Target // which turn is distilled
	Tool    string // name of the tool called
	Error   string // class of the error: "arguments_not_json", "unknown_tool", "schema", "tool_error", ...

	Hint       string
	HintSource string // "rules", "schema", "feedback", "success", "command"
	HintKind   HintKind
}

// Target says which turn of a site the teacher's distribution is for.
type Target uint8

// The targets of a site.
const (
	FailedTurn Target = iota // the turn that made the failing call; the hint goes directly before it
	NextTurn                 // the assistant turn after the error result; the hint goes after the result
)

// HintKind says whether a model could have known the hint.
type HintKind uint8

// The kinds of hint.
const (
	Knowable  HintKind = iota // schema, tool list, format, stated policy
	Hindsight                 // environment facts, a sibling's solution
)

// Content is a text or messages: inline, or by reference into the group.
type Content struct {
	Ref      Ref
	Messages []chat.Message // inline messages, where Ref.Part is InlineMessages
	Text     string         // inline text, where Ref.Part is InlineText
}

// Ref points into a group.
type Ref struct {
	Part      Part
	Example   int // index into the group's examples
	Candidate int // CandidatePrompt, CandidateOutput
	// NodeSpan: the messages on the walk from the root to node Last, leaving out the first Skip of them.
	Last, Skip int
}

// Part says what a Ref points at.
type Part uint8

// The parts.
const (
	InlineText Part = iota
	InlineMessages
	CandidatePrompt
	CandidateOutput
	NodeSpan
)

// Kind of a preference.
func (*Preference) Kind() Kind { return KindPreference }

// Kind of a demonstration.
func (*Demonstration) Kind() Kind { return KindDemonstration }

// Kind of a rollout.
func (*Rollout) Kind() Kind { return KindRollout }

// Kind of a distillation.
func (*Distillation) Kind() Kind { return KindDistillation }
