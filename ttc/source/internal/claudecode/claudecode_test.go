package claudecode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// script writes a session as the program does, one line at a time.
type script struct {
	lines  []string
	parent string
	n      int
	id     string
}

func newScript(id string) *script { return &script{id: id} }

func (s *script) raw(format string, a ...any) { s.lines = append(s.lines, fmt.Sprintf(format, a...)) }

// chained writes a line of the chain, following the previous one. more holds additional keys.
func (s *script) chained(typ, more string) string {
	s.n++
	uuid := fmt.Sprintf("%s-u%d", s.id, s.n)
	parent := "null"
	if s.parent != "" {
		parent = `"` + s.parent + `"`
	}
	s.raw(
		`{"parentUuid":%s,"isSidechain":false,"type":"%s",%s,"uuid":"%s","timestamp":"2026-03-01T22:38:%02d.5Z","sessionId":"%s","version":"2.1.0"}`,
		parent,
		typ,
		more,
		uuid,
		s.n%60,
		s.id,
	)
	s.parent = uuid
	return uuid
}

func (s *script) user(text string) string {
	return s.chained("user", `"message":{"role":"user","content":`+sessiontest.Quote(text)+`}`)
}

func (s *script) result(call, text string, failed string) string {
	return s.chained("user", fmt.Sprintf(
		`"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"%s","content":%s%s}]}`,
		call,
		sessiontest.Quote(text),
		failed,
	))
}

func (s *script) block(id, block string) string {
	return s.chained("assistant", fmt.Sprintf(
		`"requestId":"r-%s","message":{"id":"%s","role":"assistant","model":"claude-x","content":[%s],"stop_reason":"tool_use","usage":{"input_tokens":7,"output_tokens":3}}`,
		id,
		id,
		block,
	))
}

func (s *script) text(id, text string) string {
	return s.block(id, `{"type":"text","text":`+sessiontest.Quote(text)+`}`)
}

func (s *script) call(id, call, arguments string) string {
	return s.block(id, fmt.Sprintf(`{"type":"tool_use","id":"%s","name":"Bash","input":%s}`, call, arguments))
}

func (s *script) String() string { return strings.Join(s.lines, "\n") + "\n" }

func one(t *testing.T, s *script, want string) sessiontest.Reading {
	t.Helper()
	return sessiontest.One(t, Factory(), "s.jsonl", s.String(), want)
}

// TestDifference17ParallelCallsAreMergedByMessageID: the chain of parents alone loses parallel calls: each result has
// its own line as its parent. Results come in an order of their own.
func TestDifference17ParallelCallsAreMergedByMessageID(t *testing.T) {
	s := newScript("s")
	s.user("q")
	s.text("m1", "two")
	first := s.call("m1", "c1", `{"command": "ls"}`)
	s.call("m1", "c2", `{"command": "pwd"}`)
	s.result("c2", "two", "")
	s.parent = first
	s.result("c1", "one", "")
	s.text("m2", "done")
	r := one(t, s, "q / two[c1][c2]* / c2=two / c1=one / done*")
	if got := r.Examples[0].Graph.Nodes[1].Message.ToolCalls[0].Arguments; got != `{"command": "ls"}` {
		t.Errorf("arguments %s", got)
	}
}

// TestCallWithoutName checks that a session with a call that names no tool is dropped with a reason.
func TestCallWithoutName(t *testing.T) {
	for _, name := range []string{`"name":null,`, `"name":"",`, `"name":7,`, ``} {
		s := newScript("s")
		s.user("q")
		s.block("m1", `{"type":"tool_use","id":"c1",`+name+`"input":{}}`)
		s.result("c1", "one", "")
		s.text("m2", "done")
		r := sessiontest.ReadText(t, Factory(), "s.jsonl", s.String())
		if len(r.Examples) != 0 || len(r.Drops) != 1 || r.Drops[0].Reason != session.NamelessCall {
			t.Errorf("%s: %d examples, drops %+v", name, len(r.Examples), r.Drops)
		}
	}
}

