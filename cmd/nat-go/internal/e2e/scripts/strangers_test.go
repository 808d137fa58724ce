package scripts

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"
)

// stranger is a file that somebody has, under testdata/strangers.txtar: the rows that `nat-go run FILE` makes of it, or
// what it says instead and the rows after doing as it says.
type stranger struct {
	name string
	says string // "" means that the file is read as it is
	do   string // what it says to do: flags, or a command that writes rows.jsonl
	rows []string
}

// strangers are files of people's own, of public shapes, and those that other programs write.
var strangers = []stranger{
	{
		name: "tickets.csv",
		says: "its keys are: Ticket No",
		do:   "--map prompt='Customer asks' --map output='Bot said' --map score='Stars (1-5)'",
		rows: []string{"u:Where is my parcel? > a:It is in Turku and comes on Monday. | a:No idea.", "u:How do I cancel? > a:Open the order and press cancel. | a:You cannot."},
	},
	{name: "hf-pairs.jsonl", rows: []string{"u:Capital of Norway? > a:Oslo. | a:Bergen.", "u:3 + 4? > a:7 | a:8"}},
	{
		name: "openai-ft.jsonl",
		rows: []string{`u:Tide in Hamina? a:Let me guess: low. u:Look it up. > a:tide{"port":"Hamina"}`, `u:Tide in Hamina? a:Let me guess: low. u:Look it up. a:tide{"port":"Hamina"} t:high > a:It is high.`},
	},
	{
		name: "openai-dpo.jsonl",
		rows: []string{"u:Hello > a:Hi, how can I help? | a:What?", "u:Bye > a:Goodbye! | a:Whatever."},
	},
	{name: "langfuse.jsonl", rows: []string{"u:How deep is the harbour? > a:Nine metres at the quay."}},
	{name: "langsmith.jsonl", rows: []string{"u:Name a fjord. > a:Oslofjord."}},
	{
		name: "claude-code.jsonl",
		rows: []string{`u:Fix the typo in a.txt a:Edit{"file":"a.txt","old":"lake","new":"the"} t:File has not been read yet. > a:I could not fix it.`},
	},
	{name: "otlp.jsonl", rows: []string{"u:Name a lake. > a:Saimaa."}},
	{name: "lm-eval.jsonl", rows: []string{"u:Q: 2+2?\nA: > a:4"}},
	{
		name: "argilla.jsonl",
		says: "its keys are: id, status",
		do:   "--map prompt=fields.prompt --map first=fields.response-1 --map second=fields.response-2 --map choice=responses.preference.0.value",
		rows: []string{"u:Boil an egg how long? > a:Eight minutes. | a:A day.", "u:Is tea hot? > a:Usually. | a:No."},
	},
	{
		name: "label-studio.json",
		says: "its keys are: id, data",
		do:   "--map prompt=data.prompt --map first=data.answer1 --map second=data.answer2 --map choice=annotations.0.result.0.value.selected",
		rows: []string{"u:Capital of Chad? > a:It is N'Djamena. | a:It is Paris.", "u:Capital of Peru? > a:It is Lima. | a:It is Rome."},
	},
	{name: "verl.jsonl", rows: []string{"u:What is 0*1? > a:0 | a:1"}},
	{
		name: "own.jsonl",
		says: `"helpdesk" is unknown`,
		do:   `jq -c '(.. | .who? | select(. == "helpdesk")) |= "assistant"' own.jsonl > rows.jsonl`,
		rows: []string{"u:My lamp flickers. > a:Tighten the bulb.", "u:It smokes! > a:Unplug it."},
	},
	{name: "alpaca.jsonl", rows: []string{"u:Add.\n\n2 and 2 > a:4", "u:Greet. > a:Hello!"}},
	{name: "sharegpt.jsonl", rows: []string{"s:Be brief. u:Hi > a:Hello."}},
	{name: "hh.jsonl", rows: []string{"u:Is ice cold? > a:Yes. | a:Go away."}},
	{name: "ultrafeedback.jsonl", rows: []string{"u:Name a tree. > a:Oak. | a:Car."}},
	{name: "nectar.jsonl", rows: []string{"u:Name a bird. > a:Owl. | a:Bus."}},
	{name: "helpsteer.jsonl", rows: []string{"u:Name a fish. > a:Pike. | a:Dog."}},
	{name: "oasst.jsonl", rows: []string{"u:Name a star. > a:Vega. | a:Mud."}},
	{name: "shp.jsonl", rows: []string{"u:Why is rust red? > a:Iron oxide. | a:Paint."}},
	{name: "xlam.jsonl", rows: []string{`u:Tide at Oslo? > a:tide{"port":"Oslo"}`}},
	{name: "kto.jsonl", rows: []string{"u:Sky? > a:Blue. | a:Loud."}},
	{name: "agents-fn-spans.jsonl", says: "traces without a model call"},
	{name: "agents-gen-spans.jsonl", rows: []string{"u:Name a port. > a:Rauma."}},
	{
		name: "agents-items.jsonl",
		rows: []string{`u:Tide at Oslo? > a:tide{"port":"Oslo"}`, `u:Tide at Oslo? a:tide{"port":"Oslo"} t:low > a:Low.`},
	},
	{
		name: "agents-items-list.json",
		says: "the file is one conversation",
		do:   "jq -c '{messages: .}' agents-items-list.json > rows.jsonl",
		rows: []string{"u:Tide at Oslo? > a:Low."},
	},
	{
		name: "pydantic-ai.json",
		says: "the file is one conversation",
		do:   "jq -c '{messages: .}' pydantic-ai.json > rows.jsonl",
		rows: []string{"u:Name a cape. > a:Cape Horn."},
	},
	{name: "qwen-code.jsonl", rows: []string{"u:List files > a:a.txt"}},
	{name: "inspect-ai.jsonl", rows: []string{"u:2+2? > a:4"}},
	{
		name: "text-scores.jsonl",
		says: `are words, such as "high" and "low": write a number for each, 1 for the best and 0 for the worst`,
		do:   `sed "s/\"high\"/1/; s/\"low\"/0/" text-scores.jsonl > rows.jsonl`,
		rows: []string{"u:Name a nut. > a:Hazel. | a:Bolt."},
	},
	{name: "smolagents.jsonl", rows: []string{"u:Name a pier. > a:Brighton."}},
	{name: "openai-batch.jsonl", says: "join each with its request, by custom_id"},
	{
		name: "deepeval.json",
		says: "The entries may be in a list inside the file's object",
		do:   "jq -c '.testCases[]' deepeval.json > rows.jsonl",
		rows: []string{"u:Name a cliff. > a:Moher. | a:A cat."},
	},
	{
		name: "promptfoo.jsonl",
		says: `score may be "score" or "success"`,
		do:   "--map prompt=prompt.raw --map output=response.output",
		rows: []string{"u:Name a ford. > a:Hyvinkaa."},
	},
	{
		name: "autogen.jsonl",
		says: "chat_history is a conversation",
		do:   "--map messages=chat_history --map role=role --map content=content",
		rows: []string{"u:Name a well. > a:Artesian."},
	},
	{name: "mlflow.jsonl", rows: []string{"u:Name a cove. > a:Lulworth."}},
}

