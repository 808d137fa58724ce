package agenttraces

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/claudecode"
	"github.com/nat-go/nat-go/ttc/source/internal/codex"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Factory returns this source's factory, which a configuration selects by its type.
func Factory() source.Factory {
	return session.Format{
		Type:       "agent_traces",
		Doc:        "rows that Hugging Face generates from agents' sessions (harness, trace, messages)",
		Extensions: []string{".parquet", ".jsonl", ".json"},
		Recognize:  session.Marked(isRow, "harness"),
		Entries:    session.Stateless("rows of another kind", key, sessions),
	}.Factory()
}

func isRow(entry json.Raw) bool {
	return session.Text(entry, "harness") != "" && session.Value(entry, "trace", "traces", "messages") != nil
}

// key identifies the session that a row belongs to.
func key(entry json.Raw) (string, bool) {
	id := cmp.Or(session.Text(entry, "session_id"), session.Text(entry, "file_path"), session.Text(entry, "file_name"))
	return id, isRow(entry)
}

// sessions builds the sessions from the rows that share an id.
func sessions(g session.Group) (out []*calls.Session) {
	var files []session.LinesOf
	for i, part := range g.Parts {
		raw := json.Raw(part.JSON)
		id, _ := key(raw)
		f := session.LinesOf{Lines: linesOf(raw, g.Tally), Path: part.Path, Offset: part.Offset}
		switch harness := session.Text(raw, "harness"); {
		case harness == "claude_code" && len(f.Lines) > 0:
			files = append(files, f)
		case harness == "codex" && len(f.Lines) > 0:
			out = append(out, codex.FromLines(id, f, g.Tally))
		default:
			if s := conversation(g, i); s != nil {
				out = append(out, s)
			}
		}
	}
	if files != nil {
		id, _ := key(g.Parts[0].JSON)
		out = append(out, claudecode.FromLines(id, files, g.Tally))
	}
	return out
}

// linesOf returns a session's lines. In a table, each line is a string.
func linesOf(row json.Raw, tally *source.Tally) (out []json.Raw) {
	for line := range session.Value(row, "trace", "traces").Elements() {
		if inner, err := source.Inner(line); err == nil {
			line = inner
		}
		if line.Kind() == json.Object {
			out = append(out, line)
		} else {
			tally.CountUnread("lines of traces that are not objects", 1)
		}
	}
	return out
}

// conversation builds a session from a row's messages; i is the row's position among the rows that share its id. It
// returns nil if the messages can't be read.
func conversation(g session.Group, i int) *calls.Session {
	part, raw := g.Parts[i], json.Raw(g.Parts[i].JSON)
	id, _ := key(raw)
	if i > 0 {
		id += "." + strconv.Itoa(i+1)
	}
	messages, err := exchange.ChatMessages(session.Value(raw, "messages"))
	if err != nil {
		g.Tally.DropSession(source.BadExample, err.Error(), id, part.Path, part.Offset)
		return nil
	}
	s := g.Limits.New(id)
	tools := exchange.Tools(session.Value(raw, "tools"))
	gaps := ttc.RebuiltHistory
	if len(tools) == 0 {
		gaps |= ttc.NoTools
	}
	if len(messages) > 0 && messages[0].Role != "system" {
		gaps |= ttc.NoSystem
	}
	model := session.Text(session.Value(raw, "metadata"), "model")
	var history []calls.Ref
	for n, m := range messages {
		if m.Role == "assistant" {
			s.Add(calls.Call{
				ID: id + "/" + strconv.Itoa(n), Model: model, Time: int64(n) + 1, Output: m,
				Input: slices.Clone(history), Tools: tools, File: part.Path, Offset: part.Offset,
				Gaps: gaps | exchange.Gap(&m),
			})
		}
		history = append(history, s.Message(calls.Message{Message: m}))
	}
	return s
}
