package builders

import (
	"fmt"
	"slices"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// Resolved is a record, with its references replaced by their targets, and its origin. It is self-contained, so
// curation, writing and collation need no other data.
type Resolved struct {
	Record Record  // its Content fields are empty; the passages below contain the content
	Origin *Origin // shared by the records of one example

	Prompt, Chosen, Rejected Passage // set for a Preference
	Messages                 Passage // set for any other kind of record

	Changes []Change // how the contexts of the record's turns differ from the recorded ones; usually empty
}

// Change records that a turn's context differs from the recorded one.
type Change struct {
	Turn int // index among the record's turns, from 0
	By   Changed
	Was  ttc.History // hash of the context as recorded; 0 if unknown
}

// Changed is a way in which the context of a turn changed.
type Changed uint8

// The ways in which a context may differ.
const (
	Redacted Changed = iota + 1 // secrets and personal data in the context were replaced
	Removed                     // messages or calls that the model saw were removed
	OtherIDs                    // call ids come from another rollout with the same messages
	Unknown                     // the builder created this context; no recorded one matches
	// the row format can't hold all of the context, such as tools, earlier messages, reasoning or names
	PartOnly
	// the turn is from another rollout with the same earlier calls but different user wording
	OtherWords
)

// String returns the change's name, as used in files and messages.
func (c Changed) String() string {
	return nameOf(int(c), "", "redaction", "remove", "call_ids", "unknown", "format", "worded")
}

// Origin identifies the example that a record comes from, without its content.
type Origin struct {
	Run      int   // collection run, counted from 0
	Row      int64 // position in the input, from 0
	Example  string
	Task     string
	Trial    string
	File     string
	Offset   int64  // byte offset in the uncompressed file
	Policy   string // model that sampled the example; empty if unknown
	Fidelity ttc.Fidelity
	Gaps     ttc.Gaps   // why the example's fidelity is not higher
	Proofs   ttc.Proofs // properties of the example that were verified
	Sampling *ttc.Sampling

	TeacherTopK *int     // the top_k that the example requests from a teacher
	Truth       json.Raw // the reference that a checker compares answers with
	Tools       []chat.Tool
	Builder     string // the builder's name in the YAML file
}

// Passage is content without references: text, or a chain of messages.
type Passage struct {
	Text  string
	Nodes []ttc.Node // a chain; nil if the content is Text
}

// IsText reports whether the passage is text rather than messages. An empty list of messages has non-nil Nodes.
func (p Passage) IsText() bool { return p.Nodes == nil }

// Resolve returns the passage that c refers to in g. The error names the part of the reference that is missing from
// the group.
func Resolve(g *ttc.Group, c Content) (Passage, error) {
	switch c.Ref.Part {
	case InlineText:
		return Passage{Text: c.Text}, nil
	case InlineMessages:
		// The builder wrote these messages, so the assistant's turns are assumed to be sampled.
		return Passage{Nodes: ttc.Chain(settled(c.Messages), ttc.Assumed).Nodes}, nil
	}
	if c.Ref.Example < 0 || c.Ref.Example >= len(g.Examples) {
		return Passage{}, fmt.Errorf("refers to example %d of a group of %d", c.Ref.Example, len(g.Examples))
	}
	ex := g.Examples[c.Ref.Example]
	switch c.Ref.Part {
	case CandidatePrompt, CandidateOutput:
		if c.Ref.Candidate < 0 || c.Ref.Candidate >= len(ex.Candidates) {
			return Passage{}, fmt.Errorf("refers to candidate %d of example %q, which has %d",
				c.Ref.Candidate, ex.ID, len(ex.Candidates))
		}
		cand := &ex.Candidates[c.Ref.Candidate]
		if c.Ref.Part == CandidateOutput {
			return Passage{Text: cand.Output}, nil
		}
		if cand.Prompt.Form == ttc.MessagesPrompt {
			// A prompt's messages are context, because it is unknown whether the model sampled them.
			return Passage{Nodes: ttc.Chain(cand.Prompt.Messages, ttc.No).Nodes}, nil
		}
		return Passage{Text: cand.Prompt.Text}, nil
	case NodeSpan:
		walk := ex.Graph.Branch(c.Ref.Last)
		if walk == nil {
			return Passage{}, fmt.Errorf("refers to message %d of example %q, which has %d",
				c.Ref.Last, ex.ID, len(ex.Graph.Nodes))
		}
		if c.Ref.Skip < 0 || c.Ref.Skip > len(walk) {
			return Passage{}, fmt.Errorf("skips %d of a branch's %d messages in example %q",
				c.Ref.Skip, len(walk), ex.ID)
		}
		nodes := make([]ttc.Node, 0, len(walk)-c.Ref.Skip)
		for i, n := range walk[c.Ref.Skip:] {
			node := ex.Graph.Nodes[n]
			node.Parent = i - 1
			nodes = append(nodes, node)
		}
		return Passage{Nodes: nodes}, nil
	}
	return Passage{}, fmt.Errorf("unknown part %d", c.Ref.Part)
}

// settled sets the content form of messages that omit it, depending on whether they have parts or text.
func settled(ms []chat.Message) []chat.Message {
	unsettled := func(m chat.Message) bool { return m.Form == chat.Absent && (m.Text != "" || m.Parts != nil) }
	if !slices.ContainsFunc(ms, unsettled) {
		return ms
	}
	ms = slices.Clone(ms)
	for i := range ms {
		switch m := &ms[i]; {
		case m.Form != chat.Absent:
		case m.Parts != nil:
			m.Form = chat.Parts
		case m.Text != "":
			m.Form = chat.Text
		}
	}
	return ms
}

// ResolveRecord resolves the references of a record built from g and sets the known parts of its origin.
func ResolveRecord(g *ttc.Group, rec Record) (r *Resolved, err error) {
	h := rec.Header()
	if h.Example < 0 || h.Example >= len(g.Examples) {
		return nil, fmt.Errorf("names example %d of a group of %d", h.Example, len(g.Examples))
	}
	ex := g.Examples[h.Example]
	r = &Resolved{Record: rec, Origin: &Origin{Run: ex.Run, Example: ex.ID, Task: ex.Task, Tools: ex.Tools}}
	into := []*Passage{&r.Messages}
	if rec.Kind() == KindPreference {
		into = []*Passage{&r.Prompt, &r.Chosen, &r.Rejected}
	}
	for i, c := range Contents(rec) {
		if err == nil {
			*into[i], err = Resolve(g, *c)
		}
	}
	return r, err
}

// CheckRefs checks that all of r's content resolves in g, without resolving it.
func CheckRefs(g *ttc.Group, r Record) error {
	contents := Contents(r)
	if contents == nil {
		return fmt.Errorf("unknown record type %T", r)
	}
	for _, c := range contents {
		if err := checkRef(g, &c.Ref); err != nil {
			return err
		}
	}
	return nil
}

func checkRef(g *ttc.Group, ref *Ref) error {
	switch ref.Part {
	case InlineText, InlineMessages:
		return nil
	case CandidatePrompt, CandidateOutput:
		if ref.Example >= 0 && ref.Example < len(g.Examples) {
			if n := len(g.Examples[ref.Example].Candidates); ref.Candidate >= 0 && ref.Candidate < n {
				return nil
			}
		}
	}
	_, err := Resolve(g, Content{Ref: *ref})
	return err
}
