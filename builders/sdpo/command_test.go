package sdpo

import (
	"bufio"
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// TestMain lets the tests use this binary as a hint command: the first argument selects its behaviour.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "hint-command" {
		answer(os.Args[2], os.Args[3])
		return
	}
	goleak.VerifyTestMain(m)
}

// answer runs as a hint command. It records each question in a file.
func answer(how, notes string) {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		f, _ := os.OpenFile(notes, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		fmt.Fprintln(f, in.Text())
		f.Close()
		var q struct{ ID, Tool, Error, Task, Target string }
		if stdjson.Unmarshal(in.Bytes(), &q) != nil {
			os.Exit(3)
		}
		id, _ := stdjson.Marshal(q.ID)
		switch how {
		case "good":
			fmt.Printf(`{"id":%s,"hint":"%s for %s","kind":"knowable"}`+"\n", id, q.Target, q.Tool)
		case "noise": // on standard error, more than anyone would read
			fmt.Fprint(os.Stderr, strings.Repeat("x", 8<<20))
			fmt.Printf(`{"id":%s,"hint":"quiet","kind":"knowable"}`+"\n", id)
		case "empty":
			fmt.Printf(`{"id":%s,"hint":""}`+"\n", id)
		case "none":
			fmt.Printf(`{"id":%s,"hint":null}`+"\n", id)
		case "hang":
			time.Sleep(time.Hour)
		case "lie":
			fmt.Println(`{"id":"another","hint":"x"}`)
		case "kind":
			fmt.Printf(`{"id":%s,"hint":"x","kind":"certain"}`+"\n", id)
		case "nonsense":
			fmt.Println("Sure! Here is a hint:")
		case "flood":
			for {
				fmt.Print(strings.Repeat("x", 1<<16))
			}
		case "chatter":
			fmt.Printf(`{"id":%s,"hint":"%s"}`+"\n", id, q.Tool)
			fmt.Println("and by the way")
		case "die":
			fmt.Fprintln(os.Stderr, "no model")
			os.Exit(1)
		}
	}
}

func commandConfig(t *testing.T, how string) (cfg Config, asked func() int) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	notes := filepath.Join(dir, "notes")
	cfg = matching()
	cfg.Hints.Allow = []string{"knowable", "hindsight"}
	cfg.Hints.Sources = []string{sourceCommand}
	cfg.Hints.Command = &Command{
		Run:     []string{self, "hint-command", how, notes},
		Timeout: 10 * time.Second,
		Answers: filepath.Join(dir, "answers.jsonl"),
		Kind:    "hindsight",
	}
	return cfg, func() int {
		b, err := os.ReadFile(notes)
		if err != nil {
			return 0
		}
		return strings.Count(string(b), "\n")
	}
}

func failing2(t *testing.T) string {
	return talk(user("hi"), calls([3]string{"1", "a", `{"x":1}`}), result("1", "Error: x"), calls([3]string{"2", "b", `{"x":2}`}), result("2", "Error: y"))
}

// TestCommandWithoutAHint checks that a null hint leaves a site out, even if it comes from the file of answers, and
// that an empty one leaves the site to the next source.
func TestCommandWithoutAHint(t *testing.T) {
	for how, want := range map[string][]string{
		"none":  nil,
		"empty": {"1.0>2 failed tool_error rules: Mind the a tool.", "3.0>4 failed tool_error rules: Mind the b tool."},
	} {
		t.Run(how, func(t *testing.T) {
			cfg, _ := commandConfig(t, how)
			cfg.Hints.Sources = []string{sourceCommand, sourceRules}
			for range 2 {
				got := build(t, cfg, example(t, failing2(t)))
				if d := cmp.Diff(want, got.sites()); d != "" {
					t.Error(how, d)
				}
				if declined := len(got.drops) > 0 && got.drops[0].Reason == hintDeclined; declined != (want == nil) {
					t.Error(how, got.why())
				}
				cfg.Hints.Command.Run = []string{"/nowhere"}
			}
		})
	}
}

