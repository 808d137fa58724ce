package codex

import (
	"cmp"
	"context"
	"math"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// thread is a thread being read.
type thread struct {
	r        *reader
	out      *calls.Session
	path     string
	size     int64
	objects  int64
	tooLarge bool

	inherited bool // the items being read belong to a parent
	missing   bool // a parent's file is missing
	rebuilt   bool // the stored history differs from the one that the model saw
	tools     []chat.Tool
	model     string

	history []*entry
	open    *turn // the answer being read
	last    *turn // the last answer, for later items about it
	answers []*turn
	failed  map[string]bool // whether each call failed according to an event, by call id
}

// entry is a message in the history.
type entry struct {
	sequence int64 // 0 if unknown
	message  calls.Message
	turn     *turn // the answer, used instead of message; nil if the entry is not an answer
	inserted bool  // Codex wrote a part of the message
	known    bool  // ref has been set to the message in the session
	ref      calls.Ref
}

// turn is an answer, whose items may still be incomplete.
type turn struct {
	call      calls.Call
	through   int64    // sequence number up to which the model had read; -1 if unknown
	input     []*entry // the entries that the model was given
	inherited bool
	missing   bool
}

// everything is the ordinal that makes load read a whole file.
const everything = math.MaxInt64

// maxForks is the maximum number of fork levels followed.
const maxForks = 100

var known = map[string]bool{
	"session_meta": true, "response_item": true, "compacted": true, "event_msg": true, "turn_context": true,
	"token_usage_record": true,
}

var ignoredItems = map[string]bool{"world_state": true, "inter_agent_communication": true, "ghost_snapshot": true}

// passedEvents are events that repeat items or don't affect the model's input.
var passedEvents = map[string]bool{
	"task_started": true, "task_complete": true, "turn_started": true, "turn_complete": true, "user_message": true,
	"agent_message": true, "agent_reasoning": true, "thread_settings_applied": true, "turn_aborted": true,
	"context_compacted":           true,
	"agent_reasoning_raw_content": true, "exec_command_begin": true, "patch_apply_begin": true,
	"mcp_tool_call_begin": true,
	"entered_review_mode": true, "exited_review_mode": true, "item_started": true,
	"agent_reasoning_section_break": true,
}

// load reads the threads that a thread continues from, and then the thread itself up to an ordinal.
func (t *thread) load(ctx context.Context, f *file, end int64, depth int) error {
	if f.parent != "" {
		parent := t.r.byID[f.parent]
		if parent == nil || depth == maxForks {
			t.missing = true
		} else if err := t.load(ctx, parent, f.end, depth+1); err != nil {
			return err
		}
	}
	t.close()
	t.path, t.inherited = f.path, depth > 0
	ordinal := int64(-1)
	return session.Lines(ctx, f.path, t.r.limits.MaxLine, t.r.tally, func(l session.Line) bool {
		ordinal++
		if n, ok := session.Value(l.JSON, "ordinal").Int64(); ok {
			ordinal = n
		}
		if ordinal >= end || t.tooLarge {
			return false
		}
		if t.objects += l.JSON.Objects(t.r.limits.MaxObjects); t.objects > t.r.limits.MaxObjects {
			t.tooLarge = true
			return false
		}
		t.line(l)
		t.tooLarge = t.size > t.r.limits.MaxSession || t.out.TooLarge()
		return true
	})
}

func (t *thread) line(l session.Line) {
	payload := session.At(l.JSON, "payload")
	switch typ := session.Text(l.JSON, "type"); typ {
	case "session_meta":
		if !t.inherited {
			t.r.tally.Wrote(source.Version{
				Program: "Codex", Number: session.Text(payload, "cli_version"), Newest: newest,
			})
		}
		t.start(payload)
	case "response_item":
		t.item(payload, l)
	case "turn_context":
		t.model = cmp.Or(session.Text(payload, "model"), t.model)
	case "token_usage_record":
		t.usage(payload)
	case "compacted":
		t.compacted(payload, l)
	case "event_msg":
		t.event(payload, l)
	default:
		if !ignoredItems[typ] {
			t.unread("lines of type " + session.Name(typ))
		}
	}
}

func (t *thread) unread(what string) {
	if t.inherited {
		return // counted when the parent thread itself is read
	}
	t.r.tally.CountUnread(what, 1)
}

// start reads the beginning of a file. For a fork, the beginning of its parent's file takes precedence.
func (t *thread) start(meta json.Raw) {
	if t.tools == nil {
		t.tools = exchange.Tools(session.At(meta, "dynamic_tools"))
	}
	if text := session.Text(meta, "base_instructions", "text"); text != "" && len(t.history) == 0 {
		t.append(&entry{message: exchange.TextMessage("system", text)})
	}
}

func (t *thread) append(e *entry) {
	t.size += int64(len(e.message.Text))
	t.history = append(t.history, e)
}

// usage records the token counts of the latest answer, and its id.
func (t *thread) usage(payload json.Raw) {
	if t.last == nil {
		return
	}
	t.last.call.ID = cmp.Or(session.Text(payload, "response_id"), t.last.call.ID)
	counts := session.At(payload, "usage")
	input, output := number(counts, "input_tokens", 0), number(counts, "output_tokens", 0)
	t.last.call.Usage = calls.Usage{Input: input, Output: output}
	t.close()
}

// close ends the answer being read.
func (t *thread) close() { t.open = nil }

// compacted replaces the history with the replacement history or, if none is stored, with its user messages and a
// summary. A system prompt at the beginning of the history is kept.
func (t *thread) compacted(payload json.Raw, l session.Line) {
	t.close()
	if !t.inherited {
		t.r.tally.DropCall(
			session.UnstoredCall, "the call that wrote the summary of a compaction", t.out.ID, t.path, l.Offset,
		)
	}
	old := t.history
	t.history = nil
	if len(old) > 0 && old[0].message.Role == "system" {
		t.history = append(t.history, old[0])
	}
	if replacement := session.At(payload, "replacement_history"); replacement.Kind() == json.Array {
		n := len(t.answers)
		for item := range replacement.Elements() {
			t.item(item, l)
		}
		t.answers = t.answers[:n] // the model's messages in the replacement are context
		t.close()
		return
	}
	t.rebuilt = true
	for _, e := range old {
		if e.turn == nil && e.message.Role == "user" {
			t.history = append(t.history, e)
		}
	}
	t.append(&entry{message: exchange.TextMessage("user", session.Text(payload, "message"))})
}

func (t *thread) event(payload json.Raw, l session.Line) {
	switch typ := session.Text(payload, "type"); typ {
	case "item_completed":
		item := session.At(payload, "item")
		t.outcome(session.Text(item, "id"), item)
	case "exec_command_end", "patch_apply_end", "mcp_tool_call_end":
		t.outcome(session.Text(payload, "call_id"), payload)
	case "token_count": // follows each answer
		t.close()
	case "thread_rolled_back":
		n, _ := session.Value(payload, "num_turns").Int64()
		t.rollBack(n)
	case "stream_error", "error":
		if !t.inherited {
			t.r.tally.DropCall(session.FailedCall, "", t.out.ID, t.path, l.Offset)
		}
	default:
		if !passedEvents[typ] {
			t.unread("events of type " + session.Name(typ))
		}
	}
}

// outcome records whether a call failed according to an event.
func (t *thread) outcome(id string, of json.Raw) {
	success, known := session.At(of, "success").Bool()
	switch session.Text(of, "status") {
	case "failed", "declined":
		success, known = false, true
	case "completed":
		success, known = true, true
	}
	if known && id != "" {
		t.failed[id] = !success
	}
}

// addCalls adds the thread's calls.
func (t *thread) addCalls() {
	for _, a := range t.answers {
		if a.inherited {
			continue
		}
		if a.missing {
			t.r.tally.DropCall(session.MissingHistory, "missing file of the thread that this thread was forked from",
				t.out.ID, a.call.File, a.call.Offset)
			continue
		}
		c := a.call
		c.Input = lists.Map(a.input, t.refOf)
		t.out.Add(c)
	}
}

// refOf returns a reference to the session's message for an entry.
func (t *thread) refOf(e *entry) calls.Ref {
	if e.known {
		return e.ref
	}
	m := e.message
	if e.turn != nil {
		m = calls.Message{Message: e.turn.call.Output}
	}
	if failed, ok := t.failed[m.ToolCallID]; ok && m.Role == "tool" {
		m.Error = &failed
	}
	e.known, e.ref = true, t.out.Message(m)
	return e.ref
}
