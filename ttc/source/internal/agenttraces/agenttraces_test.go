package agenttraces

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc/source/internal/claudecode"
	"github.com/nat-go/nat-go/ttc/source/internal/codex"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Lines as the programs write them: an answer spread over two lines with two calls, and their results.
const (
	claude = `{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s","message":{"role":"user","content":"q"}}
{"type":"assistant","uuid":"u2","parentUuid":"u1","sessionId":"s","timestamp":"2026-01-01T00:00:01Z","message":` +
		`{"id":"m1","role":"assistant","model":"m","content":[{"type":"tool_use","id":"c1","name":"f","input":{}}]}}
{"type":"assistant","uuid":"u3","parentUuid":"u2","sessionId":"s","message":{"id":"m1","role":"assistant",` +
		`"content":[{"type":"tool_use","id":"c2","name":"f","input":{}}]}}
{"type":"user","uuid":"u4","parentUuid":"u2","sessionId":"s","message":{"role":"user","content":[` +
		`{"type":"tool_result","tool_use_id":"c1","content":"x","is_error":true}]}}
{"type":"user","uuid":"u5","parentUuid":"u3","sessionId":"s","message":{"role":"user","content":[` +
		`{"type":"tool_result","tool_use_id":"c2","content":"y"}]}}
{"type":"assistant","uuid":"u6","parentUuid":"u5","sessionId":"s","timestamp":"2026-01-01T00:00:02Z","message":` +
		`{"id":"m2","role":"assistant","model":"m","content":[{"type":"text","text":"a"}]}}`
	claudeWalk = "q / [c1][c2]* / c1=x! / c2=y / a*"

	codexLines = `{"type":"session_meta","payload":{"id":"t","base_instructions":{"text":"s"}}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"q"}]}}
{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}}`
)

// row is a row with a trace, in the JSON form.
func row(harness, id, lines, more string) string {
	return fmt.Sprintf(`{"harness":%q,"session_id":%q,"trace":[%s],"messages":[{"role":"user","content":"another"},`+
		`{"role":"assistant","content":"telling"}]%s}`+"\n", harness, id, strings.ReplaceAll(lines, "\n", ","), more)
}

func TestRows(t *testing.T) {
	for name, c := range map[string]struct{ text, walks, gaps string }{
		"Claude Code": {
			row("claude_code", "s", claude, ""), claudeWalk,
			"no_tools no_system_prompt parsed_arguments rebuilt_history",
		},
		"Codex":           {row("codex", "t", codexLines, ""), "s / q / a*", "no_tools"},
		"another program": {row("pi", "p", "", ""), "another / telling*", "no_tools no_system_prompt rebuilt_history"},
		"no trace": {
			row("codex", "p", "", `,"tools":[{"name":"f"}]`), "another / telling*", "no_system_prompt rebuilt_history",
		},
		"the older name": {
			strings.Replace(row("codex", "t", codexLines, ""), `"trace"`, `"traces"`, 1), "s / q / a*", "no_tools",
		},
		"lines as texts": {
			strings.Replace(row("codex", "t", "", ""), `"trace":[]`, `"trace":[`+quoted(codexLines)+`]`, 1),
			"s / q / a*", "no_tools",
		},
		"a list as a text": {
			strings.Replace(row("codex", "t", "", ""), `"trace":[]`, `"trace":`+
				sessiontest.Quote("["+strings.ReplaceAll(codexLines, "\n", ",")+"]"), 1), "s / q / a*", "no_tools",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := sessiontest.One(t, Factory(), "rows.jsonl", c.text, c.walks)
			if got := strings.Join(r.Examples[0].Gaps.Names(), " "); got != c.gaps {
				t.Errorf("gaps %s, want %s", got, c.gaps)
			}
		})
	}
}

func quoted(lines string) string {
	var out []string
	for _, l := range strings.Split(lines, "\n") {
		out = append(out, sessiontest.Quote(l))
	}
	return strings.Join(out, ",")
}