// TestCommandIsToldTheError checks that the program gets what the source says about an error as JSON, and "" and {} if
// it says nothing.
func TestCommandIsToldTheError(t *testing.T) {
	cfg, asked := commandConfig(t, "good")
	call := calls([3]string{"1", "frob", "{}"})
	for _, c := range []struct{ marks, kind, meta string }{
		{`1 unknown_tool {"available":["calc","search"]}`, `"unknown_tool"`, `{"available":["calc","search"]}`},
		{`1 unknown_tool`, `"unknown_tool"`, `{}`},
		{`1  {"a":1}`, `""`, `{"a":1}`},
		{`1 `, `""`, `{}`},
	} {
		before := asked()
		build(t, cfg, tell(t, example(t, talk(user("fix"), call, result("1", "no such tool: "+c.marks))), c.marks))
		notes, err := os.ReadFile(cfg.Hints.Command.Run[3])
		if err != nil || asked() != before+1 {
			t.Fatal(asked()-before, err)
		}
		var q map[string]stdjson.RawMessage
		if err := stdjson.Unmarshal([]byte(strings.Split(string(notes), "\n")[before]), &q); err != nil {
			t.Fatal(err)
		}
		if string(q["error_kind"]) != c.kind || string(q["error_meta"]) != c.meta {
			t.Errorf("%s: got %s and %s", c.marks, q["error_kind"], q["error_meta"])
		}
	}
	// An error that was detected, about which the source says nothing.
	before := asked()
	build(t, cfg, example(t, talk(user("hi"), calls([3]string{"1", "a", `{"x":1}`}), result("1", "Error: x"))))
	notes, err := os.ReadFile(cfg.Hints.Command.Run[3])
	if err != nil || !strings.Contains(strings.Split(string(notes), "\n")[before], `"error_kind":"",`) ||
		!strings.Contains(string(notes), `"error_meta":{}`) {
		t.Errorf("%s, %v", notes, err)
	}
}

