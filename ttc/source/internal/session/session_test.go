package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/internal/redact"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// wide are limits that nothing in these tests reaches.
var wide = Limits{MaxLine: 1 << 20, MaxSession: 1 << 20, MaxObjects: 1000, MaxContext: 1000}

// entry is a line of the tests' own format: a call of a session.
func entry(session, id, question, answer string, more string) string {
	return fmt.Sprintf(`{"s":%q,"id":%q,"q":%q,"a":%q%s}`+"\n", session, id, question, answer, more)
}

// format reads such lines.
func format(*source.Tally) Entries {
	return Entries{
		ID: func(e json.Raw) (string, bool) {
			id := Text(e, "s")
			return id, id != ""
		},
		Sessions: func(g Group) []*calls.Session {
			s := g.Limits.New(Text(g.Parts[0].JSON, "s"))
			for _, part := range g.Parts {
				message := func(role, key string) chat.Message {
					return chat.Message{Role: role, Form: chat.Text, Text: Text(part.JSON, key)}
				}
				c := calls.Call{
					ID:     Text(part.JSON, "id"),
					Model:  "m",
					File:   part.Path,
					Offset: part.Offset,
					Input:  []calls.Ref{s.Message(calls.Message{Message: message("user", "q")})},
					Output: message("assistant", "a"),
				}
				if tokens, ok := json.Raw(part.JSON).Get("tokens"); ok {
					c.Usage.Input, _ = tokens.Int64()
				}
				s.Add(c)
			}
			return []*calls.Session{s}
		},
	}
}

