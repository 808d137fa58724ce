package wire

import (
	"fmt"
	"slices"

	"github.com/nat-go/nat-go/builders"
	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// converter converts the parts of groups and records to messages or back. Its methods take pointers and work in both
// directions, so that each message is described once. In one direction, the messages are empty at first; in the other,
// the values are.
//
// When reading, it remembers the first error.
type converter struct {
	to       *textWriter // nil when reading
	from     *textReader
	elements int // number of elements read; see RecordReader
	err      error
}

func (c *converter) fail(format string, a ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, a...)
	}
}

// size adds to the estimated size of the frame being written.
func (c *converter) size(bytes int) {
	if c.to != nil {
		*c.to.frame += bytes
	}
}

// text converts a string.
func (c *converter) text(i *uint32, s *string) {
	if c.to != nil {
		*i = c.to.add(*s)
	} else {
		*s = c.at(*i)
	}
}

// raw converts JSON.
func (c *converter) raw(i *uint32, v *json.Raw) {
	if c.to != nil {
		*i = c.to.add(str(*v))
	} else {
		*v = raw(c.at(*i))
	}
}

// once is like raw, for values that are unlikely to recur.
func (c *converter) once(i *uint32, v *json.Raw) {
	if c.to != nil {
		*i = c.to.addOnce(*v)
	} else {
		*v = raw(c.at(*i))
	}
}

// at returns text i of the group's table. Index 0 is the empty text.
func (c *converter) at(i uint32) string {
	switch texts := c.from.texts; {
	case i == 0:
	case int64(i) > int64(len(texts)):
		c.fail("text %d of %d", i, len(texts))
	default:
		return texts[i-1]
	}
	return ""
}

// same converts a value that has the same type on both sides.
func same[T any](c *converter, p, v *T) {
	if c.to != nil {
		*p = *v
	} else {
		*v = *p
	}
}

// whole converts an integer.
func whole[P int64 | uint32, T ~int | ~uint16 | ~uint8](c *converter, p *P, v *T) {
	if c.to != nil {
		*p = P(*v)
	} else {
		*v = T(*p)
	}
}

// choice converts an enum value, which must be between 0 and last.
func choice[P ~int32, T ~uint8](c *converter, what string, p *P, v *T, last P) {
	switch {
	case c.to != nil:
		*p = P(*v)
	case *p < 0 || *p > last:
		c.fail("unknown %s %d", what, *p)
	default:
		*v = T(*p)
	}
}

// nested returns a nested message. If it is absent, nested adds it when writing, and returns an empty message when
// reading: received messages must not grow after their size was checked.
func nested[P any](c *converter, p **P) *P {
	if *p != nil {
		return *p
	}
	empty := new(P)
	if c.to != nil {
		*p = empty
	}
	return empty
}

// maybe reports whether an optional message is present, and creates its counterpart if it is.
func maybe[P, T any](c *converter, p **P, v **T) bool {
	if c.to != nil && *v != nil {
		*p = new(P)
	} else if c.to == nil && *p != nil {
		*v = new(T)
	}
	return *p != nil
}

// each converts a list, adding its elements to those that v has when reading. An element takes about size bytes of a
// frame, without its texts.
func each[P, T any](c *converter, p *[]*P, v *[]T, size int, convert func(*converter, *P, *T)) {
	if c.to == nil {
		c.elements += len(*p)
		*v = grow(*v, len(*p))
		for i, from := range *p {
			convert(c, from, &(*v)[len(*v)-len(*p)+i])
		}
		return
	}
	if len(*v) == 0 {
		return
	}
	block, all := make([]P, len(*v)), make([]*P, len(*v))
	for i := range *v {
		all[i] = &block[i]
		convert(c, all[i], &(*v)[i])
	}
	*p = all
	*c.to.frame += size * len(all)
}

// grow appends n zero values.
func grow[T any](v []T, n int) []T {
	if v == nil && n > 0 {
		return make([]T, n)
	}
	return append(v, make([]T, n)...)
}

