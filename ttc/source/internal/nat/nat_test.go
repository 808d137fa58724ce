package nat

import (
	"compress/gzip"
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
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// result is everything a source returned.
type result struct {
	examples []*ttc.Example
	cursors  []source.Cursor
	told     []int // drops reported up to each example
	drops    []ledger.Drop
	stats    source.Stats
	inputs   []source.Input
}

func read(t testing.TB, change func(*Config), opt source.Options, paths ...string) (r result, err error) {
	t.Helper()
	cfg := schema.New[Config]()
	cfg.Path = paths
	if change != nil {
		change(&cfg)
	}
	opt.Drop = func(d ledger.Drop) { r.drops = append(r.drops, d) }
	s, err := Open(context.Background(), cfg, opt)
	if err != nil {
		return r, err
	}
	defer s.Close()
	for {
		ex, at, err := s.Next(context.Background())
		if err == io.EOF {
			r.stats, r.inputs = *s.Stats(), s.Inputs()
			return r, nil
		}
		if err != nil {
			return r, err
		}
		r.examples, r.cursors, r.told = append(r.examples, ex), append(r.cursors, at), append(r.told, len(r.drops))
	}
}

func mustRead(t testing.TB, text string) result {
	t.Helper()
	r, err := read(t, nil, source.Options{}, write(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func step(event, name, data string) string {
	return fmt.Sprintf(`{"parent_id":"r","function_ancestry":{"function_id":"f","function_name":"n"},"payload":{"event_type":%q,"name":%q,"metadata":{"k":1},"data":%s}}`, event, name, data)
}

func ttcEnd(data string) string { return step("TTC_END", "s", data) }

func row(id string, steps ...string) string {
	return `{"id":` + id + `,"question":"q","generated_answer":"g","intermediate_steps":[` + strings.Join(steps, ",\n") + `]}`
}

func TestCandidate(t *testing.T) {
	data := `{"input":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"x"}]}],"output":"a\ud83db","turn_id":"t\u0031","turn_index":2,"candidate_index":3,"score":0.5,"chunk":null}`
	r := mustRead(t, "[\n "+row(`7`, ttcEnd(data), ttcEnd(strings.Replace(data, "0.5", `"0.7"`, 1)))+"]")
	ex := r.examples[0]
	if ex.ID != "7" || ex.Task != "7" || string(ex.RawID) != "7" || ex.Row != 0 || ex.Run != 0 || ex.Offset != 3 ||
		ex.Fidelity != ttc.TextOnly {
		t.Errorf("%+v", ex)
	}
	if len(ex.Graph.Nodes) != 2 || ex.Graph.Nodes[0].Message.Text != "q" || ex.Graph.Nodes[1].Message.Text != "g" ||
		ex.Graph.Nodes[1].Sampled != ttc.Assumed {
		t.Errorf("%+v", ex.Graph)
	}
	if len(ex.Candidates) != 2 {
		t.Fatal(r.drops)
	}
	c, d := ex.Candidates[0], ex.Candidates[1]
	if c.Step != "s" || c.Turn != "t1" || *c.TurnIndex != 2 || c.Index != 3 || c.Output != "a\xed\xa0\xbdb" || c.Score != 0.5 || d.Score != 0.7 || string(c.Metadata) != `{"k":1}` {
		t.Errorf("%+v", c)
	}
	m := c.Prompt.Messages
	if c.Prompt.Form != ttc.MessagesPrompt || len(m) != 3 || m[1].Form != chat.Null || m[1].ToolCalls[0].Name != "f" ||
		m[2].Form != chat.Parts || m[2].ToolCallID != "c" {
		t.Errorf("%+v", c.Prompt)
	}
	if &m[0] != &d.Prompt.Messages[0] {
		t.Error("equal prompts don't share memory")
	}
	if r.stats.Steps != 2 || r.stats.Candidates != 2 || r.stats.Names["s"] != 2 || r.stats.Events["TTC_END"] != 2 {
		t.Errorf("%+v", r.stats)
	}
}

func TestDropsHaveAPlaceAndAReason(t *testing.T) {
	good := `{"input":"P","output":"o","turn_id":"t","score":1}`
	with := func(old, new string) string { return ttcEnd(strings.Replace(good, old, new, 1)) }
	cases := []struct {
		step   string
		reason ledger.Reason
		detail string
	}{
		{ttcEnd("null"), source.NoData, "payload.data is null"},
		{with(`"t"`, "null"), source.NoTurnID, ""},
		{with(`"t"`, "1"), source.BadTurnID, "a number, not a string"},
		{with(`:1}`, ":null}"), source.NoScore, ""},
		{with(`:1}`, `:"high"}`), source.BadScore, `"high"`},
		{with(`"turn_id"`, `"candidate_index":1.5,"turn_id"`), source.BadIndex, "1.5"},
		{with(`"turn_id"`, `"candidate_index":99999999999999999999,"turn_id"`), source.BadIndex, ""},
		{with(`"turn_id"`, `"turn_index":"x","turn_id"`), source.BadStep, "turn_index"},
		{with(`"o"`, `{"a":1}`), source.BadOutput, "an object, not text"},
		{`{"parent_id":"r"}`, source.BadStep, "function_ancestry"},
		{`7`, source.BadStep, "a number"},
		{strings.Replace(ttcEnd(good), `"TTC_END"`, `"NOPE"`, 1), source.BadStep, "payload.event_type"},
		{strings.Replace(ttcEnd(good), `"TTC_END"`, `"LLM_END"`, 1), source.OtherStep, "1 steps are not TTC_END"},
	}
	for _, c := range cases {
		t.Run(c.step, func(t *testing.T) {
			text := "[" + row(`"e"`, ttcEnd(good), c.step) + "]"
			r := mustRead(t, text)
			if len(r.drops) != 1 {
				t.Errorf("%s: %v", c.step, r.drops)
				return
			}
			d := r.drops[0]
			if d.Stage != ledger.Source || d.Unit != "step" || d.Reason != c.reason ||
				!strings.Contains(d.Detail, c.detail) || d.Example != "e" || d.File == "" {
				t.Errorf("%s: %+v", c.step, d)
			}
			if d.Reason != source.OtherStep && !strings.HasPrefix(text[d.Offset:], c.step) {
				t.Errorf("%s: the offset %d is not the step's", c.step, d.Offset)
			}
			if r.stats.Steps != r.stats.Candidates+1 {
				t.Errorf("%s: the books don't balance: %+v", c.step, r.stats)
			}
		})
	}
}

func TestInvalidEntries(t *testing.T) {
	r := mustRead(t, `["bare answer", {"id":1}, {"id":2,"intermediate_steps":{}}, {"id":3,"intermediate_steps":null}]`)
	var got []string
	for _, d := range r.drops {
		got = append(got, fmt.Sprintf("%s %s: %s", d.Example, d.Reason, d.Detail))
	}
	want := []string{
		"#0 bad_example: the entry is a string, not an object: with structure.disable NAT writes bare answers, without steps",
		`#1 bad_example: the entry has no "intermediate_steps"; the key can be set (trajectory_key)`,
		`#2 bad_example: "intermediate_steps" is an object, not an array of steps`,
	}
	if !slices.Equal(got, want) || len(r.examples) != 1 || r.stats.Entries != 4 {
		t.Errorf("%q", got)
	}
	for _, a := range r.stats.Accounts() {
		if a.In != a.Out+a.DroppedTotal() {
			t.Errorf("%+v", a)
		}
	}
}

func ids(r result) (out []string) {
	for _, ex := range r.examples {
		out = append(out, ex.ID)
	}
	return out
}

func TestIDs(t *testing.T) {
	r := mustRead(t, `[`+strings.Join([]string{
		row(`"x"`, ttcEnd("null")), row(`"x"`), row(`"x"`), row(`2.0`), row(`2`), row(`null`), row(`""`), row(`NaN`), `{"intermediate_steps":[]}`,
		row(`true`), row(`[1]`), row(`"y_rep2"`), row(`"x#2"`),
	}, ",")+`]`)
	want := []string{"x", "x#2", "2.0", "2", "#5", "#6", "#7", "#8", "true", "#10", "y_rep2", "x#2#2"}
	if got := ids(r); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if r.stats.MissingIDs != 5 || r.stats.RepeatedIDs != 2 || r.stats.FirstRepeat != "x" {
		t.Errorf("%+v", r.stats)
	}
	if d := r.drops[len(r.drops)-1]; d.Reason != source.IdenticalRow || d.Example != "x" || d.Unit != "example" {
		t.Errorf("%+v", d)
	}
	rep := r.examples[10]
	if rep.Task != "y" || rep.Trial != "rep2" || r.examples[1].Task != "" {
		t.Errorf("%+v", rep)
	}
	if w := r.stats.Warnings(); len(w) != 2 || !strings.Contains(w[0], `2 examples with an id that the same file used before (first: "x")`) {
		t.Error(w)
	}
}

func TestInterrupted(t *testing.T) {
	r := mustRead(t, `[{"id":1,"generated_answer":"","intermediate_steps":[]},{"id":2,"generated_answer":null,"intermediate_steps":[]},{"id":3,"generated_answer":"g","intermediate_steps":[]}]`)
	if r.stats.Interrupted != 2 || !r.examples[0].Interrupted || !r.examples[1].Interrupted ||
		r.examples[2].Interrupted {
		t.Errorf("%+v", r.stats)
	}
}

func TestKeysCanBeNamed(t *testing.T) {
	text := strings.NewReplacer(`"id"`, `"uid"`, `"intermediate_steps"`, `"steps"`, `"question"`, `"q"`, `"generated_answer"`, `"out"`).Replace(
		row(`"e"`, ttcEnd(`{"input":"P","output":"o","turn_id":"t","score":1}`)))
	r, err := read(t,
		func(c *Config) { c.IDKey, c.TrajectoryKey, c.QuestionKey, c.AnswerKey = "uid", "steps", "q", "out" },
		source.Options{}, write(t, "["+text+"]"))
	if err != nil || len(r.examples) != 1 || r.examples[0].ID != "e" || len(r.examples[0].Candidates) != 1 ||
		len(r.examples[0].Graph.Nodes) != 2 {
		t.Errorf("%+v %v", r, err)
	}
}

func TestInputsThatCannotBeRead(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "empty file",
		"  \n":                 "expected '[', the start of an array, found the end",
		"{}":                   "expected an array of data-set entries, found an object",
		`{"id":1}` + "\n{}":    "--source candidates",
		"[" + row("1") + ",\n": "the file is cut off",
		`[{"id":1,"inter`:      "the input ends inside an object that begins at byte 1. The file is cut off after 0 complete entries",
		`[{"id":1}, {"a":01}]`: "(byte 17): expected ',' or '}', found '1'",
		"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n": "Git LFS pointer",
	} {
		t.Run(text, func(t *testing.T) {
			path := write(t, text)
			_, err := read(t, nil, source.Options{}, path)
			var se *source.Error
			if !errors.As(err, &se) || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want)) ||
				!strings.HasPrefix(err.Error(), path) {
				t.Errorf("%.30q: got %v, want %q", text, err, want)
			}
		})
	}
	if _, err := read(t, nil, source.Options{}); err == nil {
		t.Error("no input is an error")
	}
	r, err := read(t, func(c *Config) { c.MaxExample = 1024 }, source.Options{}, write(t, "["+row("1", `"`+strings.Repeat("x", 2000)+`"`)+","+row("2")+"]"))
	if err != nil || len(r.examples) != 1 || r.examples[0].ID != "2" || r.drops[0].Reason != source.ExampleTooLarge ||
		r.examples[0].Row != 1 {
		t.Errorf("%+v %v", r, err)
	}
}

// several returns an input with a bit of everything.
func several() string {
	var entries []string
	for i := range 30 {
		id := fmt.Sprintf(`"e%d"`, i%20)
		if i%7 == 3 {
			id = "null"
		}
		var steps []string
		for k := range i % 4 {
			steps = append(steps, ttcEnd(fmt.Sprintf(`{"input":"P%d","output":"o%d","turn_id":"t","score":%d}`, i, k, k)), step("LLM_END", "m", "null"), `{}`)
		}
		entries = append(entries, row(id, steps...))
	}
	entries = append(entries, entries[5], "7")
	return "[" + strings.Join(entries, ",") + "]"
}

func TestResumeReturnsTheRest(t *testing.T) {
	a, b := write(t, several()), write(t, "["+row("1")+"]")
	whole, err := read(t, nil, source.Options{}, a, b)
	if err != nil {
		t.Fatal(err)
	}
	for k, at := range append([]source.Cursor{{}}, whole.cursors...) {
		rest, err := read(t, nil, source.Options{Resume: &at, Inputs: whole.inputs}, a, b)
		if err != nil {
			t.Fatalf("after %d: %v", k, err)
		}
		if diff := cmp.Diff(whole.examples[k:], rest.examples, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("after %d the examples differ (-want +got):\n%s", k, diff)
		}
		if diff := cmp.Diff(whole.stats, rest.stats) + cmp.Diff(whole.inputs, rest.inputs); diff != "" {
			t.Fatalf("after %d (-want +got):\n%s", k, diff)
		}
		told := 0
		if k > 0 {
			told = whole.told[k-1]
		}
		if diff := cmp.Diff(whole.drops[told:], rest.drops, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("after %d: drops (-want +got):\n%s", k, diff)
		}
	}
}

func TestResumeRefusesAChangedInput(t *testing.T) {
	path := write(t, several())
	whole, err := read(t, nil, source.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	at := whole.cursors[10]
	for name, text := range map[string]string{
		"changed before": strings.Replace(several(), `"o1"`, `"oX"`, 1),
		"changed after":  several() + " ",
		"shorter":        "[" + row("1") + "]",
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := read(t, nil, source.Options{Resume: &at, Inputs: whole.inputs}, path); err == nil ||
				!strings.Contains(err.Error(), "the input changed since the run began") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

func TestGzipGivesTheSame(t *testing.T) {
	var b strings.Builder
	w := gzip.NewWriter(&b)
	io.WriteString(w, several())
	w.Close()
	plain, err := read(t, nil, source.Options{}, write(t, several()))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := read(t, nil, source.Options{}, write(t, b.String()))
	if err != nil {
		t.Fatal(err)
	}
	for i := range plain.examples {
		packed.examples[i].File = plain.examples[i].File
	}
	if diff := cmp.Diff(plain.examples, packed.examples) + cmp.Diff(plain.cursors, packed.cursors); diff != "" {
		t.Errorf("the gzip file reads differently (-plain +gzip):\n%s", diff)
	}
}

func TestExamplesKeepTheirMemory(t *testing.T) {
	r := mustRead(t, several())
	again := mustRead(t, several())
	for i := range r.examples {
		r.examples[i].File = again.examples[i].File
	}
	if diff := cmp.Diff(again.examples, r.examples); diff != "" {
		t.Errorf("an example changed while later ones were read (-want +got):\n%s", diff)
	}
	if got := r.examples[3].Candidates[2].Output; got != "o2" {
		t.Error(got)
	}
}

func TestCompatKeepsRawStepsAndIDs(t *testing.T) {
	r, err := read(t, nil, source.Options{Raw: true}, write(t, "["+row("2.0", ttcEnd("7"), `{}`)+","+row("2.0")+"]"))
	if err != nil || len(r.examples) != 2 || len(r.drops) != 0 {
		t.Fatalf("%+v %v", r, err)
	}
	ex := r.examples[0]
	if string(ex.RawID) != "2.0" || len(ex.Steps) != 2 || ex.Steps[0].Type != "TTC_END" || ex.Steps[0].Name != "s" ||
		string(ex.Steps[0].Raw) != ttcEnd("7") || ex.Candidates != nil {
		t.Errorf("%+v", ex)
	}
}

func TestCompatFailsWhereNATDoes(t *testing.T) {
	for text, want := range map[string]string{
		`[7]`:                                  "the entry is a number, not an object",
		`[{"id":[1],"intermediate_steps":[]}]`: "unhashable type: 'list'",
		`[{"id":{},"intermediate_steps":[]}]`:  "unhashable type: 'dict'",
		`[{"intermediate_steps":7}]`:           "not an array of steps",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := read(t, nil, source.Options{Raw: true}, write(t, text))
			if err == nil || !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), "NAT fails the whole collection run") {
				t.Errorf("%s: got %v, want %q", text, err, want)
			}
		})
	}
}