// TestCommand checks that answers are stored: asking again, from any process, returns them without running the program.
func TestCommand(t *testing.T) {
	cfg, asked := commandConfig(t, "good")
	cfg.Target = "both"
	ex := example(t, failing2(t))
	want := []string{
		"1.0>2 failed tool_error command: failed_turn for a", "3.0>4 failed tool_error command: failed_turn for b",
	}
	got := build(t, cfg, ex)
	if d := cmp.Diff(want, got.sites()); d != "" {
		t.Error(d)
	}
	if n := asked(); n != 2 {
		t.Errorf("%d questions", n)
	}
	cfg.Hints.Command.Run = []string{"/nowhere"}
	if d := cmp.Diff(want, build(t, cfg, ex).sites()); d != "" || asked() != 2 {
		t.Error("not replayed", d)
	}
	// A question whose line was cut off by a crash is asked again.
	f, err := os.OpenFile(cfg.Hints.Command.Answers, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString(`{"input":"abc","hi`)
	f.Close()
	if d := cmp.Diff(want, build(t, cfg, ex).sites()); d != "" {
		t.Error(d)
	}
	if err := os.WriteFile(cfg.Hints.Command.Answers, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := build(t, cfg, ex); len(got.drops) == 0 || !strings.Contains(got.drops[0].Detail, "damaged at byte 0") {
		t.Error(got.drops)
	}
}

// TestCommandStoredKind checks that an answer of an unknown kind in the file of answers counts as hindsight.
func TestCommandStoredKind(t *testing.T) {
	cfg, _ := commandConfig(t, "good")
	ex := example(t, failing2(t))
	build(t, cfg, ex)
	text, err := os.ReadFile(cfg.Hints.Command.Answers)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.ReplaceAll(text, []byte(`"knowable"`), []byte(`"Hindsight"`))
	if err := os.WriteFile(cfg.Hints.Command.Answers, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Hints.Allow = []string{"knowable"}
	if got := build(t, cfg, ex).sites(); len(got) > 0 {
		t.Error(got)
	}
}

// full is an output that takes nothing.
type full struct{ builders.Output }

func (full) Drop(ledger.Drop) error    { return io.ErrShortWrite }
func (full) Count(string, int64) error { return io.ErrShortWrite }

// TestCommandIsNotAskedInVain checks that a build whose output has failed asks for no hints.
func TestCommandIsNotAskedInVain(t *testing.T) {
	cfg, asked := commandConfig(t, "good")
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	g := &ttc.Group{Examples: []*ttc.Example{example(t, failing2(t))}}
	if err := b.Build(t.Context(), g, full{}); !errors.Is(err, io.ErrShortWrite) || asked() != 0 {
		t.Errorf("%v, %d questions", err, asked())
	}
}

// TestCommandMisbehaves checks that, whatever the program does, the site is dropped with a reason and the run
// continues. Failures are not stored: a later builder asks again, and a source listed after this one can answer.
func TestCommandMisbehaves(t *testing.T) {
	for how, want := range map[string]string{
		"hang":     "did not answer within",
		"lie":      `answered a different question: id "another"`,
		"kind":     `unknown kind "certain"`,
		"nonsense": `did not answer with {"id", "hint", "kind"}: "Sure! Here is a hint:`,
		"flood":    "a line of more than 1048576 bytes",
		"die":      "no model",
		"none":     "",
		"missing":  "start the hint command",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			cfg, asked := commandConfig(t, how)
			if how == "hang" {
				cfg.Hints.Command.Timeout = 150 * time.Millisecond
			}
			if how == "missing" {
				cfg.Hints.Command.Run = []string{"/nowhere/at/all"}
			}
			ex := example(t, failing2(t))
			got := build(t, cfg, ex)
			if len(got.drops) != 3 || !strings.Contains(got.drops[0].Detail, want) || got.sites() != nil {
				t.Errorf("%v: %+v", got.sites(), got.drops)
			}
			before := asked()
			again := build(t, cfg, ex)
			if d := cmp.Diff(got.drops, again.drops); d != "" ||
				how != "missing" && (asked() != before) != (how != "none") {
				t.Errorf("asked %d times, then %d: %s", before, asked(), d)
			}
			if how == "none" {
				return
			}
			cfg.Hints.Sources = []string{sourceCommand, sourceRules}
			if fallen := build(t, cfg, ex); len(fallen.sites()) != 2 ||
				!strings.Contains(fallen.sites()[0], "rules: Mind the a tool.") {
				t.Errorf("%v: %+v", fallen.sites(), fallen.drops)
			}
		})
	}
}

// TestCommandChatters checks that a program that prints more than an answer is stopped; its first answer counts.
func TestCommandChatters(t *testing.T) {
	cfg, _ := commandConfig(t, "chatter")
	got := build(t, cfg, example(t, failing2(t)))
	if len(got.sites()) < 1 || len(got.sites())+len(got.drops) != 2 {
		t.Error(got.sites(), got.why())
	}
}

// TestCommandIsNoisy checks that a program isn't stopped for what it writes to standard error, however much it is.
func TestCommandIsNoisy(t *testing.T) {
	cfg, _ := commandConfig(t, "noise")
	if got := build(t, cfg, example(t, failing2(t))); len(got.sites()) != 2 {
		t.Error(got.sites(), got.why())
	}
}

// TestCommandIsDeaf sends a question larger than a pipe can hold to a program that never reads, which is abandoned when
// its time is up.
func TestCommandIsDeaf(t *testing.T) {
	cfg, _ := commandConfig(t, "good")
	cfg.Hints.Command.Run = []string{"sleep", "60"}
	cfg.Hints.Command.Timeout = 150 * time.Millisecond
	ex := example(t, talk(user(strings.Repeat("why? ", 1<<17)), calls([3]string{"1", "a", `{"x":1}`}), result("1", "Error: x")))
	got := build(t, cfg, ex)
	if len(got.drops) == 0 || !strings.Contains(got.drops[0].Detail, "did not answer within") {
		t.Errorf("%+v", got.drops)
	}
}

// TestCommandChildrenEnd checks that whatever the program started ends with it, even in a session of its own.
func TestCommandChildrenEnd(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("SKIPPED: no /proc")
	}
	cfg, _ := commandConfig(t, "good")
	file := filepath.Join(t.TempDir(), "pid")
	cfg.Hints.Command.Run = append([]string{"/bin/sh", "-c", `setsid sleep 600 & echo $! > ` + file + `; "$0" "$@"`}, cfg.Hints.Command.Run...)
	if got := build(t, cfg, example(t, failing2(t))); len(got.sites()) != 2 {
		t.Error(got.sites(), got.why())
	}
	pid, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat"); err == nil &&
		!strings.Contains(string(stat), ") Z ") {
		t.Errorf("a child of the program is still running: %s", stat)
	}
}

// TestCommandIsGivenUp checks that a program that keeps failing is abandoned.
func TestCommandIsGivenUp(t *testing.T) {
	cfg, asked := commandConfig(t, "die")
	ms := []string{user("hi")}
	for i := range 20 {
		ms = append(ms, calls([3]string{"1", "a", fmt.Sprintf(`{"x":%d}`, i)}), result("1", "Error: x"))
	}
	got := build(t, cfg, example(t, talk(ms...)))
	if n := asked(); n != maxRestarts+1 {
		t.Errorf("%d starts", n)
	}
	if last := got.drops[len(got.drops)-2].Detail; !strings.Contains(last, "will not be restarted") {
		t.Error(last)
	}
}

// TestCommandShared checks that builders that share the answers ask each question once.
func TestCommandShared(t *testing.T) {
	cfg, asked := commandConfig(t, "good")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { build(t, cfg, example(t, failing2(t))) })
	}
	wg.Wait()
	if n := asked(); n != 2 {
		t.Errorf("%d questions", n)
	}
}