func (c *converter) message(p *pb.Message, v *chat.Message) {
	c.text(&p.Role, &v.Role)
	choice(c, "form", &p.Form, &v.Form, pb.Form_FORM_PARTS)
	c.text(&p.Text, &v.Text)
	c.text(&p.Name, &v.Name)
	c.text(&p.ToolCallId, &v.ToolCallID)
	c.text(&p.Reasoning, &v.Reasoning)
	c.text(&p.ReasoningKey, &v.ReasoningKey)
	each(c, &p.Extra, &v.Extra, memberSize, (*converter).member)
	if c.to == nil && v.Form == chat.Parts && len(p.Parts) == 0 {
		v.Parts = []chat.Part{}
	}
	each(c, &p.Parts, &v.Parts, partSize, (*converter).part)
	each(c, &p.ToolCalls, &v.ToolCalls, callSize, (*converter).call)
}

// Approximate sizes of elements in a frame, in bytes, without their texts.
const (
	messageSize = 24
	partSize    = 8
	callSize    = 24
	memberSize  = 8
	siteSize    = 48
)

func (c *converter) part(p *pb.Part, v *chat.Part) {
	c.text(&p.Type, &v.Type)
	c.text(&p.Text, &v.Text)
	c.raw(&p.Raw, &v.Raw)
}

func (c *converter) call(p *pb.ToolCall, v *chat.ToolCall) {
	c.text(&p.Id, &v.ID)
	c.text(&p.Type, &v.Type)
	c.text(&p.Name, &v.Name)
	c.text(&p.Arguments, &v.Arguments)
	c.raw(&p.Parsed, &v.Parsed)
	same(c, &p.AsObject, &v.AsObject)
	each(c, &p.Extra, &v.Extra, memberSize, (*converter).member)
}

func (c *converter) member(p *pb.Member, v *chat.Member) {
	c.text(&p.Key, &v.Key)
	c.raw(&p.Value, &v.Value)
}

// example converts an example without its lists.
func (c *converter) example(p *pb.Example, v *ttc.Example) {
	c.text(&p.Id, &v.ID)
	c.text(&p.Task, &v.Task)
	c.text(&p.Trial, &v.Trial)
	whole(c, &p.Run, &v.Run)
	same(c, &p.Row, &v.Row)
	c.text(&p.File, &v.File)
	same(c, &p.Offset, &v.Offset)
	same(c, &p.Reward, &v.Reward)
	c.text(&p.Policy, &v.Policy)
	choice(c, "fidelity", &p.Fidelity, &v.Fidelity, pb.Fidelity_FIDELITY_IDS_LOGPROBS)
	c.once(&p.RawId, &v.RawID)
	same(c, &p.Interrupted, &v.Interrupted)
	gaps := uint32(v.Gaps) | uint32(v.Proofs)<<proofsShift
	if same(c, &p.Gaps, &gaps); c.to == nil {
		v.Gaps, v.Proofs = ttc.Gaps(gaps), ttc.Proofs(gaps>>proofsShift)
	}
	if maybe(c, &p.Sampling, &v.Sampling) {
		same(c, &p.Sampling.Temperature, &v.Sampling.Temperature)
		same(c, &p.Sampling.TopP, &v.Sampling.TopP)
		same(c, &p.Sampling.Processed, &v.Sampling.Processed)
	}
	if !maybe(c, &p.TeacherTopK, &v.TeacherTopK) {
		return
	}
	if c.to != nil {
		*p.TeacherTopK = int32(*v.TeacherTopK)
	} else if *v.TeacherTopK = int(*p.TeacherTopK); *v.TeacherTopK > ttc.MaxTeacherTopK {
		c.fail("invalid teacher_top_k %d: expected a whole number up to %d", *v.TeacherTopK, ttc.MaxTeacherTopK)
	}
}

func (c *converter) node(p *pb.Node, v *ttc.Node) {
	whole(c, &p.Parent, &v.Parent)
	c.message(nested(c, &p.Message), &v.Message)
	choice(c, "sampled", &p.Sampled, &v.Sampled, pb.Sampled_SAMPLED_ASSUMED)
	c.text(&p.Policy, &v.Policy)
	c.text(&p.FinishReason, &v.FinishReason)
	same(c, &p.Error, &v.Error)
	if c.to == nil {
		if p.TokenIds != nil {
			v.TokenIDs = orEmpty(p.TokenIds.Values)
		}
		if p.LogProbs != nil {
			v.LogProbs = orEmpty(p.LogProbs.Values)
		}
	} else {
		if v.TokenIDs != nil {
			p.TokenIds = &pb.TokenIDs{Values: v.TokenIDs}
		}
		if v.LogProbs != nil {
			p.LogProbs = &pb.LogProbs{Values: v.LogProbs}
		}
		*c.to.frame += 4*len(v.TokenIDs) + 4*len(v.LogProbs)
	}
	if maybe(c, &p.Failure, &v.Failure) {
		c.text(&p.Failure.Kind, &v.Failure.Kind)
		c.once(&p.Failure.Meta, &v.Failure.Meta)
	}
}