// TestDifference18OtherLines: lines that repeat messages - blobs of requests - are not counted twice; unknown lines are
// counted by name, lines known to carry nothing are not.
func TestDifference18OtherLines(t *testing.T) {
	s := newScript("s")
	s.user("q")
	for _, typ := range []string{"atis-latch", "last-prompt", "mode", "tools-used", "cost-state", "queue-operation"} {
		s.raw(`{"type":"%s","sessionId":"s"}`, typ)
	}
	s.raw(`{"type":"api-request-blob","sessionId":"s","hash":"h","message":{"role":"user","content":"q"}}`)
	s.raw(`{"type":"new-in-2.9","sessionId":"s"}`)
	s.text("m1", "a")
	s.raw(`{"type":"new-in-2.9","sessionId":"s"}`)
	r := one(t, s, "q / a*")
	if len(r.Stats.Unread) != 1 || r.Stats.Unread["lines of type new-in-2.9"] != 2 {
		t.Errorf("%+v", r.Stats.Unread)
	}
}

const snapshotTool = `{"name":"Bash","description":"d","schema":{"name":"Bash","description":"d","input_schema":{"type":"object"}}}`

// TestDifference19PromptSnapshots: the system prompt and the tools come from snapshots, the first of which has no
// tools.
func TestDifference19PromptSnapshots(t *testing.T) {
	s := newScript("s")
	s.user("q")
	s.chained("attachment", `"attachment":{"type":"prompt_snapshot","systemPrompt":["one","two"]}`)
	s.text("m1", "a")
	s.chained(
		"attachment",
		`"attachment":{"type":"prompt_snapshot","systemPrompt":["one","two"],"cliPrefix":"agent","tools":[`+snapshotTool+`]}`,
	)
	s.user("r")
	s.text("m2", "b")
	r := one(t, s, "agent\none\n\ntwo / q / a* / r / b*")
	if tools := r.Examples[0].Tools; len(tools) != 1 ||
		string(
			tools[0].Raw,
		) != `{"type":"function","function":{"name":"Bash","description":"d","parameters":{"type":"object"}}}` {
		t.Errorf("%+v", tools)
	}
}

// TestDifference20BlocksOfAnAnswer: all lines of an answer repeat its usage; blocks have their position; old versions
// repeat a block as it grows.
func TestDifference20BlocksOfAnAnswer(t *testing.T) {
	s := newScript("s")
	s.user("q")
	s.text("m1", "gro")
	s.text("m1", "growing")
	s.call("m1", "c1", `{"command":"l"}`)
	s.call("m1", "c1", `{"command":"ls"}`)
	s.result("c1", "x", "")
	s.text("m2", "b")
	r := one(t, s, "q / growing[c1]* / c1=x / b*")
	if got := r.Examples[0].Graph.Nodes[1].Message.ToolCalls[0].Arguments; got != `{"command":"ls"}` {
		t.Errorf("arguments %s", got)
	}
	if r.Stats.Calls != 2 {
		t.Errorf("%d calls", r.Stats.Calls)
	}
	s = newScript("s")
	s.user("q")
	for i, text := range []string{"second", "first"} {
		s.chained(
			"assistant",
			fmt.Sprintf(`"apiBlockIndex":%d,"message":{"id":"m","content":[{"type":"text","text":"%s"}]}`, 1-i, text),
		)
	}
	one(t, s, "q / first\nsecond*")
}

// TestDifference21FailedCallsAreInTheChain: a call that failed and was retried leaves a line in the chain.
func TestDifference21FailedCallsAreInTheChain(t *testing.T) {
	s := newScript("s")
	s.user("q")
	s.chained("system", `"subtype":"api_error","content":"529"`)
	s.chained("system", `"subtype":"api_error","content":"529"`)
	s.text("m1", "a")
	r := one(t, s, "q / a*")
	if r.Stats.Calls != 3 || r.Stats.Dropped["call"][session.FailedCall] != 2 {
		t.Errorf("%+v", r.Stats)
	}
}

