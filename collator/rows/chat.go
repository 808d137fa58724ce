package rows

import (
	"github.com/parquet-go/parquet-go"

	"github.com/nat-go/nat-go/builders"
)

// chatRows is the format that everybody has for conversations: messages, and the tools that could be called. Its
// readers train every turn of the assistant, each in a way of its own.
var chatRows = Format{
	Name:     "messages",
	Consumer: "TRL, verl, Axolotl, LLaMA-Factory, NeMo RL (SFT)",
	Shape:    `{"messages": [messages], "tools": [definitions]}`,
	Carries:  []builders.Kind{builders.KindDemonstration},
	Files: func(_ builders.Kind, s Split) string {
		return s.String() + ".jsonl"
	},
	open: func(e *Encoder) { e.encode = each((*Encoder).chatRow) },
	read: func(r *rowReader) *Row {
		row := r.conversation(fullMessage)
		r.tools()
		return row
	},
	columns: func(_ builders.Kind, c columns) parquet.Group {
		return c.and(parquet.Group{"messages": c.messages()})
	},
}

func (e *Encoder) chatRow(dst []byte, r *builders.Resolved) ([]byte, error) {
	d, ok := r.Record.(*builders.Demonstration)
	if !ok {
		return dst, e.refuse("it holds demonstrations only")
	}
	return e.customizerDemonstration(dst, r, d)
}