// TestStrangersFiles checks what becomes of each file: right rows, or a reason and a remedy that leads to right rows.
func TestStrangersFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	files, err := txtar.ParseFile(filepath.Join("testdata", "strangers.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	p := &e2e.Project{Dir: t.TempDir(), Exe: e2e.Program(t)}
	for _, f := range files.Files {
		if err := os.WriteFile(filepath.Join(p.Dir, f.Name), f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(strangers, func(s stranger) bool { return s.name == f.Name }) {
			t.Errorf("%s has no line", f.Name)
		}
	}
	for _, s := range strangers {
		t.Run(s.name, func(t *testing.T) { s.check(t, p) })
	}
}

func (s *stranger) check(t *testing.T, p *e2e.Project) {
	if s.says != "" {
		r := e2e.Finish(t, p.Command("run", s.name))
		isSaid := strings.HasPrefix(s.do, "sed") || strings.Contains(r.Stderr, s.do)
		if r.Code == 0 || !strings.Contains(r.Stderr, s.says) || !isSaid {
			t.Fatalf("exit %d: %s\nis without %q or %q", r.Code, r.Stderr, s.says, s.do)
		}
	}
	if s.rows == nil {
		return
	}
	input, flags, first := s.name, s.do, ""
	if program, _, _ := strings.Cut(s.do, " "); program == "jq" || program == "sed" {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("the remedy can't be followed without " + program)
		}
		input, flags, first = "rows.jsonl", "", s.do+" && "
	}
	sh := exec.Command("sh", "-c", first+"$NAT_GO run "+input+" --run-id "+s.name+
		" -o dataset.split.validation=0 -o dataset.formats=[trl] "+flags)
	sh.Dir, sh.Env = p.Dir, append(p.Command().Env, "NAT_GO="+p.Exe)
	if out, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if diff := cmp.Diff(s.rows, rowsIn(t, filepath.Join(p.Dir, "out", s.name, "dataset", "trl"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// rowsIn returns the rows of a folder, each as its messages: prompt > completion, or prompt > chosen | rejected.
func rowsIn(t *testing.T, dir string) (out []string) {
	t.Helper()
	for _, name := range []string{"train.jsonl", "sft.jsonl"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			var row struct{ Prompt, Completion, Chosen, Rejected []said }
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Fatal(err)
			}
			text := spoken(row.Prompt) + " > " + spoken(row.Completion) + spoken(row.Chosen)
			if row.Rejected != nil {
				text += " | " + spoken(row.Rejected)
			}
			out = append(out, text)
		}
	}
	return out
}

// said is a message of a row.
type said struct {
	Role, Content string
	ToolCalls     []struct {
		Function struct {
			Name      string
			Arguments json.RawMessage
		}
	} `json:"tool_calls"`
}

// spoken writes messages as their roles' first letters and their texts.
func spoken(messages []said) string {
	var all []string
	for _, m := range messages {
		text := m.Role[:1] + ":" + m.Content
		for _, c := range m.ToolCalls {
			text += c.Function.Name + string(c.Function.Arguments)
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}
