package rows

import (
	"github.com/parquet-go/parquet-go"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
)

const messagesName = "messages"

// chatRows is the common conversation format, with messages and the tools that could be called. Its readers train on
// every assistant turn or, if so configured, only on the last one (see Options.LastTurn). A conversation therefore
// ends before its first context-only turn.
var chatRows = Format{
	Name:     messagesName,
	Consumer: "TRL, LLaMA-Factory, NeMo RL (SFT), Axolotl, ...",
	Shape:    `{"messages": [messages], "tools": [definitions]}`,
	Carries:  []builders.Kind{builders.KindDemonstration},
	Files:    splitFiles,
	open:     func(e *Encoder) { e.encode = each((*Encoder).chatRow) },
	read: func(r *rowReader) *Row {
		row := r.conversation(fullMessage)
		r.tools()
		return row
	},
	columns: func(_ builders.Kind, c columns) parquet.Group {
		return c.withTools(parquet.Group{"messages": c.messages()})
	},
}

func (e *Encoder) chatRow(dst []byte, r *builders.Resolved) ([]byte, error) {
	nodes, trained, err := e.demonstrated(r)
	if err != nil {
		return dst, err
	}
	if e.opts.LastTurn && e.LastTurnOnly() {
		return e.eachTurn(dst, nodes, trained, false, func(dst []byte, _, to int) ([]byte, error) {
			return e.conversation(dst, r, nodes[:to])
		})
	}
	if nodes, err = e.everyTurn(nodes, trained); err != nil {
		return dst, err
	}
	return e.conversation(dst, r, nodes)
}

// conversation appends a row of messages and tools.
func (e *Encoder) conversation(dst []byte, r *builders.Resolved, nodes []ttc.Node) ([]byte, error) {
	dst, err := e.fullMessages(append(dst, `{"messages": `...), nodes)
	if err != nil {
		return dst, err
	}
	return append(e.appendTools(dst, r.Origin.Tools), '}'), nil
}