// orEmpty turns nil into an empty slice, because nil would mean that the list is unknown rather than empty.
func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func (c *converter) tool(p *pb.Tool, v *chat.Tool) {
	c.text(&p.Name, &v.Name)
	c.raw(&p.Raw, &v.Raw)
}

func (c *converter) prompt(p *pb.Prompt, v *ttc.Prompt) {
	choice(c, "prompt form", &p.Form, &v.Form, pb.PromptForm_PROMPT_FORM_OTHER)
	c.text(&p.Text, &v.Text)
	each(c, &p.Messages, &v.Messages, 32+messageSize, (*converter).message)
}

func (c *converter) step(p *pb.Step, v *ttc.Step) {
	c.text(&p.Type, &v.Type)
	c.text(&p.Name, &v.Name)
	c.once(&p.Raw, &v.Raw)
}

// candidate converts a candidate without its prompt.
func (c *converter) candidate(p *pb.Candidate, v *ttc.Candidate) {
	c.text(&p.Step, &v.Step)
	c.text(&p.Turn, &v.Turn)
	same(c, &p.TurnIndex, &v.TurnIndex)
	same(c, &p.Index, &v.Index)
	c.text(&p.Output, &v.Output)
	same(c, &p.Score, &v.Score)
	c.text(&p.ScoreError, &v.ScoreError)
	c.once(&p.Metadata, &v.Metadata)
	same(c, &p.Offset, &v.Offset)
}

func (c *converter) head(p *pb.Head, v *builders.Head) {
	whole(c, &p.Example, &v.Example)
	c.text(&p.Turn, &v.Turn)
	c.once(&p.Metadata, &v.Metadata)
	if whole(c, &p.Edits, &v.Edits); c.to == nil {
		v.Edits = v.Edits.Known()
	}
}

func (c *converter) content(p *pb.Content, v *builders.Content) {
	choice(c, "content part", &p.Part, &v.Ref.Part, pb.ContentPart_CONTENT_PART_NODE_SPAN)
	whole(c, &p.Example, &v.Ref.Example)
	whole(c, &p.Candidate, &v.Ref.Candidate)
	whole(c, &p.Last, &v.Ref.Last)
	whole(c, &p.Skip, &v.Ref.Skip)
	switch v.Ref.Part {
	case builders.InlineText:
		c.text(&p.Text, &v.Text)
	case builders.InlineMessages:
		each(c, &p.Messages, &v.Messages, messageSize, (*converter).message)
	}
	c.size(16)
}

// written returns the message for a value.
func written[P, T any](c *converter, v *T, convert func(*converter, *P, *T)) *P {
	p := new(P)
	convert(c, p, v)
	return p
}

// received returns the value for a message.
func received[P, T any](c *converter, p *P, convert func(*converter, *P, *T)) *T {
	v := new(T)
	convert(c, nested(c, &p), v)
	return v
}

// write returns the message for a record, or nil if its type is unknown.
func (c *converter) write(r builders.Record) *pb.Record {
	switch r := r.(type) {
	case *builders.Preference:
		return &pb.Record{Kind: &pb.Record_Preference{Preference: written(c, r, (*converter).preference)}}
	case *builders.Demonstration:
		return &pb.Record{Kind: &pb.Record_Demonstration{Demonstration: written(c, r, (*converter).demonstration)}}
	case *builders.Rollout:
		return &pb.Record{Kind: &pb.Record_Rollout{Rollout: written(c, r, (*converter).rollout)}}
	case *builders.Distillation:
		return &pb.Record{Kind: &pb.Record_Distillation{Distillation: written(c, r, (*converter).distillation)}}
	case *builders.State:
		return &pb.Record{Kind: &pb.Record_State{State: written(c, r, (*converter).state)}}
	}
	return nil
}