// open writes files into a folder and opens it as a source.
func open(t *testing.T, files map[string]string, limits Limits, opt source.Options) *Source {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	paths := []string{dir}
	found, err := find(t.Context(), paths, new(source.Tally), ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	tally := &source.Tally{Tell: opt.Drop}
	r, err := format(tally).read(context.Background(), found, limits, tally)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSource(context.Background(), r, Settings{&paths, limits, redact.Config{Enabled: true}}, tally, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// all returns the examples of a source as "id: question answer*".
func all(t *testing.T, s *Source) (out []string) {
	t.Helper()
	for {
		ex, _, err := s.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		line := ex.ID + ":"
		for _, n := range ex.Graph.Nodes {
			line += " " + n.Message.Text
			if n.Sampled == ttc.Yes {
				line += "*"
			}
		}
		out = append(out, line)
	}
}

type drops = map[string]map[ledger.Reason]int64

func TestSource(t *testing.T) {
	for name, c := range map[string]struct {
		files  map[string]string
		limits func(*Limits)
		want   []string
		drops  drops
	}{
		"in the order of ids, whatever the files": {
			files: map[string]string{
				"1.jsonl": entry("b", "1", "q", "x", ""), "2.jsonl": entry("a", "2", "r", "y", ""),
			},
			want: []string{"a: r y*", "b: q x*"},
		},
		"one session in two files": {
			files: map[string]string{
				"1.jsonl": entry("a", "1", "q", "x", ""), "2.jsonl": entry("a", "2", "r", "y", ""),
			},
			want: []string{"a: q x* r y*"},
		},
		"the same part twice": {
			files: map[string]string{
				"1.jsonl": entry("a", "1", "q", "x", ""),
				"2.jsonl": entry("a", "1", "q", "x", ""),
			},
			want: []string{"a: q x*"}, drops: drops{"session": {source.IdenticalRow: 1}},
		},
		"the same answer in two sessions": {
			files: map[string]string{"1.jsonl": entry("a", "1", "q", "x", "") + entry("b", "1", "q", "x", "")},
			want:  []string{"a: q x*", "b: q x"}, drops: drops{"call": {CopiedCall: 1}},
		},
		"two answers to one question": {
			files: map[string]string{"1.jsonl": entry("a", "1", "q", "x", "") + entry("a", "2", "q", "y", "")},
			want:  []string{"a: q x y"}, drops: drops{"call": {AmbiguousRetry: 2}},
		},
		"a session of too many bytes": {
			files: map[string]string{
				"1.jsonl": entry("a", "1", strings.Repeat("q", 900), "x", "") + entry("a", "2", "r", "y", "") +
					entry("b", "3", "q", "z", ""),
			},
			limits: func(l *Limits) { l.MaxSession = 500 },
			want:   []string{"b: q z*"}, drops: drops{"session": {SessionTooLong: 1}},
		},
		"a session of too many objects": {
			files: map[string]string{
				"1.jsonl": entry("a", "1", "q", "x", `,"n":[[],[],[],[]]`) + entry("b", "2", "q", "y", ""),
			},
			limits: func(l *Limits) { l.MaxObjects = 3 },
			want:   []string{"b: q y*"}, drops: drops{"session": {SessionTooLong: 1}},
		},
		"calls that were given too many messages": {
			files: map[string]string{
				"1.jsonl": entry("a", "1", "q", "x", "") + entry("a", "2", "r", "y", "") +
					entry("b", "3", "q", "z", ""),
			},
			limits: func(l *Limits) { l.MaxContext = 1 },
			want:   []string{"b: q z*"}, drops: drops{"session": {SessionTooLong: 1}},
		},
		"a long line": {
			files: map[string]string{
				"1.jsonl": entry("a", "1", strings.Repeat("q", 900), "x", "") + entry("b", "2", "q", "y", ""),
			},
			limits: func(l *Limits) { l.MaxLine = 500 },
			want:   []string{"b: q y*"}, drops: drops{"line": {UnreadLine: 1}},
		},
		"a file of another format": {
			files: map[string]string{"1.jsonl": entry("a", "1", "q", "x", ""), "2.jsonl": `{"other":1}` + "\n"},
			want:  []string{"a: q x*"}, drops: drops{"file": {OtherFormat: 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			limits := wide
			if c.limits != nil {
				c.limits(&limits)
			}
			s := open(t, c.files, limits, source.Options{})
			if d := cmp.Diff(c.want, all(t, s)); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(c.drops, s.Stats().Dropped); d != "" {
				t.Error(d)
			}
			for _, a := range s.Stats().Accounts() {
				if a.In != a.Out+a.DroppedTotal() {
					t.Errorf("the books don't balance: %+v", a)
				}
			}
		})
	}
}

// TestResumedSource checks that a source that continues after any of its cursors yields what follows there.
func TestResumedSource(t *testing.T) {
	files := map[string]string{"1.jsonl": entry("a", "1", "q", "x", "") + entry("b", "2", "q", "y", "") +
		entry("c", "3", "r", "z", "")}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "1.jsonl"), []byte(files["1.jsonl"]), 0o600); err != nil {
		t.Fatal(err)
	}
	f := Factory(Format{Type: "test", Extensions: []string{".jsonl"}, Entries: format}, func(c *Config) Settings {
		return Settings{&c.Path, wide, redact.Config{}}
	})
	start := func(resume *source.Cursor, inputs []source.Input) source.Source {
		s, err := f.OpenAll(context.Background(), &Config{}, []string{dir}, source.Options{
			Resume: resume,
			Inputs: inputs,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	first := start(nil, nil)
	var ids []string
	var at []source.Cursor
	for {
		ex, cursor, err := first.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		ids, at = append(ids, ex.ID), append(at, cursor)
	}
	for i := range at {
		again := start(&at[i], first.Inputs())
		for _, want := range ids[i+1:] {
			ex, _, err := again.Next(context.Background())
			if err != nil || ex.ID != want {
				t.Fatalf("after %s: %v, %v", ids[i], ex, err)
			}
		}
		if _, _, err := again.Next(context.Background()); !errors.Is(err, io.EOF) {
			t.Errorf("after %s: %v", ids[i], err)
		}
	}
}

// TestClaimsAreChecked checks what becomes of calls whose claims hold, don't hold, or can't be checked. The prompts are
// shown to the check as they were recorded, before anything in them is redacted.
func TestClaimsAreChecked(t *testing.T) {
	const secret = "mail jane.roe@acme-corp.io"
	files := map[string]string{
		"1.jsonl": entry("a", "1", "holds", "x", `,"tokens":5`) + entry("b", "2", "differs", "y", `,"tokens":6`) +
			entry("c", "3", "unknown", "z", "") + entry("d", "4", secret, "w", `,"tokens":26`),
	}
	var seen []string
	prove := func(c *source.Claim) (proven ttc.Proofs, refuted ttc.Gaps) {
		for _, m := range c.Given {
			seen = append(seen, m.Text)
		}
		switch {
		case c.PromptTokens == 0:
			return 0, 0
		case c.PromptTokens == int64(len(c.Given[0].Text)):
			return ttc.PromptProven, 0
		}
		return 0, ttc.PromptDiffers
	}
	s := open(t, files, wide, source.Options{Prove: prove})
	type graded struct {
		ID       string
		Fidelity string
		Gaps     []string
		Proofs   []string
	}
	var got []graded
	for {
		ex, _, err := s.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, graded{ex.ID, ex.Fidelity.String(), ex.Gaps.Names(), ex.Proofs.Names()})
		if strings.Contains(ex.Graph.Nodes[0].Message.Text, "jane.roe") {
			t.Error("the example isn't redacted")
		}
	}
	if d := cmp.Diff([]graded{
		{"a", "text", nil, []string{"prompt_tokens"}},
		{"b", "partial", []string{"prompt_tokens_differ"}, nil},
		{"c", "text", nil, nil},
		{"d", "text", nil, []string{"prompt_tokens"}},
	}, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"holds", "differs", secret}, seen); d != "" {
		t.Error(d)
	}
	st := s.Stats()
	if d := cmp.Diff(map[string]int64{"text": 3, "partial": 1}, st.Fidelity); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]int64{"prompt_tokens": 2}, st.Proven); d != "" {
		t.Error(d)
	}
}

// TestLineOffsets checks that lines are found where they begin, also after those that can't be read.
func TestLineOffsets(t *testing.T) {
	text := `{"n":1}` + "\n\n" + `[2]` + "\n" + `{"n":` + "\n" + `{"n":5}` + "\n" + strings.Repeat("x", 101) + "\n" +
		`{"n":7}` + "\n" + strings.Repeat("x", 200_000) + "\n" + `{"n":9}` + "\n" + `{"n":6`
	var tally source.Tally
	var got []string
	err := readLines(context.Background(), strings.NewReader(text), "f", 100, &tally, func(l Line) bool {
		got = append(got, fmt.Sprintf("%d %s", l.Offset, l.JSON))
		return true
	})
	if d := cmp.Diff([]string{`0 {"n":1}`, `19 {"n":5}`, `129 {"n":7}`, `200138 {"n":9}`}, got); err != nil || d != "" {
		t.Error(err, d)
	}
	if d := cmp.Diff(drops{"line": {UnreadLine: 5}}, tally.S.Dropped); d != "" {
		t.Error(d)
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.jsonl", "a.jsonl.gz", "c.txt", "sub/d.jsonl.zst", "sub/empty.jsonl"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.TrimPrefix(name, "sub/empty.jsonl")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct{ named, want []string }{
		"an empty file alone":    {[]string{"sub/empty.jsonl"}, []string{"sub/empty.jsonl"}},
		"a folder":               {[]string{""}, []string{"a.jsonl.gz", "b.jsonl", "sub/d.jsonl.zst"}},
		"a file, whatever it is": {[]string{"c.txt"}, []string{"c.txt"}},
		"a file within a folder": {[]string{"b.jsonl", ""}, []string{"a.jsonl.gz", "b.jsonl", "sub/d.jsonl.zst"}},
		"a pattern":              {[]string{"*.jsonl"}, []string{"b.jsonl"}},
	} {
		t.Run(name, func(t *testing.T) {
			var named []string
			for _, n := range c.named {
				named = append(named, filepath.Join(dir, n))
			}
			var tally source.Tally
			found, err := find(t.Context(), named, &tally, ".jsonl")
			if err != nil {
				t.Fatal(err)
			}
			if empty := tally.S.Dropped["file"][OtherFormat]; (empty == 1) != slices.Contains(c.named, "") {
				t.Errorf("%d empty files", empty)
			}
			var got []string
			for _, path := range found {
				rel, _ := filepath.Rel(dir, path)
				got = append(got, filepath.ToSlash(rel))
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
	if _, err := find(t.Context(), []string{dir}, new(source.Tally), ".parquet"); err == nil || !strings.Contains(err.Error(), ".parquet") {
		t.Errorf("a folder without such files: %v", err)
	}
}

func TestValues(t *testing.T) {
	if got := Nanoseconds("2026-01-02T03:04:05Z"); got != 1767323045000000000 {
		t.Error(got)
	}
	for _, text := range []string{"", "yesterday", "0001-01-01T00:00:00Z", "9999-01-01T00:00:00Z"} {
		if got := Nanoseconds(text); got != 0 {
			t.Errorf("%q: %d", text, got)
		}
	}
	long := strings.Repeat("é", 300)
	if a, b := ID(long), ID(long+"x"); a == b || len(a) > maxID+20 || ID("short") != "short" {
		t.Errorf("%q, %q", a, b)
	}
	if got := Stem("/x/run.jsonl.gz"); got != "run" {
		t.Error(got)
	}
	raw := json.Raw(`{"a":null,"b":"{\"c\":1}","d":"{"}`)
	if got := string(Value(raw, "a", "b")); got != `{"c":1}` {
		t.Error(got)
	}
	if got := string(Value(raw, "d")); got != `"{"` {
		t.Error(got)
	}
}
