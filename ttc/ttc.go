package ttc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// Group is the unit of work: one or more examples that may be compared with each other, in source order.
type Group struct {
	Key      string
	Examples []*Example
	Scales   *Scales // score ranges across all of the run's examples; nil if unknown
}

// Example is one data-set entry that an agent was run on, with everything the rollout produced.
type Example struct {
	ID    string // id as text; unique within a run except in compat mode
	Task  string // shared by all trials of one problem; if empty, the example is its own task
	Trial string // identifies the rollout within the task, if the source says
	Run   int    // collection run, from 0
	Row   int64  // position among the entries of the run, from 0

	File   string // input file, as named by the user
	Offset int64  // byte offset of the entry in the uncompressed file

	Graph      Graph
	Tools      []chat.Tool
	Candidates []Candidate // in source order
	Steps      []Step      // raw steps, if the source was asked to keep them (compat mode)

	Reward   *float64 // score of the whole rollout; nil if it wasn't scored
	Policy   string   // model that sampled the rollout; empty if unknown
	Fidelity Fidelity
	Gaps     Gaps   // reasons that the fidelity is not higher, as far as the source knows
	Proofs   Proofs // the proofs that hold for every message trained on
	Sampling *Sampling
	RawID    json.Raw // the id as written; nil if there is none

	// Recorded identifies each message in the graph, along with its context, as it was before redaction; nil if nothing
	// in the example was redacted.
	Recorded []History

	Interrupted bool // the source says that the workflow raised an exception here

	// TeacherTopK is the number of log-probs per token that the source wants from a teacher for the example's task. 0
	// means only the token's own, a negative number means no teacher, and nil means unspecified.
	TeacherTopK *int

	// Truth is the value that a checker compares answers with; nil if the user names none. It bypasses the builders and
	// is attached to the records.
	Truth json.Raw
}

// History is a hash of a message and of everything that the model was given before it; see package internal/history.
type History uint64

// Graph holds each of an example's messages once, with its parent. A branch is the path from a root to a leaf.
type Graph struct{ Nodes []Node }

// Node is a message in a graph.
type Node struct {
	Parent  int // index of the parent in Graph.Nodes, always smaller than the node's index; -1 at a root
	Message chat.Message
	Sampled Sampled
	Policy  string // model that sampled this message; if empty, Example.Policy applies

	TokenIDs     []int32   // ids of the message's tokens, as the model read or wrote them; nil if unknown
	LogProbs     []float32 // one per token id of a sampled message; nil if unknown
	FinishReason string    // "stop", "length", "tool_calls", ...; empty if unknown
	Error        *bool     // on a tool result: the source's explicit error flag
	Failure      *Failure  // the source's report of a failed call at this message, of any role; nil if absent
}

// Failure is a source's report of a failed call, attached to a message: a result, the turn that made the call, or a
// user's report.
type Failure struct {
	Kind string   // kind of error, in the source's terms; may be empty
	Meta json.Raw // additional text from the source; nil if absent
}

// Branch returns the node indices from the root to leaf, inclusive. It returns nil if leaf is out of range.
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

// Leaves returns, in order, the nodes without children.
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

// Chain builds a graph with a single branch from messages. All assistant messages get the same Sampled.
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

// Sampled records whether the model actually produced a message in this rollout.
type Sampled uint8

// Only Yes and Assumed are ever trained on; No is context (few-shot, copied, compacted, injected).
const (
	No Sampled = iota
	Yes
	Assumed
)

// String returns yes, no or assumed.
func (s Sampled) String() string {
	if names := [...]string{"no", "yes", "assumed"}; int(s) < len(names) {
		return names[s]
	}
	return "unknown"
}

// Fidelity grades the recorded text of an example. A source states only a grade that it can prove; the collator may
// lower it but never raise it.
type Fidelity uint8

// The levels of fidelity, lowest first.
const (
	Partial     Fidelity = iota // gaps
	TextOnly                    // text
	IDs                         // token ids
	IDsLogProbs                 // token ids and log-probs
)

// fidelityNames are the names of the levels in files.
var fidelityNames = [...]string{"partial", "text", "ids", "ids+logprobs"}

// ParseFidelity returns the fidelity with the given name.
func ParseFidelity(name string) (Fidelity, error) {
	i := slices.Index(fidelityNames[:], name)
	if i < 0 {
		return 0, fmt.Errorf("unknown fidelity %q: expected one of %s", name, strings.Join(fidelityNames[:], ", "))
	}
	return Fidelity(i), nil
}

// String returns the fidelity's name in files: partial, text, ids, ids+logprobs.
func (f Fidelity) String() string {
	if int(f) < len(fidelityNames) {
		return fidelityNames[f]
	}
	return "unknown"
}

// Sampling holds the sampling settings of a rollout, which determine the meaning of its log-probs.
type Sampling struct {
	Temperature, TopP float64
	Processed         bool // log-probs are computed after temperature and top_p, and are not the model's raw ones
}

// Step is a recorded event, kept raw for builders that need more than the types above.
type Step struct {
	Type string   // "TTC_END", ...
	Name string   // payload.name
	Raw  json.Raw // the whole step as recorded
}

// Candidate is one of several outputs considered at a turn, with its score.
type Candidate struct {
	Step      string // name of the step that recorded the candidate (payload.name)
	Turn      string // turn id; the key of a turn is the pair (example, turn), never a joined string
	TurnIndex *int64
	Index     int64 // candidate_index, 0 if absent

	Prompt Prompt
	Output string

	Score      float64
	ScoreError string // why the scorer failed on the candidate; empty if it succeeded

	Metadata json.Raw // the step's metadata object; nil if absent
	Offset   int64    // byte offset of the step in the uncompressed file
}

// Prompt is a candidate's input: text or messages.
type Prompt struct {
	Form     PromptForm
	Text     string         // if Form is TextPrompt; the value's JSON text if it is OtherPrompt
	Messages []chat.Message // if Form is MessagesPrompt
}

// PromptForm is the form of a prompt.
type PromptForm uint8

// The forms of a prompt.
const (
	TextPrompt PromptForm = iota
	MessagesPrompt
	OtherPrompt // neither text nor messages; never trained on
)

// After returns the prompt as the continuation of earlier messages; text becomes a user message. A prompt that is
// empty, or neither text nor messages, is returned unchanged.
func (p Prompt) After(earlier ...chat.Message) Prompt {
	messages := p.Messages
	if p.Form == TextPrompt && p.Text != "" {
		messages = []chat.Message{{Role: "user", Form: chat.Text, Text: p.Text}}
	}
	if len(earlier) == 0 || len(messages) == 0 {
		return p
	}
	return Prompt{Form: MessagesPrompt, Messages: slices.Concat(earlier, messages)}
}

// Under returns the prompt preceded by a system message with the given text, unless the text is empty or the prompt
// already begins with a system message.
func (p Prompt) Under(system string) Prompt {
	if system == "" || len(p.Messages) > 0 && p.Messages[0].Role == "system" {
		return p
	}
	return p.After(chat.Message{Role: "system", Form: chat.Text, Text: system})
}
