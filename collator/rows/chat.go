package rows

import (
	"github.com/parquet-go/parquet-go"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
)

const messagesName = "messages"

// chatRows is the common conversation format, with messages and the tools that could be called. Its readers train on
// every assistant turn or, if so configured, only on the last one (see Options.LastTurn). With such readers, a
// conversation ends before its first context-only turn.
var chatRows = Format{
	Name:     messagesName,
	Consumer: "TRL, LLaMA-Factory, NeMo RL (SFT), Axolotl, ...",
	Shape:    `{"messages": [messages], "tools": [definitions]}`,
	Carries:  []builders.Kind{builders.KindDemonstration},
	Files:    splitFiles,
	holds:    "demonstrations",
	encode:   (*Encoder).chatRow,
	read:     (*rowReader).chat,
	columns: func(_ builders.Kind, c columns) parquet.Group {
		return c.withTools(parquet.Group{"messages": c.messages()})
	},
}

func (e *Encoder) chatRow(dst []byte, r *builders.Resolved) []byte {
	nodes, trained := e.demonstrated(r)
	if e.opts.LastTurn && e.LastTurnOnly() {
		return e.eachTurn(dst, nodes, trained, false, func(dst []byte, _, to int) []byte {
			return e.conversation(dst, r, nodes[:to])
		})
	}
	return e.conversation(dst, r, e.everyTurn(nodes, trained))
}

// conversation appends a row of messages and tools.
func (e *Encoder) conversation(dst []byte, r *builders.Resolved, nodes []ttc.Node) []byte {
	dst = e.fullMessages(append(dst, `{"messages": `...), nodes)
	return append(e.appendTools(dst, r.Origin.Tools), '}')
}

func (r *rowReader) chat() *Row {
	row := r.conversation(fullMessage)
	r.tools()
	return row
}
