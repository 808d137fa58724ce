package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-playground/validator/v10"
	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/yamldoc"
	"github.com/nat-go/nat-go/internal/secret"
)

type inner struct {
	Rate float64 `yaml:"learning_rate" default:"5e-5" validate:"gt=0"`
	Kind string  `yaml:"kind" default:"dpo" validate:"oneof=sft dpo"`
}

type shared struct {
	Reward *string `yaml:"reward"`
}

type block struct {
	shared  `yaml:",inline"`
	Step    string         `yaml:"ttc_step_name" default:"dpo_candidate_move" doc:"name of the steps to pair" aka:"custom_step_name"`
	Diff    float64        `yaml:"min_score_diff" default:"0.0" validate:"gte=0"`
	Max     *int           `yaml:"max_pairs" validate:"omitempty,gte=1"`
	Pairs   bool           `yaml:"pairs" default:"true"`
	Wait    time.Duration  `yaml:"wait" default:"10s" validate:"gte=1s"`
	Memory  Size           `yaml:"memory" default:"1GiB"`
	Token   Secret         `yaml:"token"`
	Host    string         `yaml:"host" validate:"required,url"`
	Names   []string       `yaml:"names" scalar:"true" default:"[a]"`
	Hyper   inner          `yaml:"hyper"`
	Weights map[string]int `yaml:"weights" validate:"dive,lte=9"`
	Extra   any            `yaml:"extra"`
	Alpha   float32        `yaml:"sdpo_weight" alias:"alpha"`
	Runs    uint8          `yaml:"runs" default:"1"`
	Level   string         `yaml:"level" default:"low" validate:"oneof=low mid high" was:"high_level=true:high,low_level=true:low,low_level=false:mid"`
	Peer    string         `yaml:"peer" validate:"hostname"`
	Key     string         `yaml:"key" validate:"required_with=Peer"`
}

func parse(t *testing.T, text string) *yamldoc.Document {
	t.Helper()
	doc, fs := yamldoc.Parse("c.yml", []byte(text))
	if len(fs) > 0 {
		t.Fatal(fs)
	}
	return doc
}

func TestDecodeFillsDefaultsAndValues(t *testing.T) {
	spec := MustOf(block{})
	doc := parse(t, "host: http://x\nmax_pairs: \"3\"\nwait: 1m\nnames: solo\ntoken: s3cret\nhyper: {kind: sft}\nweights: {a: 2}\nextra: {k: [1, x]}\nalpha: 2\npairs: no\n")
	var got block
	if fs := spec.Decode(doc, doc.Root, &got, Options{}); len(fs) > 0 {
		t.Fatal(fs)
	}
	three := 3
	want := block{
		Step:    "dpo_candidate_move",
		Max:     &three,
		Wait:    time.Minute,
		Memory:  1 << 30,
		Token:   Secret{secret.New("s3cret")},
		Host:    "http://x",
		Names:   []string{"solo"},
		Hyper:   inner{Rate: 5e-5, Kind: "sft"},
		Weights: map[string]int{"a": 2},
		Extra:   map[string]any{"k": []any{int64(1), "x"}},
		Alpha:   2,
		Runs:    1,
		Level:   "low",
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(block{}, shared{}),
		cmp.Comparer(func(a, b Secret) bool { return a == b })); d != "" {
		t.Error(d)
	}
}