func (c *converter) read(p *pb.Record) builders.Record {
	switch k := p.GetKind().(type) {
	case *pb.Record_Preference:
		return received(c, k.Preference, (*converter).preference)
	case *pb.Record_Demonstration:
		return received(c, k.Demonstration, (*converter).demonstration)
	case *pb.Record_Rollout:
		return received(c, k.Rollout, (*converter).rollout)
	case *pb.Record_Distillation:
		return received(c, k.Distillation, (*converter).distillation)
	case *pb.Record_State:
		return received(c, k.State, (*converter).state)
	}
	c.fail("unknown record kind")
	return nil
}

func (c *converter) preference(p *pb.Preference, v *builders.Preference) {
	c.head(nested(c, &p.Head), &v.Head)
	c.content(nested(c, &p.Prompt), &v.Prompt)
	c.content(nested(c, &p.Chosen), &v.Chosen)
	c.content(nested(c, &p.Rejected), &v.Rejected)
	same(c, &p.Reward, &v.Reward)
	c.text(&p.ScoreName, &v.ScoreName)
	same(c, &p.ChosenScore, &v.ChosenScore)
	same(c, &p.RejectedScore, &v.RejectedScore)
	same(c, &p.ChosenIndex, &v.ChosenIndex)
	same(c, &p.RejectedIndex, &v.RejectedIndex)
	c.text(&p.ChosenPolicy, &v.ChosenPolicy)
	c.text(&p.RejectedPolicy, &v.RejectedPolicy)
}

func (c *converter) demonstration(p *pb.Demonstration, v *builders.Demonstration) {
	c.head(nested(c, &p.Head), &v.Head)
	c.content(nested(c, &p.Messages), &v.Messages)
	choice(c, "train", &p.Train, &v.Train, pb.Train_TRAIN_FLAGGED)
	if same(c, &p.Trained, &v.Trained); c.to != nil {
		p.Trained = slices.Clone(p.Trained) // a builder may reuse its memory before the frame is sent
	}
	same(c, &p.Weight, &v.Weight)
	c.number(&p.Score, &v.Score)
	same(c, &p.MaskReasoning, &v.MaskReasoning)
}

// number converts an optional number. When writing, it copies the number, because a builder may reuse its memory before
// the frame is sent.
func (c *converter) number(p, v **float64) {
	if same(c, p, v); c.to != nil && *p != nil {
		*p = new(**p)
	}
}

func (c *converter) rollout(p *pb.Rollout, v *builders.Rollout) {
	c.head(nested(c, &p.Head), &v.Head)
	c.content(nested(c, &p.Messages), &v.Messages)
	c.number(&p.Reward, &v.Reward)
	c.text(&p.Task, &v.Task)
}

func (c *converter) distillation(p *pb.Distillation, v *builders.Distillation) {
	c.head(nested(c, &p.Head), &v.Head)
	c.content(nested(c, &p.Messages), &v.Messages)
	each(c, &p.Sites, &v.Sites, siteSize, (*converter).site)
}

func (c *converter) site(p *pb.Site, v *builders.Site) {
	whole(c, &p.Call, &v.Call)
	whole(c, &p.CallSeq, &v.CallSeq)
	whole(c, &p.Result, &v.Result)
	choice(c, "target", &p.Target, &v.Target, pb.Target_TARGET_NEXT_TURN)
	c.text(&p.Tool, &v.Tool)
	c.text(&p.Error, &v.Error)
	c.text(&p.Hint, &v.Hint)
	c.text(&p.HintSource, &v.HintSource)
	choice(c, "hint kind", &p.HintKind, &v.HintKind, pb.HintKind_HINT_KIND_HINDSIGHT)
}

func (c *converter) state(p *pb.State, v *builders.State) {
	c.head(nested(c, &p.Head), &v.Head)
	c.content(nested(c, &p.Messages), &v.Messages)
	c.text(&p.Task, &v.Task)
}

func (c *converter) drop(p *pb.Drop, v *ledger.Drop) {
	c.text(&p.Reason, (*string)(&v.Reason))
	c.text(&p.Unit, &v.Unit)
	c.text(&p.Detail, &v.Detail)
	whole(c, &p.Run, &v.Run)
	c.text(&p.Example, &v.Example)
	c.text(&p.Turn, &v.Turn)
	whole(c, &p.Index, &v.Index)
	c.text(&p.File, &v.File)
	same(c, &p.Offset, &v.Offset)
	same(c, &p.Count, &v.Count)
	c.text(&p.Stage, (*string)(&v.Stage))
	c.text(&p.Builder, &v.Builder)
	c.text(&p.Format, &v.Format)
}