// TestDifference22SubAgents: a sub-agent's lines are in a file of their own. They form an example of their own, and the
// result reaches the main agent as an attachment to what it queued.
func TestDifference22SubAgents(t *testing.T) {
	dir := t.TempDir()
	s := newScript("s")
	s.user("q")
	s.block("m1", `{"type":"tool_use","id":"c1","name":"Agent","input":{}}`)
	s.result("c1", "Async agent launched", "")
	s.text("m2", "waiting")
	s.chained(
		"attachment",
		`"attachment":{"type":"queued_command","prompt":"<task-notification>42</task-notification>"},"rendered":[{"content":""}]`,
	)
	s.text("m3", "it says 42")
	sessiontest.Write(t, dir, "p/s.jsonl", s.String())
	sessiontest.Write(t, dir, "p/s/subagents/agent-7.meta.json", `{"toolUseId":"c1"}`)
	agent := newScript("x")
	agent.user("find it")
	agent.text("m9", "42")
	sessiontest.Write(t, dir, "p/s/subagents/agent-7.jsonl", strings.NewReplacer(
		`"isSidechain":false`,
		`"isSidechain":true,"agentId":"7"`,
		`"sessionId":"x"`,
		`"sessionId":"s"`,
	).Replace(agent.String()))
	r := sessiontest.Read(t, Factory(), dir)
	var got []string
	for _, ex := range r.Examples {
		got = append(got, ex.ID+": "+sessiontest.Walks(ex))
	}
	want := "s: q / [c1]* / c1=Async agent launched / waiting* / <task-notification>42</task-notification> / it says 42*; s/agent-7: find it / 42*"
	if strings.Join(got, "; ") != want {
		t.Errorf("\n got %s\nwant %s", strings.Join(got, "; "), want)
	}
}

// TestDifference23Compaction: after a compaction the model sees the summary, what was kept verbatim, and what came
// after; the call that wrote the summary is not stored.
func TestDifference23Compaction(t *testing.T) {
	s := newScript("s")
	s.user("q")
	kept := s.text("m1", "a")
	s.parent = ""
	s.chained(
		"system",
		`"subtype":"compact_boundary","compactMetadata":{"preservedMessages":{"anchorUuid":"s-u4","uuids":["`+kept+`"]}}`,
	)
	s.chained("user", `"isCompactSummary":true,"message":{"role":"user","content":"summary"}`)
	s.chained("user", `"isMeta":true,"message":{"role":"user","content":"<caveat>"}`)
	s.user("<command-name>/compact</command-name>")
	s.user("r")
	s.text("m2", "b")
	r := one(t, s, "q / a* || summary / a / <caveat>\n<command-name>/compact</command-name>\nr / b*")
	if r.Stats.Calls != 3 || r.Stats.Dropped["call"][session.UnstoredCall] != 1 {
		t.Errorf("%+v", r.Stats)
	}
}

// TestDifference24ErrorFlags: is_error may be absent if a call succeeded.
func TestDifference24ErrorFlags(t *testing.T) {
	s := newScript("s")
	s.user("q")
	s.call("m1", "c1", "{}")
	s.result("c1", "no", `,"is_error":true`)
	s.call("m2", "c2", "{}")
	s.result("c2", "yes", "")
	s.text("m3", "b")
	r := one(t, s, "q / [c1]* / c1=no! / [c2]* / c2=yes / b*")
	if e := r.Examples[0].Graph.Nodes[4].Error; e == nil || *e {
		t.Errorf("a result without is_error has the flag %v", e)
	}
}

// TestLoggedRequests: a logged request shows what the model was given, whatever the chain says. An answer in it is only
// stored as lines.
func TestLoggedRequests(t *testing.T) {
	s := newScript("s")
	s.user("q")
	s.raw(
		`{"type":"api-request-shape","sessionId":"s","shapeHash":"sh","shape":{"system":[{"type":"text","text":"sys"}],"tools":[{"name":"f","input_schema":{}}]}}`,
	)
	s.raw(
		`{"type":"api-request-blob","sessionId":"s","hash":"h1","message":{"role":"user","content":[{"type":"text","text":"reminder"},{"type":"text","text":"q"}]}}`,
	)
	s.raw(`{"type":"api-request","sessionId":"s","id":"r1","shapeHash":"sh","keep":0,"tail":["h1"]}`)
	ask := func(id, ref, text string) {
		s.chained(
			"assistant",
			fmt.Sprintf(
				`"requestRef":"%s","message":{"id":"%s","content":[{"type":"text","text":"%s"}]}`,
				ref,
				id,
				text,
			),
		)
	}
	ask("m1", "r1", "a")
	s.user("r")
	s.raw(`{"type":"api-request-blob","sessionId":"s","hash":"h3","message":{"role":"user","content":"r"}}`)
	s.raw(`{"type":"api-request","sessionId":"s","id":"r2","shapeHash":"sh","base":"r1","keep":1,"tail":["h2","h3"]}`)
	ask("m2", "r2", "b")
	s.raw(`{"type":"api-request","sessionId":"s","id":"r3","shapeHash":"sh","keep":0,"tail":["h3","h2"]}`)
	s.user("s")
	ask("m3", "r3", "c")
	s.raw(`{"type":"api-request","sessionId":"s","id":"r4","shapeHash":"sh","keep":0,"tail":["unknown"]}`)
	s.user("t")
	ask("m4", "r4", "d")
	r := one(t, s, "sys / reminder\nq / a* / r / b* || sys / r / a / c* || sys / q / a / r / b / s / c / t / d*")
	if r.Examples[0].Fidelity != ttc.Partial {
		t.Error("a reconstructed history is not marked as partial")
	}
}

