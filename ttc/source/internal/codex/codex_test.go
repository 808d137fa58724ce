package codex

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
)

// script writes a thread as the program does, one line at a time.
type script struct {
	lines    []string
	ordinal  int
	sequence int
	old      bool // without metadata, as before ordinals
}

func newScript(id, more string) *script {
	s := &script{}
	s.line("session_meta", fmt.Sprintf(`{"id":"%s","base_instructions":{"text":"sys"}%s}`, id, more), "")
	return s
}

func (s *script) line(typ, payload, more string) {
	s.lines = append(
		s.lines,
		fmt.Sprintf(
			`{"timestamp":"2026-11-20T23:23:%02d.5Z","ordinal":%d,"type":"%s","payload":%s%s}`,
			s.ordinal%60,
			s.ordinal,
			typ,
			payload,
			more,
		),
	)
	s.ordinal++
}

// item writes an item; through is how far the model had read, -1 for items that aren't the model's.
func (s *script) item(through int, format string, a ...any) {
	s.sequence++
	if through < 0 {
		through = s.sequence - 1
	}
	meta := fmt.Sprintf(
		`,"metadata":{"history_sequence":%d,"sampled_through_sequence":%d,"client_authored":false}`,
		s.sequence,
		through,
	)
	if s.old {
		meta = ""
	}
	s.line("response_item", fmt.Sprintf(format, a...), meta)
}

func (s *script) user(text string) {
	s.item(-1, `{"type":"message","role":"user","content":[{"type":"input_text","text":%s}]}`, sessiontest.Quote(text))
}

func (s *script) text(through int, text string) {
	s.item(
		through,
		`{"type":"message","id":"msg_%s","role":"assistant","content":[{"type":"output_text","text":%s}]}`,
		text,
		sessiontest.Quote(text),
	)
}

func (s *script) call(through int, id, arguments string) {
	s.item(
		through,
		`{"type":"function_call","id":"fc_%s","name":"exec_command","arguments":%s,"call_id":"%s"}`,
		id,
		sessiontest.Quote(arguments),
		id,
	)
}

func (s *script) result(id, output string) {
	s.item(-1, `{"type":"function_call_output","call_id":"%s","output":%s}`, id, output)
}

func readScript(t testing.TB, s *script) sessiontest.Reading {
	t.Helper()
	return sessiontest.ReadText(t, Factory(), "rollout.jsonl", s.String())
}

func (s *script) String() string { return strings.Join(s.lines, "\n") + "\n" }

