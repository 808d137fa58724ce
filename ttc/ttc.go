package ttc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// Group is the builders' unit of work: one or more examples that may be compared with each other, in source order.
type Group struct {
	Key      string
	Examples []*Example
	Scales   *Scales // score ranges of all examples, not only the group's; nil if unknown
}

// Example is one data-set entry that an agent was run on, with everything the rollout produced.
type Example struct {
	ID    string // id as text; unique within a run except in compat mode
	Task  string // shared by all trials of one problem; if empty, the example is its own task
	Trial string // identifies the rollout within the task; empty if unknown
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
	Gaps     Gaps   // known gaps in the recording, most of which lower the fidelity
	Proofs   Proofs // the proofs that hold for every message trained on
	Sampling *Sampling
	RawID    json.Raw // the id's JSON, as in the source; nil if absent

	// Recorded holds the History of each node in the graph before redaction. It is nil if redaction changed neither
	// the tools nor the messages.
	Recorded []History

	Interrupted bool // the entry has neither steps nor an answer, as when the workflow raised an exception

	// TeacherTopK is the number of log-probs per token that the source requests from a teacher for the example's task.
	// 0 requests only the token's own log-prob, a negative number requests no teacher, and nil means unspecified. It is
	// at most MaxTeacherTopK.
	TeacherTopK *int

	// Truth is the value that a checker compares answers with; nil if the source has none. It is copied to the records'
	// origins, and builders don't use it.
	Truth json.Raw
}

// MaxTeacherTopK is the maximum of Example.TeacherTopK. A batch has room for that many log-probs for every token.
const MaxTeacherTopK = 1000

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
	Error        *bool     // whether the source marks a tool result as an error; nil if unspecified
	Failure      *Failure  // the source's report that a call failed, attached to this message; nil if absent
}

// Failure is a source's report that a call failed. The message that it is attached to can be the call's result, the
// turn that made the call, or a user message about the failure.
type Failure struct {
	Kind string   // kind of error, in the source's terms; may be empty
	Meta json.Raw // additional JSON from the source; nil if absent
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

// Leaves returns the indices of the nodes without children, in ascending order.
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

// Chain builds a graph with a single branch from messages. Assistant messages get the given Sampled value.
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

// Messages marked No (few-shot, copied, compacted, injected) are context; only Yes and Assumed are trained on.
const (
	No Sampled = iota
	Yes
	Assumed
)

// String returns "no", "yes" or "assumed", and "unknown" for any other value.
func (s Sampled) String() string {
	if names := [...]string{"no", "yes", "assumed"}; int(s) < len(names) {
		return names[s]
	}
	return "unknown"
}

// Fidelity grades the completeness of a recorded example. A source states only a grade that it can prove; the collator
// may lower this grade but never raise it.
type Fidelity uint8

// The levels of fidelity, lowest first.
const (
	Partial     Fidelity = iota // recorded with gaps
	TextOnly                    // text
	IDs                         // text and token ids
	IDsLogProbs                 // text, token ids and log-probs
)

// fidelityNames are the levels' names as written in files.
var fidelityNames = [...]string{"partial", "text", "ids", "ids+logprobs"}

// ParseFidelity returns the fidelity with the given name.
func ParseFidelity(name string) (Fidelity, error) {
	i := slices.Index(fidelityNames[:], name)
	if i < 0 {
		return 0, fmt.Errorf("unknown fidelity %q: expected one of %s", name, strings.Join(fidelityNames[:], ", "))
	}
	return Fidelity(i), nil
}

// String returns the fidelity's name as written in files, for example "ids+logprobs", or "unknown".
func (f Fidelity) String() string {
	if int(f) < len(fidelityNames) {
		return fidelityNames[f]
	}
	return "unknown"
}

// Sampling holds the sampling settings of a rollout, which determine the meaning of its log-probs.
type Sampling struct {
	Temperature, TopP float64
	Processed         bool // log-probs include the effects of temperature and top_p; if false, they are raw
}

// Step is a recorded event with its raw JSON, for builders that need data beyond an example's other fields.
type Step struct {
	Type string   // "TTC_END", ...
	Name string   // payload.name
	Raw  json.Raw // the whole step as recorded
}

// Candidate is one of several outputs considered at a turn, with its score.
type Candidate struct {
	Step      string // name of the step that recorded the candidate (payload.name)
	Turn      string // turn id; turns of different examples may have the same id
	TurnIndex *int64
	Index     int64 // candidate_index, 0 if absent

	Prompt Prompt
	Output string

	Score      float64
	ScoreError string // the scorer's error message; empty if the scorer succeeded

	Metadata json.Raw // the step's metadata object; nil if absent
	Offset   int64    // byte offset of the candidate's step or entry in the uncompressed file
}

// Prompt is a candidate's input: text or messages.
type Prompt struct {
	Form     PromptForm
	Text     string         // the text if Form is TextPrompt; the JSON if Form is OtherPrompt
	Messages []chat.Message // the messages if Form is MessagesPrompt
}

// PromptForm specifies whether a prompt is text, a list of messages, or neither.
type PromptForm uint8

// The forms of a prompt.
const (
	TextPrompt PromptForm = iota
	MessagesPrompt
	OtherPrompt // neither text nor messages; never trained on
)

// After returns a prompt that consists of the earlier messages and then p; if p is text, it becomes a user message.
// If there are no earlier messages, or p is empty or an OtherPrompt, After returns p unchanged.
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

// Under inserts a system message with the given text before the prompt, as After does. If the text is empty, or p
// already begins with a system message, Under also returns p unchanged.
func (p Prompt) Under(system string) Prompt {
	if system == "" || len(p.Messages) > 0 && p.Messages[0].Role == "system" {
		return p
	}
	return p.After(chat.Message{Role: "system", Form: chat.Text, Text: system})
}