// TestRequestsByHashAlone: a message of a logged request that the session's lines tell isn't stored with the requests.
// It follows the answer to the request before.
func TestRequestsByHashAlone(t *testing.T) {
	s := newScript("s")
	ask := func(id, ref, block string) {
		s.chained("assistant", `"requestRef":"`+ref+`","message":{"id":"`+id+`","content":[`+block+`]}`)
	}
	s.user("q")
	s.raw(`{"type":"api-request-shape","sessionId":"s","shapeHash":"sh","shape":{"system":"sys","tools":[]}}`)
	s.raw(`{"type":"api-request-blob","sessionId":"s","hash":"h1","message":{"role":"user","content":"reminder q"}}`)
	s.raw(`{"type":"api-request-blob","sessionId":"s","hash":"h2","message":{"role":"system","content":"place"}}`)
	s.raw(`{"type":"api-request","sessionId":"s","id":"r1","shapeHash":"sh","keep":0,"tail":["h1","h2"]}`)
	ask("m1", "r1", `{"type":"text","text":"a"}`)
	ask("m1", "r1", `{"type":"tool_use","id":"c","name":"f","input":{}}`)
	s.result("c", "out", "")
	s.raw(`{"type":"api-request","sessionId":"s","id":"r2","shapeHash":"sh","base":"r1","keep":2,"tail":["h3","h4"]}`)
	ask("m2", "r2", `{"type":"text","text":"b"}`)
	s.user("r")
	s.raw(`{"type":"api-request","sessionId":"s","id":"r3","shapeHash":"sh","keep":0,"tail":["h1","h2","h3","h4","h5","h6"]}`)
	ask("m3", "r3", `{"type":"text","text":"c"}`)
	r := one(t, s, "sys / reminder q / place / a[c]* / c=out / b* / r / c*")
	if gaps := r.Examples[0].Gaps; gaps&ttc.RebuiltHistory != 0 {
		t.Errorf("gaps %v", gaps)
	}
	s.chained("attachment", `"attachment":{"type":"date"},"rendered":[{"content":"later"}]`)
	s.user("s")
	s.raw(`{"type":"api-request","sessionId":"s","id":"r4","shapeHash":"sh","base":"r3","keep":6,"tail":["h7","h8"]}`)
	ask("m4", "r4", `{"type":"text","text":"d"}`)
	r = one(t, s, "sys / reminder q / place / a[c]* / c=out / b* / r / c* / later\ns / d*")
	if gaps := r.Examples[0].Gaps; gaps&ttc.RebuiltHistory == 0 {
		t.Error("an attachment whose place isn't known is not said")
	}
}