// TestParquet reads rows of a table whose lines are texts.
func TestParquet(t *testing.T) {
	type table struct {
		Harness   string   `parquet:"harness"`
		SessionID string   `parquet:"session_id"`
		Trace     []string `parquet:"trace,list"`
	}
	path := filepath.Join(t.TempDir(), "train.parquet")
	rows := []table{{"claude_code", "s", strings.Split(claude, "\n")}, {"codex", "t", strings.Split(codexLines, "\n")}}
	if err := parquet.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
	r := sessiontest.Read(t, Factory(), path)
	var got []string
	for _, ex := range r.Examples {
		got = append(got, ex.ID+": "+sessiontest.Walks(ex))
	}
	if want := []string{"s: " + claudeWalk, "t: s / q / a*"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q; %+v", got, want, r.Drops)
	}
}

func TestWhatIsNotARow(t *testing.T) {
	for name, c := range map[string]struct{ text, dropped, unread string }{
		"odd messages": {
			`{"harness":"pi","messages":[1]}`, "map[session:map[bad_example:1]]", "map[]",
		},
		"damaged lines": {
			strings.Replace(row("codex", "t", codexLines, ""), `"trace":[`, `"trace":["{",1,`, 1),
			"map[]", "map[lines of traces that are not objects:2]",
		},
		"a fork without its parent": {
			row("codex", "t", strings.Replace(codexLines, `"id":"t"`, `"id":"t","history_base":{"thread_id":"x",`+
				`"end_ordinal_exclusive":1}`, 1), ""), "map[call:map[missing_history:1]]", "map[]",
		},
		"another row":    {row("pi", "p", "", "") + `{"a":1}`, "map[]", "map[rows of another kind:1]"},
		"something else": {`{"harness":"x"}`, "map[file:map[other_format:1]]", "map[]"},
	} {
		t.Run(name, func(t *testing.T) {
			r := sessiontest.ReadText(t, Factory(), "rows.jsonl", c.text)
			if got := fmt.Sprint(r.Stats.Dropped); got != c.dropped {
				t.Errorf("%s: got %s, want %s", name, got, c.dropped)
			}
			if got := fmt.Sprint(r.Stats.Unread); got != c.unread {
				t.Errorf("%s: got %s, want %s", name, got, c.unread)
			}
		})
	}
}

// TestRecordedSessions: rows made from the recorded sessions give the same examples as the sessions themselves.
func TestRecordedSessions(t *testing.T) {
	for harness, c := range map[string]struct {
		source source.Factory
		folder string
	}{"claude_code": {claudecode.Factory(), "claude_code/projects"}, "codex": {codex.Factory(), "codex/sessions"}} {
		t.Run(harness, func(t *testing.T) {
			dir := filepath.Join(sessiontest.Recorded(t), c.folder)
			want := sessiontest.Read(t, c.source, dir)
			text := ""
			for _, path := range files(t, dir) {
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				text += row(harness, want.Examples[0].ID, strings.TrimSpace(string(b)), "")
			}
			got := sessiontest.ReadText(t, Factory(), "rows.jsonl", text)
			if len(got.Examples) != len(want.Examples) || got.Stats.Calls != want.Stats.Calls {
				t.Fatalf("%s: %d examples, %+v; want %d, %+v",
					harness, len(got.Examples), got.Stats, len(want.Examples), want.Stats)
			}
			for i, ex := range got.Examples {
				if sessiontest.Walks(ex) != sessiontest.Walks(want.Examples[i]) || ex.Gaps != want.Examples[i].Gaps {
					t.Errorf("%s: %s is read differently", harness, ex.ID)
				}
			}
		})
	}
}

func files(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".jsonl") {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func FuzzRead(f *testing.F) {
	f.Add(row("claude_code", "s", claude, "") + row("codex", "t", codexLines, "") + row("pi", "p", "", ""))
	f.Fuzz(func(t *testing.T, text string) {
		sessiontest.Balanced(t, sessiontest.ReadText(t, Factory(), "rows.jsonl", text+"\n"))
	})
}
