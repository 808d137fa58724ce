package rows

import (
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
)

// privileged is the format of TRL's SDFTTrainer and SDPOTrainer (1.16, trl/experimental/sdft and sdpo): a prompt, and
// a context only for the teacher. The trainers sample their own completion and read no other column, so tools are not
// in the prompt, and the record's target is not used. The teacher's prompt is the prompt with the hint in its last
// message, which must be a user message, so a turn that follows a tool result gets no row.
var privileged = Format{
	Name:     "privileged",
	Consumer: "TRL (SDFTTrainer, SDPOTrainer)",
	Shape:    `{"prompt": [messages], "privileged_context": text}`,
	Carries:  []builders.Kind{builders.KindDistillation},
	Files:    splitFiles,
	holds:    "hints",
	encode:   (*Encoder).privilegedRows,
	parts:    []builders.Kind{builders.KindDistillation},
	partly:   func(_ Options, r *builders.Resolved) bool { return len(r.Origin.Tools) > 0 },
	lost:     NotAfterUser,
	read: func(r *rowReader) *Row {
		row := &Row{Kind: builders.KindDistillation, Prompt: r.passage("prompt", fullMessage)}
		if n := row.Prompt.Nodes; len(n) == 0 || n[len(n)-1].Message.Role != "user" {
			r.fail("prompt", "doesn't end in a user message, where TRL puts the hint")
		}
		row.Completion = r.text("privileged_context")
		return row
	},
	columns: func(_ builders.Kind, c columns) parquet.Group {
		return parquet.Group{"prompt": c.messages(), "privileged_context": parquet.String()}
	},
}

// privilegedRows writes a row for each site whose turn follows a user message.
func (e *Encoder) privilegedRows(dst []byte, r *builders.Resolved) []byte {
	d := r.Record.(*builders.Distillation)
	e.turns = Turns{Lost: int64(len(d.Sites))}
	for i := range d.Sites {
		prompt := beforeTarget(r.Messages.Nodes, &d.Sites[i])
		if len(prompt) == 0 || prompt[len(prompt)-1].Message.Role != "user" {
			continue
		}
		if e.turns.Carried > 0 {
			dst = e.next(dst)
		}
		dst = e.fullMessages(append(dst, `{"prompt": `...), prompt)
		dst = append(e.member(dst, `, "privileged_context": `, d.Sites[i].Hint), '}')
		e.carry(1)
	}
	if e.turns.Carried == 0 {
		e.refuse("no hint is about a turn that answers a user: TRL puts the hint into the user's message")
	}
	return dst
}

// beforeTarget returns the messages before the turn that a hint is about. It returns nil if a damaged site names
// messages that the record doesn't have.
func beforeTarget(nodes []ttc.Node, s *builders.Site) []ttc.Node {
	end := s.Call
	if s.Target == builders.NextTurn {
		end = s.Result + 1
		if end <= 0 || end > len(nodes) {
			return nil
		}
		end += max(0, slices.IndexFunc(nodes[end:], func(n ttc.Node) bool { return n.Message.Role == "assistant" }))
	}
	if end < 0 || end > len(nodes) {
		return nil
	}
	return nodes[:end]
}
