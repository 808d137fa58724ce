package rows

import (
	"github.com/parquet-go/parquet-go"

	"github.com/nat-go/nat-go/builders"
)

// chatRows is the format everybody uses for conversations: messages, and the tools that could be called. Its readers
// train every assistant turn, each reader in its own way, or only the last if told to (see Options.LastTurn). Whatever
// follows the last turn trains nothing and is left out.
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
	nodes := r.Messages.Nodes
	last := len(nodes) - 1
	for last >= 0 && nodes[last].Message.Role != "assistant" {
		last--
	}
	if last < 0 {
		return dst, e.refuse("it has no turn of the assistant")
	}
	if last+1 < len(nodes) && d.Train == builders.TrainLast {
		return dst, e.refuse("it trains its last message, which isn't the assistant's")
	}
	e.trimmed = len(nodes) - last - 1
	nodes = nodes[:last+1]
	err := e.everyTurn(nodes, d)
	if e.opts.LastTurn {
		err = nil
		if !d.Trains(nodes, last) {
			err = e.refuse("its last turn is context only")
		}
	}
	if err != nil {
		return dst, err
	}
	if dst, err = e.fullMessages(append(dst, `{"messages": `...), nodes); err != nil {
		return dst, err
	}
	return append(e.appendTools(dst, r.Origin.Tools), '}'), nil
}