func want(t *testing.T, r sessiontest.Reading, want ...string) {
	t.Helper()
	var got []string
	for _, ex := range r.Examples {
		got = append(got, ex.ID+": "+sessiontest.Walks(ex))
	}
	if !slices.Equal(got, want) {
		t.Errorf("\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// TestDifference25ForksPointIntoTheirParent: a fork names its position in its parent's file. What the parent wrote is
// context in the fork; without the parent's file the fork's calls are counted and left out.
func TestDifference25ForksPointIntoTheirParent(t *testing.T) {
	dir := t.TempDir()
	parent := newScript("p", "")
	parent.user("q")
	parent.text(1, "a")
	at := parent.ordinal
	parent.user("r")
	parent.text(3, "b")
	fork := newScript(
		"f",
		fmt.Sprintf(
			`,"forked_from_id":"p","history_base":{"thread_id":"p","end_ordinal_exclusive":%d,"end_byte_offset":1}`,
			at,
		),
	)
	fork.sequence = 2
	fork.user("s")
	fork.text(3, "c")
	again := newScript(
		"g",
		fmt.Sprintf(`,"history_base":{"thread_id":"f"},"forked_from_ordinal_exclusive":%d`, fork.ordinal),
	)
	again.sequence = 4
	again.user("t")
	again.text(5, "d")
	sessiontest.Write(t, dir, "1.jsonl", again.String())
	sessiontest.Write(t, dir, "2.jsonl", fork.String())
	sessiontest.Write(t, dir, "3.jsonl", parent.String())
	all := sessiontest.Read(t, Factory(), dir)
	want(t, all, "f: sys / q / a / s / c*", "g: sys / q / a / s / c / t / d*", "p: sys / q / a* / r / b*")
	r := sessiontest.Read(t, Factory(), filepath.Join(dir, "2.jsonl"))
	if want(t, r); r.Stats.Calls != 1 || r.Stats.Dropped["call"][session.MissingHistory] != 1 {
		t.Errorf("%+v", r.Stats)
	}
	loop := newScript("l", `,"history_base":{"thread_id":"l","end_ordinal_exclusive":9}`)
	loop.user("q")
	loop.text(1, "a")
	if r := readScript(t, loop); r.Stats.Dropped["call"][session.MissingHistory] == 0 {
		t.Errorf("a thread forked from itself: %+v", r.Stats)
	}
}

// TestDifference26WhatWasInThePrompt: items record how far the model had read. Those in older files don't: there an
// answer ends at the first item that isn't the model's.
func TestDifference26WhatWasInThePrompt(t *testing.T) {
	for _, old := range []bool{false, true} {
		s := newScript("s", "")
		s.old = old
		s.user("q")
		s.item(
			1,
			`{"type":"reasoning","summary":[{"type":"summary_text","text":"no"}],"content":null,"encrypted_content":"x"}`,
		)
		s.text(1, "two")
		s.call(1, "c1", `{ "cmd" : "ls" }`)
		s.call(1, "c2", `{"cmd":"pwd"}`)
		s.result("c1", `"one"`)
		s.result("c2", `[{"type":"input_text","text":"two"}]`)
		s.text(7, "b")
		s.line("event_msg", `{"type":"token_count"}`, "")
		s.user("late")
		r := readScript(t, s)
		want(t, r, "s: sys / q / two[c1][c2]* / c1=one / c2=two / b*")
		ex := r.Examples[0]
		if got := ex.Graph.Nodes[2].Message.ToolCalls[0].Arguments; got != `{ "cmd" : "ls" }` ||
			ex.Fidelity != ttc.Partial {
			t.Errorf("arguments %s, fidelity %d", got, ex.Fidelity)
		}
	}
	s := newScript("s", "") // the user spoke while the model was writing
	s.user("q")
	s.user("meanwhile")
	s.text(1, "a")
	want(t, readScript(t, s), "s: sys / q / a*")
}

// TestDifference27EventsAreNotMessages: events repeat what items say. Their status is the flag of a result, and usage
// records provide the answer's id.
func TestDifference27EventsAreNotMessages(t *testing.T) {
	s := newScript("s", "")
	s.user("q")
	s.line(
		"event_msg",
		`{"type":"item_completed","item":{"type":"UserMessage","id":"x","content":[{"type":"text","text":"q"}]}}`,
		"",
	)
	s.call(1, "c1", `{}`)
	s.line("token_usage_record", `{"response_id":"resp_1","usage":{"input_tokens":5,"output_tokens":2}}`, "")
	s.line(
		"event_msg",
		`{"type":"item_completed","item":{"type":"CommandExecution","id":"c1","status":"failed","exit_code":1}}`,
		"",
	)
	s.result("c1", `"no"`)
	s.call(3, "c2", `{}`)
	s.line(
		"event_msg",
		`{"type":"item_completed","item":{"type":"CommandExecution","id":"c2","status":"completed"}}`,
		"",
	)
	s.result("c2", `{"content":"yes","success":true}`)
	s.line("event_msg", `{"type":"thread_settings_applied"}`, "")
	s.line("event_msg", `{"type":"agent_message","message":"twice"}`, "")
	s.line("event_msg", `{"type":"new_event"}`, "")
	s.line("new_line", `{}`, "")
	s.text(5, "b")
	r := readScript(t, s)
	want(t, r, "s: sys / q / [c1]* / c1=no! / [c2]* / c2=yes / b*")
	if e := r.Examples[0].Graph.Nodes[5].Error; e == nil || *e {
		t.Errorf("flag %v of a call that worked", e)
	}
	unread := map[string]int64{"events of type new_event": 1, "lines of type new_line": 1}
	if diff := cmp.Diff(unread, r.Stats.Unread); diff != "" {
		t.Error(diff)
	}
}

// TestDifference28DeveloperMessages: text from the harness is a developer message, which templates treat as a system
// message; tools are known if a client supplied them.
func TestDifference28DeveloperMessages(t *testing.T) {
	s := newScript("s", "")
	s.item(
		-1,
		`{"type":"message","role":"developer","content":[{"type":"input_text","text":"skills"},{"type":"input_text","text":"rights"}]}`,
	)
	s.user("<environment_context>")
	s.user("q")
	s.text(3, "a")
	r := readScript(t, s)
	want(t, r, "s: sys / skills\nrights / <environment_context> / q / a*")
	if n := r.Examples[0].Graph.Nodes; n[1].Message.Role != "system" || r.Examples[0].Tools != nil {
		t.Errorf("%+v", n[1])
	}
	s = newScript("s", `,"dynamic_tools":[{"name":"f","description":"d","inputSchema":{"type":"object"}}]`)
	s.user("q")
	s.text(1, "a")
	if ex := readScript(t, s).Examples[0]; len(ex.Tools) != 1 || ex.Fidelity != ttc.TextOnly ||
		string(
			ex.Tools[0].Raw,
		) != `{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}` {
		t.Errorf("%+v", ex)
	}
}

// TestDifference29FailedPatches: a patch is a call whose input is text in its own grammar. If nothing but its result
// says that it failed, it has no flag.
func TestDifference29FailedPatches(t *testing.T) {
	s := newScript("s", "")
	s.user("q")
	s.item(1, `{"type":"custom_tool_call","id":"x","call_id":"c1","name":"apply_patch","input":"*** Begin\n+\"7\""}`)
	s.item(-1, `{"type":"custom_tool_call_output","call_id":"c1","output":"apply_patch verification failed: no"}`)
	s.text(3, "a")
	r := readScript(t, s)
	want(t, r, "s: sys / q / [c1]* / c1=apply_patch verification failed: no / a*")
	n := r.Examples[0].Graph.Nodes
	if c := n[2].Message.ToolCalls[0]; c.Arguments != `{"input":"*** Begin\n+\"7\""}` || c.Name != "apply_patch" ||
		n[3].Error != nil {
		t.Errorf("%+v %v", c, n[3].Error)
	}
}

// TestDifference30RetriesLeaveNoLine: a request that failed and was retried leaves no line; if one is left, it is a
// counted call.
func TestDifference30RetriesLeaveNoLine(t *testing.T) {
	s := newScript("s", "")
	s.user("q")
	s.line("event_msg", `{"type":"stream_error","message":"500"}`, "")
	s.text(1, "a")
	r := readScript(t, s)
	want(t, r, "s: sys / q / a*")
	if r.Stats.Calls != 2 || r.Stats.Dropped["call"][session.FailedCall] != 1 {
		t.Errorf("%+v", r.Stats)
	}
}

func TestCompactionAndRollback(t *testing.T) {
	s := newScript("s", "")
	s.user("q")
	s.text(1, "a")
	s.line(
		"compacted",
		`{"message":"sum","replacement_history":[{"type":"message","role":"user","content":[{"type":"input_text","text":"q"}]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"sum"}]}]}`,
		"",
	)
	s.user("r")
	s.text(3, "b")
	r := readScript(t, s)
	want(t, r, "s: sys / q / a* || sys / q / sum / r / b*")
	if r.Stats.Calls != 3 || r.Stats.Dropped["call"][session.UnstoredCall] != 1 {
		t.Errorf("%+v", r.Stats)
	}
	s = newScript("s", "")
	s.user("q")
	s.text(1, "a")
	s.user("r")
	s.text(3, "b")
	s.line("event_msg", `{"type":"thread_rolled_back","num_turns":1}`, "")
	s.user("s")
	s.text(5, "c")
	s.line("compacted", `{"message":"sum"}`, "")
	s.user("t")
	s.text(7, "d")
	want(t, readScript(t, s), "s: sys / q / a* / r / b* || sys / q / a* / s / c* || sys / q / s / sum / t / d*")
}

// TestNoTimes: lines whose times were removed are read.
func TestNoTimes(t *testing.T) {
	line := `{"type":"response_item","payload":{"type":"message","role":"%s","content":[{"type":"%s","text":"%s"}]}}` + "\n"
	text := fmt.Sprintf(line, "user", "input_text", "q") + fmt.Sprintf(line, "assistant", "output_text", "a")
	sessiontest.One(t, Factory(), "in.jsonl", text, "q / a*")
}

func FuzzRead(f *testing.F) {
	s := newScript("s", "")
	s.user("q")
	s.call(1, "c1", `{}`)
	s.result("c1", `"no"`)
	s.text(3, "b")
	f.Add(s.String())
	f.Add(
		`{"timestamp":"","type":"session_meta","payload":{"id":"x","history_base":{"thread_id":"x","end_ordinal_exclusive":1}}}`,
	)
	f.Fuzz(func(t *testing.T, text string) {
		r := sessiontest.ReadText(t, Factory(), "rollout.jsonl", text+"\n")
		sessiontest.Balanced(t, r)
	})
}

// TestNoTimestamps: a thread keeps its id if a tool removed the timestamps from its lines.
func TestNoTimestamps(t *testing.T) {
	s := newScript("s", "")
	s.user("q")
	s.text(1, "a")
	for i, line := range s.lines {
		_, rest, _ := strings.Cut(line, ",")
		s.lines[i] = "{" + rest
	}
	want(t, readScript(t, s), "s: sys / q / a*")
}
