package python_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/pythontest"
	"github.com/nat-go/nat-go/plugins/conformance"
	"github.com/nat-go/nat-go/plugins/internal/host"
	"github.com/nat-go/nat-go/plugins/internal/kit"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// served describes how the builders of a module in tests/builders are served, by a Python that has what natgo[builder]
// installs.
func served(t *testing.T, module string) host.Spec {
	t.Helper()
	python := pythontest.Builders(t, "tests/builders/requirements.txt")
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	code := fmt.Sprintf(`import sys; sys.dont_write_bytecode = True; sys.path[:0] = [%q, %q]
from natgo.builder.__main__ import main
sys.argv[0] = %q
sys.exit(main([%q]))`, root, filepath.Join(root, "tests", "builders"), module, module)
	return host.Spec{Name: module, Path: python, Args: []string{"-c", code}, StartTimeout: time.Minute}
}

// TestBuilderConformance checks that a builder of a few lines passes every check that a Go one passes.
func TestBuilderConformance(t *testing.T) {
	spec := served(t, "sample")
	conformance.Test(t, conformance.Options{Path: spec.Path, Args: spec.Args, StartTimeout: spec.StartTimeout})
}

// TestHostileBuilders checks that errors in a builder are reported with their position in the author's file and a
// traceback of the author's frames, and that the groups before and after are built, by the same process if it survives.
func TestHostileBuilders(t *testing.T) {
	const here = `tests/builders/hostile\.py:\d+ in `
	for _, c := range []struct {
		how, want string // in the error
		stack     string // in the traceback
		dies      bool   // the process does
	}{
		{
			how:  "raises",
			want: `ValueError: two lines \(.*` + here + `raises\)$`, stack: `raise ValueError\("two\\nlines"\)`,
		},
		{
			how:  "raises_in_a_library",
			want: `JSONDecodeError: .*` + here + `raises_in_a_library`, stack: `(?s)json\.loads.*decoder\.py`,
		},
		{how: "unprintable", want: `Unprintable: <exception str\(\) failed> \(.*` + here, stack: "raise Unprintable"},
		{
			how:  "yields_a_number",
			want: `it yielded 7 \(int\), which is neither .*` + here + `yields_a_number`, stack: "yield 7",
		},
		{how: "yields_a_class", want: `it yielded <class .*` + here, stack: "yield Demonstration"},
		{how: "returns_none", want: `hostile\.py:\d+: hostile returned None \(NoneType\), not records: yield them`},
		{how: "returns_a_text", want: `hostile returned 'abc' \(str\), not records`},
		{
			how:  "foreign_candidate",
			want: `a Candidate that is not one of the group's own.*` + here, stack: "yield Demonstration",
		},
		{
			how:  "content_is_a_number",
			want: `1 \(int\) stands where a Message belongs.*` + here, stack: "yield Demonstration",
		},
		{
			how:  "text_is_bytes",
			want: `b'q' \(bytes\) stands where a text belongs.*` + here, stack: "yield Demonstration",
		},
		{
			how:  "undeclared_kind",
			want: `a record of the kind preference, and was declared to yield demonstration.*` + here,
		},
		{how: "goes_on_after_a_mistake", want: `it yielded 7 \(int\)`},
		{how: "yields_after_close", want: `it yielded 7 \(int\)`},
		{how: "exits", want: `SystemExit: it had enough \(.*` + here + `exits\)`, stack: "sys.exit"},
		{how: "recurses", want: `RecursionError: .*` + here + `recurses`, stack: "yield from recurses"},
		{
			how:  "one_record_too_large",
			want: `ValueError: a record of \d+ MiB besides its texts.*` + here, stack: "yield",
		},
		{how: "reports_nonsense", want: `TypeError: .*` + here + `reports_nonsense`, stack: "yield Progress"},
		{how: "no_reason", want: `a drop's reason is a text, not None.*` + here, stack: "yield Drop"},
		{how: "without_end", want: `more than 4 MiB of results for one group`},
		{how: "exits_at_once", want: `its process ended \(exit status 3\)`, dies: true},
		{how: "never_returns", want: `(?s)has yielded nothing for group 'never_returns' in \d+ s; it is here:.*` +
			`hostile\.py", line \d+, in never_returns`, dies: true},
		{how: "sleeps", want: `(?s)has yielded nothing for group 'sleeps' .*` +
			`hostile\.py", line \d+, in sleeps\n\s+time\.sleep`, dies: true},
		{
			how:  "matches_for_ever",
			want: `(?s)Stack \(most recent call first\):.*hostile\.py", line \d+ in matches_for_ever`, dies: true,
		},
	} {
		t.Run(c.how, func(t *testing.T) {
			t.Parallel()
			spec := served(t, "hostile")
			spec.OutputLimit, spec.BatchTimeout, spec.Backoff = 4<<20, time.Minute, time.Millisecond
			if strings.Contains("never_returns sleeps matches_for_ever", c.how) {
				spec.BatchTimeout = 4 * time.Second
			}
			results, pids := build(t, spec, "before", c.how, "after")
			if (pids[0] != pids[1]) != c.dies && c.how != "without_end" {
				t.Errorf("its process was %d and is %d", pids[0], pids[1])
			}
			for _, i := range []int{0, 2} {
				if results[i].Err != nil || len(results[i].Records) != 1 {
					t.Errorf("group %d: %d records, %v", i, len(results[i].Records), results[i].Err)
				}
			}
			err := results[1].Err
			if err == nil || len(results[1].Records) > 0 || !regexp.MustCompile(c.want).MatchString(err.Error()) {
				t.Fatalf("%v\nis not %s", err, c.want)
			}
			var failed *host.BuilderError
			if !errors.As(err, &failed) {
				return
			}
			if !strings.HasPrefix(failed.Stack, "Traceback (most recent call last):\n") && c.stack != "" ||
				!regexp.MustCompile(c.stack).MatchString(failed.Stack) ||
				strings.Contains(failed.Stack, "natgo/builder") {
				t.Errorf("the traceback is\n%s", failed.Stack)
			}
		})
	}
}

