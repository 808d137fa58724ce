package ttc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// Group is the unit of work: examples that may be compared with each other, in source order, never empty.
type Group struct {
	Key      string
	Examples []*Example
}

// Example is one data-set entry an agent was run on, with what that rollout left.
type Example struct {
	ID    string // as text; unique within a run outside compat
	Task  string // what trials of one problem share; empty: the example is its own task
	Trial string // which rollout of the task, where the source says
	Run   int    // collection run, from 0
	Row   int64  // place among the entries of the run, from 0

	File   string // input file, as the user named it
	Offset int64  // byte offset of the entry in the uncompressed file

	Graph      Graph
	Tools      []chat.Tool
	Candidates []Candidate // in source order
	Steps      []Step      // raw steps, where the source was asked to keep them (compat)

	Reward      *float64 // score of the whole rollout; nil where there is none
	Policy      string   // model that sampled it; empty: unknown
	Fidelity    Fidelity
	Gaps        Gaps // why it is no higher, as far as the source knows
	Sampling    *Sampling
	RawID       json.Raw // the id as it stood; nil where there is none
	Interrupted bool     // the source says that the workflow raised here

	// TeacherTopK is how many log-probs a token the source asks of a teacher for the example's task: 0: the token's own
	// alone; below 0: there is to be no teacher; nil: it doesn't say.
	TeacherTopK *int
}

// Graph is an example's messages, each held once, with its parent. A branch is a walk from the root to a leaf.
type Graph struct{ Nodes []Node }

// Node is a message in a graph.
type Node struct {
	Parent  int // index in Graph.Nodes, always smaller than the node's own; -1 at a root
	Message chat.Message
	Sampled Sampled
	Policy  string // model that sampled this message; empty: as the example's

	TokenIDs     []int32   // the ids the model saw or wrote here; nil: unknown
	LogProbs     []float32 // one per token id, of sampled tokens; nil: unknown
	FinishReason string    // "stop", "length", "tool_calls", ...; empty: unknown
	Error        *bool     // on a tool result: an explicit flag of the source
	Failure      *Failure  // what the source tells of a failed call at this message, whoever speaks; nil: nothing
}

// Failure is what a source tells of a failed call beside a message: a result, the turn that made it, or a user's
// report.
type Failure struct {
	Kind string   // of the error, in the source's words; may be empty
	Meta json.Raw // what the source says beside the kind; nil: nothing
}

// Branch returns the node indices from the root to leaf, both included. It returns nil if leaf is out of range.
func (g *Graph) Branch(leaf int) []int {
	if leaf < 0 || leaf >= len(g.Nodes) {
		return nil
	}
	n := 0
	for i := leaf; i >= 0; i = g.Nodes[i].Parent {
		n++
	}
	out := make([]int, n)
	for i := leaf; i >= 0; i = g.Nodes[i].Parent {
		n--
		out[n] = i
	}
	return out
}

// Leaves returns the nodes no other node names as parent, in order.
func (g *Graph) Leaves() []int {
	inner := make([]bool, len(g.Nodes))
	for _, n := range g.Nodes {
		if n.Parent >= 0 {
			inner[n.Parent] = true
		}
	}
	var out []int
	for i, in := range inner {
		if !in {
			out = append(out, i)
		}
	}
	return out
}

// Chain makes a graph of one branch out of messages, all with the same Sampled for assistant messages.
func Chain(messages []chat.Message, assistant Sampled) Graph {
	g := Graph{Nodes: make([]Node, len(messages))}
	for i, m := range messages {
		g.Nodes[i] = Node{Parent: i - 1, Message: m}
		if m.Role == "assistant" {
			g.Nodes[i].Sampled = assistant
		}
	}
	return g
}

// Sampled says whether the model really produced a message in this rollout.
type Sampled uint8

// Only Yes and Assumed are ever trained; No is context (few-shot, copied, compacted, injected).
const (
	No Sampled = iota
	Yes
	Assumed
)

// String returns the word for it: yes, no, assumed.
func (s Sampled) String() string {
	if names := [...]string{"no", "yes", "assumed"}; int(s) < len(names) {
		return names[s]
	}
	return "unknown"
}

// Fidelity says what the text a record uses can honestly support. A source states what it can prove; the collator may
// lower it, never raise it.
type Fidelity uint8

// The levels of fidelity, lowest first.
const (
	Partial     Fidelity = iota // gaps
	TextOnly                    // text
	IDs                         // token ids
	IDsLogProbs                 // token ids and log-probs
)

// fidelityNames are the names that files have the levels by.
var fidelityNames = [...]string{"partial", "text", "ids", "ids+logprobs"}

// ParseFidelity is the fidelity of a name.
func ParseFidelity(name string) (Fidelity, error) {
	i := slices.Index(fidelityNames[:], name)
	if i < 0 {
		return 0, fmt.Errorf("%q is none of %s", name, strings.Join(fidelityNames[:], ", "))
	}
	return Fidelity(i), nil
}

// String returns the name that files have it by: partial, text, ids, ids+logprobs.
func (f Fidelity) String() string {
	if int(f) < len(fidelityNames) {
		return fidelityNames[f]
	}
	return "unknown"
}

// Sampling is how a rollout was sampled; it gives the log-probs their meaning.
type Sampling struct {
	Temperature, TopP float64
	Processed         bool // log-probs are those after temperature and top_p, not the model's raw ones
}

// Step is a recorded event, kept raw for builders that need what the types above leave out.
type Step struct {
	Type string   // "TTC_END", ...
	Name string   // payload.name
	Raw  json.Raw // the whole step as it stood
}

// Candidate is one of several outputs considered at a turn, with its score.
type Candidate struct {
	Step      string // name of the step that recorded it (payload.name)
	Turn      string // turn id; the key of a turn is the pair (example, turn), never a joined string
	TurnIndex *int64
	Index     int64 // candidate_index, 0 where absent

	Prompt Prompt
	Output string

	Score      float64
	ScoreError string // why the scorer failed on it; empty: it didn't

	Metadata json.Raw // the step's metadata object; nil without
	Offset   int64    // byte offset of the step in the uncompressed file
}

// Prompt is what a candidate was given: a text or messages.
type Prompt struct {
	Form     PromptForm
	Text     string         // where Form is TextPrompt, and the printed value where it is OtherPrompt
	Messages []chat.Message // where Form is MessagesPrompt
}

// PromptForm is the form of a prompt.
type PromptForm uint8

// The forms of a prompt.
const (
	TextPrompt PromptForm = iota
	MessagesPrompt
	OtherPrompt // neither text nor messages; never trained on
)