// TestOrderOfFilesAndResume: however the sessions are spread over files, the examples are the same, in the order of
// their ids; a run resumes where it stopped.
func TestOrderOfFilesAndResume(t *testing.T) {
	var scripts []string
	for _, id := range []string{"s3", "s1", "s2"} {
		s := newScript(id)
		s.user("q " + id)
		s.text("m-"+id, "a")
		scripts = append(scripts, s.String())
	}
	// A fork of older versions copies lines.
	copied := strings.ReplaceAll(scripts[0], `"sessionId":"s3"`, `"sessionId":"s4"`)
	one, two := t.TempDir(), t.TempDir()
	for i, text := range append(scripts, copied) {
		sessiontest.Write(t, one, fmt.Sprintf("%d.jsonl", i), text)
		sessiontest.Write(t, two, fmt.Sprintf("sub/%d.jsonl", 9-i), text)
	}
	sessiontest.Write(t, two, "notes.jsonl", "{\"a\":1}\n")
	show := func(r sessiontest.Reading) (out []string) {
		for _, ex := range r.Examples {
			out = append(out, ex.ID+" "+sessiontest.Walks(ex))
		}
		return out
	}
	a, b := sessiontest.Read(t, Factory(), one), sessiontest.Read(t, Factory(), two)
	want := []string{"s1 q s1 / a*", "s2 q s2 / a*", "s3 q s3 / a*", "s4 q s3 / a"}
	if !slices.Equal(show(a), want) || !slices.Equal(show(b), want) {
		t.Errorf("\n%v\n%v\n%v", show(a), show(b), want)
	}
	if a.Stats.Dropped["call"][session.CopiedCall] != 1 || b.Stats.Dropped["file"][session.OtherFormat] != 1 {
		t.Errorf("%+v\n%+v", a.Stats, b.Stats)
	}
	rest, err := sessiontest.ReadAfter(Factory(), &a.Cursors[1], a.Inputs, one)
	if err != nil || !slices.Equal(show(rest), want[2:]) {
		t.Errorf("%v %v", show(rest), err)
	}
	sessiontest.Write(t, one, "1.jsonl", strings.ReplaceAll(scripts[1], "q s1", "another"))
	if _, err := sessiontest.ReadAfter(Factory(), &a.Cursors[1], a.Inputs, one); err == nil {
		t.Error("a changed session was resumed")
	}
}