// TestFindings pins the code, position and fix of every kind of mistake.
func TestFindings(t *testing.T) {
	spec := MustOf(block{})
	for _, c := range []struct{ name, text, want string }{
		{"unknown with aka", "host: http://x\ncustom_step_name: y", `c.yml:2:1: error NG1201: the configuration has no key "custom_step_name" (write ttc_step_name instead of custom_step_name)`},
		{"belongs deeper", "host: http://x\nlearning_rate: 1", `c.yml:2:1: error NG1201: the configuration has no key "learning_rate" (write hyper.learning_rate instead of learning_rate)`},
		{"type", "host: http://x\nmin_score_diff: abc", `c.yml:2:17: error NG1202: min_score_diff must be a number, got the text "abc" (write a number (default 0))`},
		{"quote", "host: http://x\nttc_step_name: 12", `c.yml:2:16: error NG1202: ttc_step_name must be a text, got 12 (put quotes around it: "12")`},
		{"range", "host: http://x\nmax_pairs: 0", `c.yml:2:12: error NG1203: max_pairs must be at least 1, got 0 (write a value that is at least 1, or remove the key)`},
		{"nan", "host: http://x\nmin_score_diff: .nan", `c.yml:2:17: error NG1207: min_score_diff must be a finite number (write a number)`},
		{"fraction", "host: http://x\nruns: 1.5", `c.yml:2:7: error NG1202: runs must be a whole number, got 1.5 (write a whole number (default 1))`},
		{"overflow", "host: http://x\nruns: 300", `c.yml:2:7: error NG1203: runs must be at least 0 and at most 255, got 300 (write a value that is at least 0 and at most 255 (default 1))`},
		{"huge", "host: http://x\nmax_pairs: 99999999999999999999", `c.yml:2:12: error NG1203: max_pairs is larger than any whole number this program can hold (write a smaller number)`},
		{"missing", "ttc_step_name: y", `c.yml:1:1: error NG1204: host is missing (add ` + "`host: <text>`" + `)`},
		{"rule", "host: nope", `c.yml:1:7: error NG1210: host is not a URL (write a URL with its scheme, like http://host:8000)`},
		{"rule of a value that is wrong already", "host: http://x\nkey: k\npeer: [1]", `c.yml:3:7: error NG1202: peer must be a text, got a list (write a text)`},
		{"rule of two keys", "host: http://x\npeer: h", `c.yml:1:1: error NG1210: key is missing: it goes together with peer (add key, or change peer)`},
		{"form", "host: http://x\nkey: k\npeer: a b", `c.yml:3:7: error NG1210: peer breaks the rule "hostname" (write a value that satisfies the rule)`},
		{"type key deeper", "host: http://x\n_type: x\nhyper: {_type: y}", `c.yml:3:9: error NG1201: hyper has no key "_type" (remove it; known keys: learning_rate, kind)`},
		{"enum", "host: http://x\nhyper: {kind: dpi}", `c.yml:2:15: error NG1205: hyper.kind can't be the text "dpi" (write dpo; allowed: "sft", "dpo")`},
		{"null", "host: http://x\nhyper:", `c.yml:2:1: error NG1206: hyper is empty (null) but must be a mapping (write a mapping, or remove the key)`},
		{"duration", "host: http://x\nwait: 10", `c.yml:2:7: error NG1208: wait is not a duration: 10 (add a unit: 10s)`},
		{"duration range", "host: http://x\nwait: 10ms", `c.yml:2:7: error NG1203: wait must be at least 1s, got the text "10ms" (write a value that is at least 1s (default 10s))`},
		{"size", "host: http://x\nmemory: big", `c.yml:2:9: error NG1209: memory is not a size: the text "big" (write a number and a unit: "512MiB", "1GiB")`},
		{"twice", "host: http://x\nalpha: 1\nsdpo_weight: 2", `c.yml:3:1: error NG1211: "alpha" and "sdpo_weight" are the same setting, and both are set (keep sdpo_weight)`},
		{"in a map", "host: http://x\nweights: {a: 10}", `c.yml:2:14: error NG1203: weights.a must be at most 9, got 10 (write a value that is at most 9)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc := parse(t, c.text)
			var v block
			fs := spec.Decode(doc, doc.Root, &v, Options{Skip: []string{"_type"}})
			if len(fs) != 1 || fs[0].String() != c.want {
				t.Errorf("got %v\nwant %s", fs, c.want)
			}
		})
	}
}

// TestSecretsAreMasked checks every printer with a declared secret, one under a misspelt key, and text that isn't YAML.
// TestFormerSettings: a setting that another has replaced still counts, says how to write it now, and is refused beside
// its new form. What comes through a JSON Schema knows them too.
func TestFormerSettings(t *testing.T) {
	copied, err := FromJSONSchema(MustOf(block{}).JSONSchema())
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string][2]string{
		"low_level: false":                   {"mid", "warning NG1219: low_level: false is now level: mid (write `level: mid` instead)"},
		"low_level: true\nhigh_level: true":  {"high", "write `level: high` instead"},
		"high_level: true\nlow_level: false": {"high", "write `level: mid` instead"},
		"high_level: false":                  {"low", "high_level has been replaced by level, and high_level: false has no effect (remove it)"},
		"high_level: false\nlow_level: true": {"low", "low_level: true is now level: low"},
		"low_level: often":                   {"low", "error NG1219: low_level has been replaced by level (write level: one of"},
		"level: mid\nlow_level: true":        {"mid", `error NG1211: "level" and "low_level" are the same setting`},
	} {
		for name, spec := range map[string]*Spec{"struct": MustOf(block{}), "schema": copied} {
			doc := parse(t, "host: http://x\n"+in+"\n")
			v, fs := spec.Value(doc, doc.Root, Options{})
			var lines []string
			for _, f := range fs {
				lines = append(lines, fmt.Sprintf("%s %s: %s (%s)", f.Severity, f.Code, f.Message, f.Fix))
			}
			if got := strings.Join(lines, "\n"); !strings.Contains(got, want[1]) {
				t.Errorf("%s, %q: got %s, want %s", name, in, got, want[1])
			}
			if got := v.(map[string]any)["level"]; got != want[0] {
				t.Errorf("%s, %q: the level is %v, want %s", name, in, got, want[0])
			}
		}
	}
}

func TestSecretsAreMasked(t *testing.T) {
	const canary = "c4n4ry"
	spec := MustOf(block{})
	for _, text := range []string{
		"{host: 5, token: " + canary + ", nope: 1}",
		"{host: 5, token: \"" + canary + "\", nope: 1}",
		"host: http://x\ntokn: " + canary,
		"host: http://x\ntoken: [" + canary + "]",
		"host: http://x\ntoken:\n  [" + canary + ", {api_key: " + canary + "}]",
		"host: http://x\ntoken: &x " + canary + "\nnope: 1",
		"{host: http://x, api_key: " + canary + ", [",
		"host: nope://user:" + canary + "@host:x/\nnope: http://user:" + canary + "@host",
		"{host: http://x, memory: http://user:" + canary + "@host}",
		"host: http://x\ntoken: |\n  " + canary + "\n  " + canary + "\nnope: 1",
	} {
		t.Run(text, func(t *testing.T) {
			doc, fs := yamldoc.Parse("c.yml", []byte(text))
			if doc != nil {
				var v block
				fs = append(fs, spec.Decode(doc, doc.Root, &v, Options{})...)
			}
			if len(fs) == 0 {
				t.Errorf("%q: no findings", text)
			}
			var out bytes.Buffer
			for _, err := range []error{
				finding.Text(&out, fs, true), finding.JSON(&out, fs), finding.GitHub(&out, fs),
				finding.SARIF(&out, fs, "v", func(string) string { return "" }),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			if strings.Contains(out.String(), canary) {
				t.Errorf("%q leaks:\n%s", text, out.String())
			}
		})
	}
}

func TestJSONSchemaRoundTrip(t *testing.T) {
	spec := MustOf(block{})
	back, err := FromJSONSchema(spec.JSONSchema())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(spec.JSONSchema()), string(back.JSONSchema())); d != "" {
		t.Error(d)
	}
	doc := parse(t, "host: http://x\nwait: 90s\nmemory: 2MiB\ncustom_step_name: y\nmax_pairs: 0\nnames: z\n")
	a, b := spec.Check(doc, doc.Root, Options{}), back.Check(doc, doc.Root, Options{})
	if d := cmp.Diff(a, b); d != "" {
		t.Error(d)
	}
	doc = parse(t, "host: http://x\nwait: 90s\nmemory: 2MiB\nnames: z\n")
	j, fs := back.JSON(doc, doc.Root, Options{})
	if len(fs) > 0 {
		t.Fatal(fs)
	}
	var m map[string]any
	if err := json.Unmarshal(j, &m); err != nil {
		t.Fatal(err)
	}
	if m["wait"] != "1m30s" || m["memory"] != "2MiB" || m["pairs"] != true {
		t.Errorf("%s", j)
	}
}

// TestNestedUnionsEnd checks a schema whose alternatives multiply with every level.
func TestNestedUnionsEnd(t *testing.T) {
	spec := &Spec{Kind: String}
	for range 30 {
		list := func() *Spec { return &Spec{Kind: List, Elem: spec} }
		spec = &Spec{Kind: Union, OneOf: []*Spec{list(), list()}}
	}
	doc := parse(t, "a: "+strings.Repeat("[", 30)+"1"+strings.Repeat("]", 30))
	fs := spec.Check(doc, yamldoc.Lookup(doc.Root, "a"), Options{})
	if !finding.Failed(fs) {
		t.Error(fs)
	}
}

// TestManyFindingsOnALongLine checks that reading a one-line file with thousands of mistakes stops early and says so.
func TestManyFindingsOnALongLine(t *testing.T) {
	doc := parse(t,
		"{host: http://x, weights: {"+strings.Repeat("a: x, ", 1)+"}, names: ["+strings.Repeat("1, ", 60_000)+
			"], token: c4n4ry}")
	fs := MustOf(block{}).Check(doc, doc.Root, Options{})
	if len(fs) != yamldoc.MaxFindings+1 || fs[yamldoc.MaxFindings].Code != yamldoc.CodeMore {
		t.Fatal(len(fs))
	}
	for _, f := range fs {
		if len(f.Snippet) > 600 {
			t.Fatalf("the snippet has %d bytes", len(f.Snippet))
		}
	}
}

// TestRulesOfAProgramsOwn registers a rule with the validator and breaks it wherever a struct can occur: the finding
// points at the value, and for a configuration made by a program the error names the key.
func TestRulesOfAProgramsOwn(t *testing.T) {
	even := func(f validator.FieldLevel) bool { return f.Field().Int()%2 == 0 }
	if err := structRules().RegisterValidation("even", even); err != nil {
		t.Fatal(err)
	}
	type part struct {
		N int `yaml:"n" validate:"even" alias:"number"`
	}
	type config struct {
		N     int            `yaml:"n" default:"2" validate:"even"`
		Parts []part         `yaml:"parts" validate:"dive"`
		ByKey map[string]int `yaml:"by_key" validate:"dive,even"`
	}
	text := "n: 3\nparts:\n  - n: 2\n  - {number: 5}\nby_key: {a: 2, b.c: 7}\n"
	doc := parse(t, text)
	var c config
	fs := finding.Sort(MustOf(c).Decode(doc, doc.Root, &c, Options{}))
	var got []string
	for _, f := range fs {
		got = append(got, f.String()+" "+f.Pointer)
	}
	want := []string{
		`c.yml:1:4: error NG1210: n breaks the rule "even" (write a value that satisfies the rule) /n`,
		`c.yml:4:14: error NG1210: parts[1].n breaks the rule "even" (write a value that satisfies the rule) /parts/1/n`,
		`c.yml:5:21: error NG1210: by_key.b.c breaks the rule "even" (write a value that satisfies the rule) /by_key/b.c`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if c.N != 2 {
		t.Errorf("a value with an error is %d, not the default", c.N)
	}
	if err := Validate(&config{N: 1}); err == nil || err.Error() != `n breaks the rule "even"` {
		t.Error(err)
	}
	if err := Validate(&config{}); err != nil {
		t.Error(err)
	}
}

// TestRulesOfEntries checks that the rules for a list's entries apply if its tag has dive, and that a struct that omits
// it is refused.
func TestRulesOfEntries(t *testing.T) {
	type entry struct {
		P string `yaml:"p" validate:"required_without=Q,pattern"`
		Q string `yaml:"q"`
	}
	type config struct {
		Entries []entry `yaml:"entries" validate:"dive"`
	}
	doc := parse(t, "entries:\n  - {q: a}\n  - p: '('\n  - {}\n")
	var got []string
	for _, f := range finding.Sort(MustOf(config{}).Decode(doc, doc.Root, new(config), Options{})) {
		got = append(got, fmt.Sprintf("%d:%d %s", f.Line, f.Column, f.Message))
	}
	want := []string{
		"3:8 entries[1].p is not a valid pattern: missing closing ): `(`",
		"4:5 entries[2].p is missing, and so is q",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if _, err := Of(struct {
		Entries []entry `yaml:"entries"`
	}{}); err == nil || !strings.Contains(err.Error(), "dive") {
		t.Errorf("accepted rules that are never checked: %v", err)
	}
}

func TestNumbersOfEveryKind(t *testing.T) {
	for _, c := range []struct {
		raw  any
		want float64
	}{{2.5, 2.5}, {3, 3}, {int64(4), 4}, {uint64(1) << 63, 1 << 63}} {
		if got, ok := floatOf(c.raw, ""); !ok || got != c.want {
			t.Errorf("%T: %v, %v", c.raw, got, ok)
		}
	}
	if _, ok := floatOf(true, "true"); ok {
		t.Error("a bool was accepted as a number")
	}
}

func TestAnyTakesNull(t *testing.T) {
	spec := MustOf(struct {
		Free any `yaml:"free"`
	}{})
	if len(spec.Fields) != 1 || spec.Fields[0].Spec.Kind != Any || !spec.Fields[0].Spec.Nullable {
		t.Errorf("%+v", spec.Fields)
	}
}

// TestJSONTextIsYAML checks that a value's text can be read both as JSON and as YAML, and means the same in both.
func TestJSONTextIsYAML(t *testing.T) {
	if got, want := string(asYAML([]byte("\"\x7e\x7f\u0085\u009f\u00a0\ufeff\ufffd\ufffe\uffff\""))),
		"\"~\\u007f\\u0085\\u009f\u00a0\\ufeff\ufffd\\ufffe\\uffff\""; got != want {
		t.Errorf("got %+q, want %+q", got, want)
	}
}

// TestListWrittenAsText checks that a text in place of a list of texts is shown as that list, unless that would show a
// secret, or be long or wrong.
func TestListWrittenAsText(t *testing.T) {
	type program struct {
		Command []string `yaml:"command"`
	}
	spec := MustOf(program{})
	for _, c := range []struct{ name, text, want string }{
		{"words", "python train.py --lr", "write [python, train.py, --lr]"},
		{"quotes needed", "sh -c 'a b'", "write a list"},
		{"secret", "train --token abcdefgh12345678", "write a list"},
		{"long", strings.Repeat("word ", 30) + "end", "write a list"},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc := parse(t, "command: "+c.text)
			var v program
			fs := spec.Decode(doc, doc.Root, &v, Options{})
			if len(fs) != 1 || !strings.HasPrefix(fs[0].Fix, c.want) {
				t.Errorf("got %v, want %s", fs, c.want)
			}
		})
	}
}

// TestAbsentValuesStayNil checks that an absent value without a default is nil, not empty, so that it can be told apart
// from one that was given.
func TestAbsentValuesStayNil(t *testing.T) {
	type free struct {
		Given  int            `yaml:"given" default:"3"`
		Any    any            `yaml:"any"`
		ByName map[string]int `yaml:"by_name"`
		List   []int          `yaml:"list"`
		Object struct {
			Any any `yaml:"any"`
		} `yaml:"object"`
	}
	got := free{Any: 1, ByName: map[string]int{"a": 1}, List: []int{1}}
	got.Object.Any = 1
	Defaults(&got)
	if diff := cmp.Diff(free{Given: 3}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestSeveralTypes checks that a text stays a text if a plugin's schema also allows a list of texts: the plugin, not
// nat-go, decides what a single text means.
func TestSeveralTypes(t *testing.T) {
	spec, err := FromJSONSchema([]byte(`{"type": ["string", "array"], "items": {"type": "string"}}`))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"a: x": `"x"`, "a: [x]": `["x"]`} {
		doc := parse(t, text)
		if got, found := spec.JSON(doc, doc.Root.Content[1], Options{}); string(got) != want {
			t.Errorf("%s: got %s, want %s; %v", text, got, want, found)
		}
	}
}
