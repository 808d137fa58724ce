package agenttraces

import (
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
		Recognize:  session.Marked(isRow, "harness"), Entries: entries,
	}.Factory()
}

func isRow(entry json.Raw) bool {
	return session.Text(entry, "harness") != "" && session.Value(entry, "trace", "traces", "messages") != nil
}

// reader builds sessions from rows.
type reader struct{ tally *source.Tally }

func entries(tally *source.Tally) session.Entries {
	return session.Entries{ID: key, Others: "rows of another kind", Sessions: (&reader{tally}).sessions}
}

// key identifies the session that a row belongs to.
func key(entry json.Raw) (string, bool) {
	for _, name := range []string{"session_id", "file_path", "file_name"} {
		if id := session.Text(entry, name); id != "" {
			return id, isRow(entry)
		}
	}
	return "", isRow(entry)
}

// sessions builds the sessions from the rows that share an id.
func (r *reader) sessions(g session.Group) (out []*calls.Session) {
	var files []session.LinesOf
	for i, part := range g.Parts {
		raw := json.Raw(part.JSON)
		id, _ := key(raw)
		f := session.LinesOf{Lines: r.linesOf(raw), Path: part.Path, Offset: part.Offset}
		switch harness := session.Text(raw, "harness"); {
		case harness == "claude_code" && len(f.Lines) > 0:
			files = append(files, f)
		case harness == "codex" && len(f.Lines) > 0:
			out = append(out, codex.FromLines(id, f, r.tally))
		default:
			if s := r.conversation(raw, part, g.Limits, i); s != nil {
				out = append(out, s)
			}
		}
	}
	if files != nil {
		id, _ := key(g.Parts[0].JSON)
		out = append(out, claudecode.FromLines(id, files, r.tally))
	}
	return out
}

// linesOf returns a session's lines. In a table, each line is a string.
func (r *reader) linesOf(row json.Raw) (out []json.Raw) {
	for line := range session.Value(row, "trace", "traces").Elements() {
		if text, ok := line.Text(); ok {
			if parsed, err := json.Parse([]byte(text), json.Limits{}); err == nil {
				line = parsed
			}
		}
		if line.Kind() == json.Object {
			out = append(out, line)
		} else {
			r.tally.CountUnread("lines of traces that are not objects", 1)
		}
	}
	return out
}

// conversation builds a session from a row's messages; i is the row's position among the rows that share its id. It
// returns nil if the messages can't be read.
func (r *reader) conversation(raw json.Raw, part session.Kept, limits session.Limits, i int) *calls.Session {
	id, _ := key(raw)
	if i > 0 {
		id += "." + strconv.Itoa(i+1)
	}
	messages, err := exchange.ChatMessages(session.Value(raw, "messages"))
	if err != nil {
		r.tally.DropSession(source.BadExample, err.Error(), id, part.Path, part.Offset)
		return nil
	}
	s := limits.New(id)
	tools := exchange.Tools(session.Value(raw, "tools"))
	metadata := session.Value(raw, "metadata")
	var history []calls.Ref
	for n, m := range messages {
		if m.Role == "assistant" {
			c := calls.Call{
				ID: id + "/" + strconv.Itoa(n), Model: session.Text(metadata, "model"), Time: int64(n) + 1, Output: m,
				Input: append([]calls.Ref(nil), history...), Tools: tools, File: part.Path, Offset: part.Offset,
				Gaps: ttc.RebuiltHistory,
			}
			if len(tools) == 0 {
				c.Gaps |= ttc.NoTools
			}
			if messages[0].Role != "system" {
				c.Gaps |= ttc.NoSystem
			}
			c.Gaps |= (&exchange.Answer{Message: m}).Gap()
			s.Add(c)
		}
		history = append(history, s.Message(calls.Message{Message: m}))
	}
	return s
}
