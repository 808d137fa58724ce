package candidates

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
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), fileName)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

type result struct {
	examples []*ttc.Example
	cursors  []source.Cursor
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
		r.examples, r.cursors = append(r.examples, ex), append(r.cursors, at)
	}
}

func mustRead(t testing.TB, lines ...string) result {
	t.Helper()
	r, err := read(t, nil, source.Options{}, write(t, strings.Join(lines, "\n")+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// shape prints examples as id[turn:output=score ...].
func shape(r result) string {
	var out []string
	for _, ex := range r.examples {
		var c []string
		for _, x := range ex.Candidates {
			c = append(c, fmt.Sprintf("%s%d:%s=%v", x.Turn, x.Index, x.Output, x.Score))
		}
		out = append(out, fmt.Sprintf("%s%v", ex.ID, c))
	}
	return strings.Join(out, " ")
}

func TestLinesOfOneIDAreAnExample(t *testing.T) {
	r := mustRead(t,
		`{"id":"a","turn_id":"t","candidate_index":4,"prompt":"P","output":"x","score":1,"metadata":{"k":[1]},"task_id":"T","model":"m"}`,
		`{"id":"a","turn_id":"t","prompt":"P","output":"y","score":"0.5","model":"m"}`,
		`{"id":"a","turn_id":7,"output":"z","score":0}`,
		``,
		`{"id":2,"output":"u","score":1}`,
		`{"id":2,"output":"v","score":2}`,
		`{"output":"lone","score":1}`,
		`{"output":"lone","score":1}`,
		`{"id":"a","output":"w","score":1}`,
	)
	want := "a[t4:x=1 t1:y=0.5 70:z=0] 2[0:u=1 1:v=2] #5[0:lone=1] #6[0:lone=1] a#2[0:w=1]"
	if got := shape(r); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	a := r.examples[0]
	if a.Task != "T" || a.Policy != "m" || string(a.Candidates[0].Metadata) != `{"k":[1]}` || a.Candidates[1].Prompt.Text != "P" || a.Candidates[0].Step != "dpo_candidate_move" {
		t.Errorf("%+v", a)
	}
	if r.stats.MissingIDs != 2 || r.stats.RepeatedIDs != 1 || r.stats.FirstRepeat != "a" || r.stats.Steps != 8 ||
		r.stats.Candidates != 8 || r.stats.Examples != 5 {
		t.Errorf("%+v", r.stats)
	}
}

func TestPolicyIsKnownWhereAllLinesAgree(t *testing.T) {
	r := mustRead(t, `{"id":1,"output":"a","score":1,"model":"m"}`, `{"id":1,"output":"b","score":1,"model":"n"}`, `{"id":1,"output":"b","score":1,"model":"m"}`, `{"id":2,"output":"b","score":1,"model":"n"}`)
	if r.examples[0].Policy != "" || r.examples[1].Policy != "n" {
		t.Errorf("%q %q", r.examples[0].Policy, r.examples[1].Policy)
	}
}

func TestDrops(t *testing.T) {
	for line, want := range map[string]ledger.Reason{
		`7`:                                              source.BadStep,
		`{"id":"a","output":"x"}`:                        source.NoScore,
		`{"id":"a","output":"x","score":null}`:           source.NoScore,
		`{"id":"a","output":"x","score":"y"}`:            source.BadScore,
		`{"id":"a","output":{},"score":1}`:               source.BadOutput,
		`{"id":"a","output":"x","score":1,"turn_id":[]}`: source.BadTurnID,

		`{"id":"a","output":"x","score":1,"candidate_index":"two"}`: source.BadIndex,
		`{"id":"a","output":"x","score":1,"metadata":7}`:            source.BadStep,
		`{"id":"a","output":"x","score":1,"prompt":"p","system":7}`: source.BadStep,
		`{"id":"a","output":"` + strings.Repeat("x", 3000) + `"}`:   source.ExampleTooLarge,
	} {
		t.Run(line, func(t *testing.T) {
			text := `{"id":"a","output":"good","score":1}` + "\n" + line + "\n" + `{"id":"a","output":"good2","score":1}`
			config := func(c *Config) { c.MaxLine, c.SystemKey = 1024, "system" }
			r, err := read(t, config, source.Options{}, write(t, text))
			if err != nil {
				t.Fatal(err)
			}
			if len(r.drops) != 1 || r.drops[0].Reason != want || !strings.HasPrefix(text[r.drops[0].Offset:], line) ||
				r.drops[0].Unit != "step" {
				t.Errorf("%.60s: got %+v, want %s", line, r.drops, want)
			}
			if len(r.examples) != 1 || len(r.examples[0].Candidates) != 2 || r.stats.Steps != 3 {
				t.Errorf("%.60s: %s %+v", line, shape(r), r.stats)
			}
		})
	}
}

func TestKeysCanBeNamed(t *testing.T) {
	r, err := read(t, func(c *Config) {
		c.IDKey, c.TurnKey, c.OutputKey, c.ScoreKey, c.PromptKey, c.StepName = "q", "turn", "response", "reward",
			"input", "judged"
	}, source.Options{}, write(t, `[{"q":1,"turn":"t","response":"x","reward":2,"input":[{"role":"user","content":"hi"}]}]`))
	if err != nil || shape(r) != "1[t0:x=2]" || r.examples[0].Candidates[0].Step != "judged" ||
		r.examples[0].Candidates[0].Prompt.Form != ttc.MessagesPrompt {
		t.Errorf("%s %v", shape(r), err)
	}
}

// TestAnswersThatAreObjects: each answer in a line has its own score, and falls back to the line's keys if it has none
// of its own.
func TestAnswersThatAreObjects(t *testing.T) {
	path := write(t, `{"model": "x", "score": 9, "prompt": "\n\nHuman: q\n\nAssistant:", "ctx": "c", "answers": [`+
		`{"text": "a", "score": 1, "model": "m"}, {"text": "b", "score": 0}, {"text": "c"}, 7]}`)
	r, err := read(t, func(c *Config) {
		c.OutputKey, c.AnswerKey, c.Transcripts = "answers", "text", "split"
	}, source.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range r.examples[0].Candidates {
		got = append(got,
			fmt.Sprintf("%s %s -> %s %v", c.Prompt.Messages[0].Role, c.Prompt.Messages[0].Text, c.Output, c.Score))
	}
	want := []string{"user q -> a 1", "user q -> b 0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var dropped []string
	for _, d := range r.drops {
		dropped = append(dropped, string(d.Reason))
	}
	if diff := cmp.Diff([]string{string(source.NoScore), string(source.NoScore)}, dropped); diff != "" {
		t.Error(diff)
	}
}

// TestAnswersUnderPaths: lists of answers and scores are found under paths, too.
func TestAnswersUnderPaths(t *testing.T) {
	r, err := read(t, func(c *Config) {
		c.OutputKey, c.ScoreKey, c.PromptKey = "data.answers", "data.scores", "data.question"
	}, source.Options{}, write(t, `{"id": "i", "data": {"question": "q", "answers": ["a", "b", "c"], "scores": [1, null]}}`))
	if err != nil || shape(r) != "i[0:a=1]" || r.examples[0].Candidates[0].Prompt.Text != "q" {
		t.Errorf("%s %v", shape(r), err)
	}
	if got := r.stats.Dropped["step"]; got[source.NoScore] != 2 {
		t.Errorf("%v", got)
	}
}

// TestAnswersDiffer: answers of a line that differ in one thing beside their text are given just that, not what the
// answer before had; null hides what the line has.
func TestAnswersDiffer(t *testing.T) {
	for name, c := range map[string]struct {
		first, second string // members of the answers
		want          string // of the second: prompt, metadata, error of its scorer
	}{
		"nothing":     {``, ``, `s q c {"k":1} `},
		"prompt":      {``, `, "prompt": "r"`, `s r c {"k":1} `},
		"context":     {``, `, "passage": "d"`, `s q d {"k":1} `},
		"no context":  {``, `, "passage": null`, `s q {"k":1} `},
		"instruction": {``, `, "instruction": "t"`, `t q c {"k":1} `},
		"metadata":    {``, `, "metadata": {"k":2}`, `s q c {"k":2} `},
		"failure":     {``, `, "metadata": {"error":"boom"}`, `s q c {"error":"boom"} boom`},
		"reasoning":   {``, `, "metadata": {"reasoning":{"error":"b"}}`, `s q c {"reasoning":{"error":"b"}} b`},
		"after both":  {`, "passage": "d", "metadata": {"error":"boom"}`, ``, `s q c {"k":1} `},
	} {
		t.Run(name, func(t *testing.T) {
			line := `{"prompt": "q", "passage": "c", "instruction": "s", "metadata": {"k":1}, "output": [` +
				`{"text": "a", "score": 1` + c.first + `}, {"text": "b", "score": 0` + c.second + `}]}`
			r, err := read(t, func(cfg *Config) {
				cfg.AnswerKey, cfg.ContextKey, cfg.SystemKey = "text", "passage", "instruction"
			}, source.Options{}, write(t, line))
			if err != nil || len(r.examples[0].Candidates) != 2 {
				t.Fatalf("%+v, %v", r.drops, err)
			}
			second := r.examples[0].Candidates[1]
			var given []string
			for _, m := range second.Prompt.Messages {
				given = append(given, strings.Fields(m.Text)...)
			}
			got := strings.Join(append(given, string(second.Metadata), second.ScoreError), " ")
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestEmptyLists: a line that lists no answers is dropped and counted, as is an answer that isn't an object.
func TestEmptyLists(t *testing.T) {
	for name, c := range map[string]struct {
		answerKey, line string
		detail          string
	}{
		"no answers":      {"", `{"id": "i", "output": [], "score": [1]}`, "score is an array, not a number"},
		"no objects":      {"text", `{"id": "i", "output": [], "score": 1}`, "output is an array, not text"},
		"not an object":   {"text", `{"id": "i", "output": [7], "score": 1}`, "the answer is a number, not an object"},
		"without a score": {"text", `{"id": "i", "output": [{"text": "a"}], "score": 1}`, "the keys are: text"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := read(t, func(cfg *Config) { cfg.AnswerKey = c.answerKey }, source.Options{}, write(t, c.line))
			if err != nil || len(r.drops) != 1 || !strings.Contains(r.drops[0].Detail, c.detail) || r.stats.Steps != 1 {
				t.Errorf("%+v, %d steps, %v", r.drops, r.stats.Steps, err)
			}
		})
	}
}

// TestAnswersShare: the answers of a line share its prompt and its metadata, however many and large they are.
func TestAnswersShare(t *testing.T) {
	const n = 10_000
	long := strings.Repeat("x", 1<<20)
	line := `{"id": "i", "prompt": "` + long + `", "passage": "p", "instruction": "s", ` +
		`"metadata": {"k": "` + long + `"}, "output": ["a"` + strings.Repeat(`,"a"`, n-1) + `], "score": [1` + strings.Repeat(",1", n-1) + `]}`
	use := func(c *Config) { c.ContextKey, c.SystemKey, c.MaxExample = "passage", "instruction", n }
	r, err := read(t, use, source.Options{}, write(t, line))
	if err != nil {
		t.Fatal(err)
	}
	cands := r.examples[0].Candidates
	first, last := &cands[0], &cands[len(cands)-1]
	if len(cands) != n || &first.Metadata[0] != &last.Metadata[0] ||
		&first.Prompt.Messages[0] != &last.Prompt.Messages[0] {
		t.Errorf("%d candidates, which share nothing", len(cands))
	}
	_, err = read(t, func(c *Config) { use(c); c.MaxExample-- }, source.Options{}, write(t, line))
	if err == nil || !strings.Contains(err.Error(), `more than 9999 answers have the id "i"`) {
		t.Error(err)
	}
}

// TestPassages: a passage is placed below its question, and questions about different passages are different prompts.
func TestPassages(t *testing.T) {
	path := write(t, `{"prompt": "q", "passage": "one", "output": "a", "score": 1}`+"\n"+
		`{"prompt": "q", "passage": "two", "output": "b", "score": 0}`)
	r, err := read(t, func(c *Config) { c.ContextKey = "passage" }, source.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, ex := range r.examples {
		got = append(got, ex.Candidates[0].Prompt.Text)
	}
	if diff := cmp.Diff([]string{"q\n\none", "q\n\ntwo"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestInputsThatCannotBeRead(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "empty file",
		`[{"id":1},` + "\n" + `{"id":1,"out`: ":2 (byte 23): the input ends inside an object that begins at byte 11",
		`{"id":1}` + "\nnot json":            ":2 (byte 9): expected a value",
	} {
		t.Run(text, func(t *testing.T) {
			path := write(t, text)
			_, err := read(t, nil, source.Options{}, path)
			var se *source.Error
			if !errors.As(err, &se) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), path) {
				t.Errorf("%q: got %v, want %q", text, err, want)
			}
		})
	}
	if _, err := read(t, func(c *Config) { c.MaxBytes, c.MaxLine = 2000, 2000 }, source.Options{}, write(t, strings.Repeat(`{"id":1,"output":"a","score":1}`+"\n", 99))); err == nil || !strings.Contains(err.Error(), "the lines with the id \"1\" have more than 2000 bytes") {
		t.Error(err)
	}
	if _, err := read(t, func(c *Config) { c.MaxExample = 2 }, source.Options{}, write(t, strings.Repeat(`{"id":1,"output":"a","score":1}`+"\n", 3))); err == nil || !strings.Contains(err.Error(), "more than 2 lines have the id \"1\"") {
		t.Error(err)
	}
}

func TestResumeReturnsTheRest(t *testing.T) {
	var lines []string
	for i := range 60 {
		switch {
		case i%11 == 5:
			lines = append(lines, "7")
		case i%13 == 4:
			lines = append(lines, `{"output":"o","score":1}`)
		default:
			lines = append(lines, fmt.Sprintf(`{"id":"e%d","output":"o%d","score":%d}`, i/4%10, i, i%3))
		}
	}
	a, b := write(t, strings.Join(lines, "\n")), write(t, lines[0])
	whole, err := read(t, nil, source.Options{}, a, b)
	if err != nil {
		t.Fatal(err)
	}
	if len(whole.examples) < 15 {
		t.Fatal(shape(whole))
	}
	for k, ex := range whole.examples[1:] {
		if at := whole.cursors[k]; ex.Run == at.Run && ex.Offset != at.Offset {
			t.Errorf("example %d begins at %d, the cursor before it says %d", k+1, ex.Offset, at.Offset)
		}
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
	}
	if err := os.WriteFile(a, []byte(strings.Join(slices.Concat([]string{`{"id":"new","output":"o","score":1}`}, lines), "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := read(t, nil, source.Options{Resume: &whole.cursors[3], Inputs: whole.inputs}, a, b); err == nil ||
		!strings.Contains(err.Error(), "changed") {
		t.Error(err)
	}
}

// TestRewritten: entries in the shape of a published data set are rewritten, those of a tree belong to one example, and
// reading can resume between trees. Two answers of one entry are compared with each other only.
func TestRewritten(t *testing.T) {
	tree := func(id string) string {
		return fmt.Sprintf(`{"message_id":"%[1]s","parent_id":null,"role":"prompter","text":"q"}
			{"message_id":"%[1]sa","parent_id":"%[1]s","role":"assistant","text":"a","rank":1,"deleted":false}
			{"message_id":"%[1]sb","parent_id":"%[1]s","role":"assistant","text":"b","rank":0}
			{"message_id":"%[1]sc","parent_id":"%[1]s","role":"assistant","text":"c"}
			{"parent_id":"%[1]s","role":"assistant","text":"c"}`, id) + "\n"
	}
	oasst := func(c *Config) { c.Shape = "oasst" }
	path := write(t, tree("t")+tree("u"))
	whole, err := read(t, oasst, source.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("t[t0:a=-1 t1:b=0] u[u0:a=-1 u1:b=0]", shape(whole)); diff != "" {
		t.Error(diff)
	}
	var reasons []string
	for _, d := range whole.drops {
		reasons = append(reasons, string(d.Reason))
	}
	if diff := cmp.Diff([]string{"no_score", "bad_step", "no_score", "bad_step"}, reasons); diff != "" {
		t.Error(diff)
	}
	rest, err := read(t, oasst, source.Options{Resume: &whole.cursors[0], Inputs: whole.inputs}, path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(whole.examples[1:], rest.examples); diff != "" {
		t.Error(diff)
	}
	battle := `{"prompt": "q", "response_a": "a", "response_b": "b", "winner": "a", "id": 1}` + "\n"
	battles, err := read(t, func(c *Config) { c.Shape = "arena" }, source.Options{}, write(t, battle+battle))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("1[#00:a=1 #01:b=0 #10:a=1 #11:b=0]", shape(battles)); diff != "" {
		t.Error(diff)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"id":1,"output":"a","score":1}` + "\n" + `{"id":1,"turn_id":null,"output":null,"score":NaN}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := read(t, nil, source.Options{}, write(t, text))
		if err != nil {
			return
		}
		for _, a := range r.stats.Accounts() {
			if a.In != a.Out+a.DroppedTotal() {
				t.Fatalf("%q: the books don't balance: %+v", text, a)
			}
		}
	})
}

// TestEmptyEntriesEndTheRun: a run of this many entries with nothing in them isn't what the source reads; fewer are
// accepted.
func TestEmptyEntriesEndTheRun(t *testing.T) {
	const good = `{"id":"a","turn_id":"t","output":"x","score":1}` + "\n"
	for text, want := range map[string]string{
		strings.Repeat("{}\n", 3):          "3 entries in a row",
		strings.Repeat("{}\n{}\n"+good, 3): "",
		good + strings.Repeat("{}\n", 4):   "3 entries in a row",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := read(t, func(c *Config) { c.MaxEmpty = 3 }, source.Options{}, write(t, text))
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%q: got %v, want %q", text, err, want)
			}
		})
	}
}
