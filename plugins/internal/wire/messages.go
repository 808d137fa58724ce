package wire

import (
	"fmt"

	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

func (t *textWriter) messages(ms []chat.Message) []*pb.Message {
	if len(ms) == 0 {
		return nil
	}
	out := make([]*pb.Message, len(ms))
	for i := range ms {
		out[i] = t.message(&ms[i])
	}
	return out
}

func (t *textWriter) message(m *chat.Message) *pb.Message {
	out := &pb.Message{
		Role: t.add(m.Role), Form: pb.Form(m.Form), Text: t.add(m.Text),
		Name: t.add(m.Name), ToolCallId: t.add(m.ToolCallID), Reasoning: t.add(m.Reasoning),
		ReasoningKey: t.add(m.ReasoningKey), Extra: t.members(m.Extra),
	}
	for _, p := range m.Parts {
		out.Parts = append(out.Parts, &pb.Part{Type: t.add(p.Type), Text: t.add(p.Text), Raw: t.add(str(p.Raw))})
	}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		out.ToolCalls = append(out.ToolCalls, &pb.ToolCall{
			Id: t.add(c.ID), Type: t.add(c.Type), Name: t.add(c.Name), Arguments: t.add(c.Arguments),
			Parsed: t.add(str(c.Parsed)), AsObject: c.AsObject, Extra: t.members(c.Extra),
		})
	}
	*t.frame += 24 + 8*len(m.Parts) + 24*len(m.ToolCalls)
	return out
}

func (t *textWriter) members(ms []chat.Member) []*pb.Member {
	var out []*pb.Member
	for _, m := range ms {
		out = append(out, &pb.Member{Key: t.add(m.Key), Value: t.add(str(m.Value))})
		*t.frame += 8
	}
	return out
}

// decoder reads strings and messages, and keeps the first error.
type decoder struct {
	texts    *textReader
	elements int // see RecordReader
	err      error
}

func (d *decoder) fail(format string, a ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, a...)
	}
}

// text returns text i of the group's table. Index 0 is the empty text.
func (d *decoder) text(i uint32) string {
	switch texts := d.texts.texts; {
	case i == 0:
	case int64(i) > int64(len(texts)):
		d.fail("text %d of %d", i, len(texts))
	default:
		return texts[i-1]
	}
	return ""
}

func (d *decoder) raw(i uint32) json.Raw { return raw(d.text(i)) }

// enum validates an enum value, which must be between 0 and last.
func enum[T ~uint8](d *decoder, what string, v, last int32) T {
	if v < 0 || v > last {
		d.fail("unknown %s %d", what, v)
		return 0
	}
	return T(v)
}

func (d *decoder) messages(ms []*pb.Message) []chat.Message {
	if len(ms) == 0 {
		return nil
	}
	d.elements += len(ms)
	out := make([]chat.Message, len(ms))
	for i, m := range ms {
		out[i] = d.message(m)
	}
	return out
}

func (d *decoder) message(m *pb.Message) chat.Message {
	out := chat.Message{
		Role: d.text(m.GetRole()), Form: enum[chat.Form](d, "form", int32(m.GetForm()), 3), Text: d.text(m.GetText()),
		Name: d.text(m.GetName()), ToolCallID: d.text(m.GetToolCallId()), Reasoning: d.text(m.GetReasoning()),
		ReasoningKey: d.text(m.GetReasoningKey()), Extra: d.members(m.GetExtra()),
	}
	if out.Form == chat.Parts {
		out.Parts = make([]chat.Part, 0, len(m.GetParts()))
	}
	d.elements += len(m.GetParts()) + len(m.GetToolCalls())
	for _, p := range m.GetParts() {
		out.Parts = append(out.Parts, chat.Part{
			Type: d.text(p.GetType()), Text: d.text(p.GetText()), Raw: d.raw(p.GetRaw()),
		})
	}
	for _, c := range m.GetToolCalls() {
		out.ToolCalls = append(out.ToolCalls, chat.ToolCall{
			ID: d.text(c.GetId()), Type: d.text(c.GetType()), Name: d.text(c.GetName()),
			Arguments: d.text(c.GetArguments()),
			Parsed:    d.raw(c.GetParsed()), AsObject: c.GetAsObject(), Extra: d.members(c.GetExtra()),
		})
	}
	return out
}

func (d *decoder) members(ms []*pb.Member) []chat.Member {
	var out []chat.Member
	d.elements += len(ms)
	for _, m := range ms {
		out = append(out, chat.Member{Key: d.text(m.GetKey()), Value: d.raw(m.GetValue())})
	}
	return out
}