// TestBuildersThatPrintOrFork checks that a builder that prints, or that forks and lets the child continue, gets a
// message about it in the log and still makes what it would have made.
func TestBuildersThatPrintOrFork(t *testing.T) {
	for how, want := range map[string][]string{
		"prints": {
			`hostile.py:12 prints to standard output`, "hello from the import",
			"to standard output", "to its descriptor",
		},
		"forks":                  {"a builder forked, and its child", "it was ended", `in forks\n`, `os.fork()`},
		"forks_before_the_first": {"a builder forked, and its child", `in forks_before_the_first\n`},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			log := &lockedLog{}
			p, err := host.Start(t.Context(), served(t, "hostile"), zerolog.New(log))
			if err != nil {
				t.Fatal(err)
			}
			results, err := kit.Build(t.Context(), p, "hostile", []byte("{}"), groupsOf(how, "after"))
			// A child may be slower than the groups.
			for until := time.Now().Add(30 * time.Second); !log.has(want) && time.Now().Before(until); {
				time.Sleep(10 * time.Millisecond)
			}
			p.Close()
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results {
				if r.Err != nil || len(r.Records) != 1 {
					t.Errorf("%d records, %v", len(r.Records), r.Err)
				}
			}
			if !log.has(want) {
				t.Errorf("%q are not all in the log\n%s", want, log.text())
			}
			if strings.Contains(log.text(), `"stream":"stdout"`) {
				t.Errorf("the log has lines from standard output\n%s", log.text())
			}
		})
	}
}

func groupsOf(keys ...string) (groups []*ttc.Group) {
	for _, key := range keys {
		groups = append(groups, &ttc.Group{Key: key, Examples: []*ttc.Example{{ID: key}}})
	}
	return groups
}

