package where

import (
	"cmp"
	"math"
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// Subject is an item that a run filters: an example, or a record or a turn with its example and its group.
type Subject struct {
	Example *ttc.Example
	Group   *ttc.Group
	Record  builders.Record
	Builder string // name of the record's builder, as the user gave it
	Turn    Turn

	task rewards // rewards of Group
}

// Turn is a model turn on a branch of an example.
type Turn struct {
	At       string // reason why the turn was selected: a class of error, "divergence" or "turns"
	Walk     []int  // nodes of the branch, starting at the root
	Position int    // position of the turn in Walk
}

// InGroup sets the subject's group.
func (s *Subject) InGroup(g *ttc.Group) { s.Group, s.task = g, rewardsOf(g) }

// rewards summarises the rewards of a group; both values are NaN if there are no rewards.
type rewards struct{ best, spread float64 }

func rewardsOf(g *ttc.Group) rewards {
	low, high := math.Inf(1), math.Inf(-1)
	for _, ex := range g.Examples {
		if r := orNaN(ex.Reward); !math.IsNaN(r) {
			low, high = min(low, r), max(high, r)
		}
	}
	if low > high {
		return rewards{math.NaN(), math.NaN()}
	}
	return rewards{high, high - low}
}

// orNaN returns a score, or NaN if it is missing.
func orNaN(score *float64) float64 {
	if score == nil {
		return math.NaN()
	}
	return *score
}

// Fields are the fields of a run's filter: ExampleFields, GroupFields and RecordFields.
var Fields = append(append(ExampleFields[:len(ExampleFields):len(ExampleFields)], GroupFields...), RecordFields...)

// ExampleFields are known as soon as an example has been read.
var ExampleFields = []Field[*Subject]{
	text("id", "id of the example", func(s *Subject) string { return s.Example.ID }),
	text("task", "the task that the example is a rollout of; if the source names no task, the example's id",
		func(s *Subject) string { return cmp.Or(s.Example.Task, s.Example.ID) }),
	text("file", "path of the input file, as the user gave it", func(s *Subject) string { return s.Example.File }),
	text("policy", "the model that sampled the example, if the source says",
		func(s *Subject) string { return s.Example.Policy }),
	text("fidelity", "how completely the rollout is recorded",
		func(s *Subject) string { return s.Example.Fidelity.String() }, Fidelities...),
	number("reward", "score of the whole rollout", func(s *Subject) float64 { return orNaN(s.Example.Reward) }),
	condition("scored", "whether the example has a reward", func(s *Subject) bool { return s.Example.Reward != nil }),
	condition("interrupted", "whether the example's workflow ended with an exception",
		func(s *Subject) bool { return s.Example.Interrupted }),
	number("candidates", "number of scored candidates for the example's turns",
		func(s *Subject) float64 { return float64(len(s.Example.Candidates)) }),
	number("messages", "number of messages, on all branches",
		func(s *Subject) float64 { return float64(len(s.Example.Graph.Nodes)) }),
	sum("turns", "number of model turns, except turns that are only context", func(n *ttc.Node) bool {
		return n.Message.Role == "assistant" && n.Sampled != ttc.No
	}),
	number("calls", "number of tool calls", func(s *Subject) (n float64) {
		for i := range s.Example.Graph.Nodes {
			n += float64(len(s.Example.Graph.Nodes[i].Message.ToolCalls))
		}
		return n
	}),
	sum("failed", "number of messages that the source marks as an error or a failure", func(n *ttc.Node) bool {
		return n.Error != nil && *n.Error || n.Failure != nil
	}),
	number("bytes", "number of bytes of text in the example's messages and candidates", func(s *Subject) (n float64) {
		texts(s, func(text string) bool {
			n += float64(len(text))
			return false
		})
		return n
	}),
	list("called", "names of the tools that the model called", called),
	list("tools", "names of the tools that the model was offered", func(s *Subject, meets func(string) bool) bool {
		return slices.ContainsFunc(s.Example.Tools, func(t chat.Tool) bool { return meets(t.Name) })
	}),
	list("text", "each text of the example's messages, calls and candidates", texts),
}

// GroupFields are known once a task's examples have been collected.
var GroupFields = []Field[*Subject]{
	number("rollouts", "number of examples of the task",
		func(s *Subject) float64 { return float64(len(s.Group.Examples)) }),
	number("best", "largest reward of the task", func(s *Subject) float64 { return s.task.best }),
	number("spread", "largest reward of the task minus the smallest",
		func(s *Subject) float64 { return s.task.spread }),
}

// RecordFields are known once a builder has made a record.
var RecordFields = []Field[*Subject]{
	text("builder", "name of the builder that made the record", func(s *Subject) string { return s.Builder }),
	text("kind", "kind of the record", func(s *Subject) string { return s.Record.Kind().String() }, Kinds...),
	number("margin", "difference between the two scores of a preference", func(s *Subject) float64 {
		if p, ok := s.Record.(*builders.Preference); ok {
			return math.Abs(p.ChosenScore - p.RejectedScore)
		}
		return math.NaN()
	}),
	number("score", "score of a demonstration, or reward of a rollout", func(s *Subject) float64 {
		var score *float64
		switch r := s.Record.(type) {
		case *builders.Demonstration:
			score = r.Score
		case *builders.Rollout:
			score = r.Reward
		}
		return orNaN(score)
	}),
	number("sites", "number of error sites of a distillation", func(s *Subject) float64 {
		if d, ok := s.Record.(*builders.Distillation); ok {
			return float64(len(d.Sites))
		}
		return 0
	}),
}

// TurnFields are known once the builder of states has selected a turn of an example.
var TurnFields = []Field[*Subject]{
	text("at", "why the turn was selected: the class of the failed call, divergence or turns",
		func(s *Subject) string { return s.Turn.At }),
	number("position", "number of messages before the turn",
		func(s *Subject) float64 { return float64(s.Turn.Position) }),
	list("uses", "names of the tools that the turn calls", func(s *Subject, meets func(string) bool) bool {
		calls := s.said(s.Turn.Position).ToolCalls
		return slices.ContainsFunc(calls, func(c chat.ToolCall) bool { return meets(c.Name) })
	}),
	list("action", "each text of the turn and its calls", func(s *Subject, meets func(string) bool) bool {
		return textsOf(s.said(s.Turn.Position), meets)
	}),
	list("outcome", "each text between the turn and the next", func(s *Subject, meets func(string) bool) bool {
		for i := s.Turn.Position + 1; i < len(s.Turn.Walk) && s.said(i).Role != "assistant"; i++ {
			if textsOf(s.said(i), meets) {
				return true
			}
		}
		return false
	}),
}

func (s *Subject) said(position int) *chat.Message {
	return &s.Example.Graph.Nodes[s.Turn.Walk[position]].Message
}

// Fidelities are the names of the fidelity levels.
var Fidelities = []string{
	ttc.Partial.String(), ttc.TextOnly.String(), ttc.IDs.String(), ttc.IDsLogProbs.String(),
}

// Kinds are the names of the record kinds.
var Kinds = []string{
	builders.KindPreference.String(), builders.KindDemonstration.String(), builders.KindRollout.String(),
	builders.KindDistillation.String(), builders.KindState.String(),
}

func text(name, doc string, of func(*Subject) string, values ...string) Field[*Subject] {
	return Field[*Subject]{Name: name, Doc: doc, Values: values, Text: of}
}

func number(name, doc string, of func(*Subject) float64) Field[*Subject] {
	return Field[*Subject]{Name: name, Doc: doc, Number: of}
}

func condition(name, doc string, of func(*Subject) bool) Field[*Subject] {
	return Field[*Subject]{Name: name, Doc: doc, Bool: of}
}

func list(name, doc string, of func(*Subject, func(string) bool) bool) Field[*Subject] {
	return Field[*Subject]{Name: name, Doc: doc, Texts: of}
}

// sum returns a field that counts an example's messages that satisfy a condition.
func sum(name, doc string, is func(*ttc.Node) bool) Field[*Subject] {
	return number(name, doc, func(s *Subject) (n float64) {
		for i := range s.Example.Graph.Nodes {
			if is(&s.Example.Graph.Nodes[i]) {
				n++
			}
		}
		return n
	})
}

func called(s *Subject, meets func(string) bool) bool {
	for i := range s.Example.Graph.Nodes {
		for _, c := range s.Example.Graph.Nodes[i].Message.ToolCalls {
			if meets(c.Name) {
				return true
			}
		}
	}
	return false
}

// texts reports whether any text in an example, including call arguments, satisfies a condition.
func texts(s *Subject, meets func(string) bool) bool {
	for i := range s.Example.Graph.Nodes {
		if textsOf(&s.Example.Graph.Nodes[i].Message, meets) {
			return true
		}
	}
	for i := range s.Example.Candidates {
		c := &s.Example.Candidates[i]
		for k := range c.Prompt.Messages {
			if textsOf(&c.Prompt.Messages[k], meets) {
				return true
			}
		}
		if meets(c.Prompt.Text) || meets(c.Output) {
			return true
		}
	}
	return false
}

func textsOf(m *chat.Message, meets func(string) bool) bool {
	return meets(m.Reasoning) || meets(m.Text) ||
		slices.ContainsFunc(m.Parts, func(p chat.Part) bool { return meets(p.Text) }) ||
		slices.ContainsFunc(m.ToolCalls, func(c chat.ToolCall) bool { return meets(c.Name) || meets(c.Arguments) })
}