func TestNoMatch(t *testing.T) {
	cases := []struct{ text, want string }{
		{"[]", "The input has no entries"},
		{"[" + row("1", ttcEnd(`{"turn_id":"t","score":1}`)) + "]", `Names seen: "s" (1). Set ttc_step_name`},
		{"[" + row("1", step("LLM_END", "m", "null"), step("TOOL_END", "m", "null")) + "]", `"LLM_END" (1), "TOOL_END" (1). The file holds only what ` + "`nat eval`" + ` keeps by default`},
		{
			"[" + row("1", step("LLM_END", "m", "null")) + "]",
			"eval.general.output.workflow_output_step_filter: [TTC_END]",
		},
		{"[" + row("1") + "]", "The input has no steps at all"},
		{"[" + row("1", "{}") + "]", "No step in the input has the form"},
		{"[" + row("1", step("TTC_START", "m", "null")) + "]", "TTC_START steps without their TTC_END"},
		{"[" + row("1", step("FUNCTION_END", "m", "null")) + "]", `Event types seen: "FUNCTION_END" (1)`},
	}
	for _, c := range cases {
		t.Run(c.text, func(t *testing.T) {
			r := mustRead(t, c.text)
			if got := NoMatch(&r.stats, "wanted"); !strings.Contains(got, c.want) ||
				!strings.HasPrefix(got, "No matching TTC step") {
				t.Errorf("%s:\ngot  %s\nwant %s", c.text, got, c.want)
			}
		})
	}
	r := mustRead(t, cases[1].text)
	if got := NoMatch(&r.stats, "s"); got != "" {
		t.Error(got)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(several())
	f.Add(`[{"id":1,"intermediate_steps":[` + ttcEnd(`{"input":[1],"output":null,"turn_id":"","score":NaN}`) + `]}]`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, compat := range []bool{false, true} {
			r, err := read(t, nil, source.Options{Raw: compat}, write(t, text))
			if err != nil {
				continue
			}
			for _, a := range r.stats.Accounts() {
				if a.In != a.Out+a.DroppedTotal() {
					t.Fatalf("%q: the books don't balance: %+v", text, a)
				}
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	var entries []string
	for i := range 200 {
		var steps []string
		for k := range 24 {
			steps = append(steps, ttcEnd(fmt.Sprintf(`{"input":%q,"output":%q,"chunk":null,"payload":null,"turn_id":"turn_%d","turn_index":1,"candidate_index":%d,"score":0.%d}`,
				strings.Repeat("the agent reads a question ", 22), strings.Repeat("one move at a time ", 16), k/8, k%8,
				k+1)))
		}
		entries = append(entries, row(fmt.Sprint(i), steps...))
	}
	text := "[" + strings.Join(entries, ",") + "]"
	path := write(b, text)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		cfg := schema.New[Config]()
		cfg.Path = []string{path}
		s, err := Open(context.Background(), cfg, source.Options{})
		if err != nil {
			b.Fatal(err)
		}
		for {
			if _, _, err := s.Next(context.Background()); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
		s.Close()
	}
}