// TestHostileSessions checks that reading continues after every hostile session, and that all omissions are counted.
func TestHostileSessions(t *testing.T) {
	ok := newScript("s")
	ok.user("q")
	ok.text("m1", "a")
	loop := `{"type":"user","uuid":"a","parentUuid":"b","sessionId":"s","message":{"role":"user","content":"x"}}
{"type":"user","uuid":"b","parentUuid":"a","sessionId":"s","message":{"role":"user","content":"y"}}
{"type":"assistant","uuid":"c","parentUuid":"b","sessionId":"s","message":{"id":"m9","content":[{"type":"text","text":"z"}]}}
`
	requests := `{"type":"api-request-shape","sessionId":"s","shapeHash":"h","shape":{}}
{"type":"api-request","sessionId":"s","id":"r1","base":"r1","shapeHash":"h","keep":9,"tail":[1,null]}
{"type":"assistant","uuid":"d","requestRef":"r1","parentUuid":"d","sessionId":"s","message":{"id":"m8","content":"z"}}
`
	odd := `{"type":"user","sessionId":"s"}
{"type":"user","sessionId":"s","message":7}
{"type":"assistant","sessionId":"s","message":{"content":{"a":1}}}
{"type":"assistant","uuid":3,"sessionId":[],"message":{"id":{},"content":[1,"text",{"type":5},{"type":"tool_use","name":"f"}]}}
{"type":"attachment","sessionId":"s","attachment":[],"rendered":{}}
{"type":"system","subtype":"compact_boundary","sessionId":"s","compactMetadata":{"preservedMessages":{"uuids":[1,{}]}}}
`
	itself := `{"type":"system","uuid":"k","parentUuid":null,"subtype":"compact_boundary","sessionId":"s",` +
		`"compactMetadata":{"preservedMessages":{"anchorUuid":"k","uuids":["k"]}}}
{"type":"assistant","uuid":"e","parentUuid":"k","sessionId":"s","message":{"id":"m7","content":"z"}}
`
	for name, c := range map[string]struct {
		text  string
		lines int64 // unread
	}{
		"a torn last line":            {ok.String() + ok.lines[1][:50], 1},
		"no JSON between":             {ok.lines[0] + "\n<html>\n[1]\n" + ok.lines[1], 2},
		"no UTF-8":                    {ok.String() + "{\"type\":\"\xff\"}\n", 1},
		"nothing but space":           {"\n\n" + ok.String(), 0},
		"parents in a loop":           {loop, 0},
		"requests in a loop":          {requests, 0},
		"a boundary that kept itself": {itself, 0},
		"lines twice":                 {ok.String() + ok.String(), 0},
		"odd values":                  {ok.String() + odd, 0},
		"deep nesting":                {ok.String() + strings.Repeat("[", 100_000) + "\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := sessiontest.ReadText(t, Factory(), "s.jsonl", c.text)
			if got := r.Stats.Dropped["line"][session.UnreadLine]; got != c.lines {
				t.Errorf("%s: %d lines unread, want %d: %+v", name, got, c.lines, r.Drops)
			}
			trained := int64(0)
			for _, ex := range r.Examples {
				for _, n := range ex.Graph.Nodes {
					if n.Sampled == ttc.Yes {
						trained++
					}
				}
			}
			for _, a := range r.Stats.Accounts() {
				if a.In != a.Out+a.DroppedTotal() || a.Unit == "call" && a.Out != trained {
					t.Errorf("%s: the books don't balance: %+v, %d trained", name, a, trained)
				}
			}
			if trained == 0 {
				t.Errorf("%s: nothing was read", name)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	s := newScript("s")
	s.user("q")
	s.text("m1", strings.Repeat("x", 5000))
	s.text("m2", "b")
	dir := t.TempDir()
	sessiontest.Write(t, dir, "s.jsonl", s.String())
	for _, c := range []struct {
		line, session int64
		want          string
	}{
		{1 << 20, 1 << 20, "map[]"},
		{2048, 1 << 20, "map[line:map[unread_line:1]]"},
		{1 << 20, 2048, "map[session:map[session_too_large:1]]"},
	} {
		t.Run(c.want, func(t *testing.T) {
			cfg := schema.New[session.Config]()
			cfg.MaxLine, cfg.MaxSession = c.line, c.session
			src, err := Factory().OpenAll(context.Background(), &cfg, []string{dir}, source.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for err == nil {
				_, _, err = src.Next(context.Background())
			}
			if got := fmt.Sprint(src.Stats().Dropped); got != c.want || !errors.Is(err, io.EOF) {
				t.Errorf("%+v: %s %v", c, got, err)
			}
			src.Close()
		})
	}
}

func FuzzRead(f *testing.F) {
	s := newScript("s")
	s.user("q")
	s.call("m1", "c1", "{}")
	s.result("c1", "no", `,"is_error":true`)
	s.text("m2", "b")
	f.Add(s.String())
	f.Add(`{"type":"api-request","sessionId":"s","id":"r1","base":"r0","keep":-1,"tail":["h"]}`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, a := range func() []ledger.Account {
			r := sessiontest.ReadText(t, Factory(), "s.jsonl", text+"\n")
			return r.Stats.Accounts()
		}() {
			if a.In != a.Out+a.DroppedTotal() || a.Out < 0 {
				t.Errorf("the books don't balance: %+v", a)
			}
		}
	})
}

// TestBoundariesInACircle: compactions that list themselves, or each other, among what they kept.
func TestBoundariesInACircle(t *testing.T) {
	const n = 100
	s := newScript("s")
	s.user("q")
	s.text("m1", "a")
	for i := range n {
		uuid := fmt.Sprintf("b%d", i)
		s.raw(
			`{"parentUuid":%q,"type":"system","subtype":"compact_boundary","uuid":%q,"sessionId":"s",`+
				`"compactMetadata":{"preservedMessages":{"anchorUuid":%q,"uuids":[%q,"b%d"]}}}`,
			s.parent, uuid, uuid, uuid, (i+1)%n,
		)
		s.parent = uuid
	}
	s.user("more")
	s.text("m2", "b")
	one(t, s, "q / a* / more / b*")
}

// TestNoSessionID: lines whose session ids were removed are read under the file's name.
func TestNoSessionID(t *testing.T) {
	text := `{"type":"user","uuid":"u1","parentUuid":null,"message":{"role":"user","content":"q"}}
{"type":"assistant","uuid":"a1","parentUuid":"u1","message":{"role":"assistant","content":[{"type":"text","text":"a"}]}}
`
	line := json.Raw(strings.Split(text, "\n")[1])
	if recognize(&source.Head{Entries: []json.Raw{line}}).Fit != source.Certain {
		t.Error("not recognised")
	}
	sessiontest.One(t, Factory(), "in.jsonl", text, "q / a*")
	unlinked := strings.Replace(text, `"parentUuid":"u1",`, "", 1)
	sessiontest.One(t, Factory(), "in.jsonl", unlinked, "q / a*")
}