// build sends a group for each key through the hostile builder, and returns the process it began with and the one it
// ended with.
func build(t *testing.T, spec host.Spec, keys ...string) (results []host.Result, pids [2]int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	p, err := host.Start(ctx, spec, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	pids[0] = p.PIDs()[0]
	results, err = kit.Build(ctx, p, "hostile", []byte("{}"), groupsOf(keys...))
	if err != nil || len(results) != len(keys) {
		t.Fatalf("%d results: %v", len(results), err)
	}
	pids[1] = p.PIDs()[0]
	return results, pids
}

// TestBuilderSettings checks that settings are validated when the builder is opened, by the rules of their class, with
// a pointer to each mistake.
func TestBuilderSettings(t *testing.T) {
	p, err := host.Start(t.Context(), served(t, "sample"), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for config, want := range map[string]string{
		`{}`:                                  "",
		`{"min_score": 0.9, "order": "hard"}`: "",
		`{"min_score": 7}`:                    "/min_score: min_score must be at most 1, got 7",
		`{"min_scor": 1}`:                     "/min_scor: unknown setting min_scor; the settings are min_score, order",
		`{"order": "any"}`:                    "/order: 'any' is not one of easy, hard",
		`{"order": "hard", "min_score": 1}`:   ": order hard and min_score 1 leave nothing",
	} {
		t.Run(config, func(t *testing.T) {
			found, err := p.Validate(t.Context(), "best_of_n", []byte(config))
			if err != nil {
				t.Fatal(err)
			}
			said := ""
			for _, f := range found {
				said += f.Pointer + ": " + f.Message
			}
			if said != want {
				t.Errorf("%s: got %q, want %q", config, said, want)
			}
		})
	}
}

// TestBuilderSeesTheGroup checks that every field of a group reaches the builder, and that what it makes of it comes
// back unchanged.
func TestBuilderSeesTheGroup(t *testing.T) {
	p, err := host.Start(t.Context(), served(t, "sample"), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	text := "a\xed\xa0\x80b\x00 🜁"
	g := &ttc.Group{Key: "k", Examples: []*ttc.Example{
		{ID: "x"},
		{ID: "y", Graph: ttc.Chain(whole(text), ttc.Yes)},
	}}
	rs, err := kit.Build(t.Context(), p, "echo", []byte("{}"), []*ttc.Group{g})
	if err != nil || rs[0].Err != nil {
		t.Fatal(err, rs)
	}
	inline, span := rs[0].Records[0].(*builders.Demonstration), rs[0].Records[1].(*builders.Rollout)
	if got, want := fmt.Sprintf("%+v", inline.Messages.Messages), fmt.Sprintf("%+v", whole(text)); got != want {
		t.Errorf("%s\nis not\n%s", got, want)
	}
	walk := builders.Ref{Part: builders.NodeSpan, Example: 1, Last: 1, Skip: 1}
	if inline.Example != 1 || span.Example != 1 || span.Messages.Ref != walk {
		t.Errorf("%+v %+v", inline.Head, span)
	}
	state := rs[0].Records[2].(*builders.State)
	walk.Last, walk.Skip = 0, 0
	if state.Example != 1 || state.Messages.Ref != walk || state.Task != "of its own" {
		t.Errorf("%+v", state)
	}
	if string(inline.Metadata) != `{"b": 1, "a": "ü"}` || span.Reward == nil || *span.Reward != 0.5 {
		t.Errorf("%s %v", inline.Metadata, span.Reward)
	}
	d := rs[0].Drops[0]
	if d.Reason != "sample/odd" || d.Example != "x" || d.Unit != "example" || d.Detail != text || d.N() != 2 {
		t.Errorf("%+v", d)
	}
	if c := rs[0].Counts; len(c) != 1 || c[0].Name != "seen" || c[0].N != 5 {
		t.Errorf("%+v", c)
	}
}

// whole returns messages with everything that messages can contain.
func whole(text string) []chat.Message {
	extra := []chat.Member{{Key: "weight", Value: json.Raw("0.5")}}
	return []chat.Message{
		{Role: "user", Form: chat.Parts, Name: "ann", Parts: []chat.Part{
			{Type: "text", Text: text, Raw: json.Raw(`{"type":"text"}`)},
			{Type: "image_url", Raw: json.Raw(`{"type":"image_url"}`)},
		}},
		{
			Role: "assistant", Form: chat.Null, Reasoning: text, ReasoningKey: "thinking", Extra: extra,
			ToolCalls: []chat.ToolCall{{
				ID: "c", Type: "function", Name: "f", Arguments: `{"a": 1}`,
				Parsed: json.Raw(`{"a": 1}`), AsObject: true, Extra: extra,
			}},
		},
	}
}

// lockedLog is a log that is written to by more than one goroutine.
type lockedLog struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

// has reports whether all of these texts are in the log.
func (l *lockedLog) has(texts []string) bool {
	log := l.text()
	return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(log, text) })
}

func (l *lockedLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}
