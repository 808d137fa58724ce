package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
)

const full = `
sources: {runs: {_type: workflow_output, path: [a.json, b.json]}}
plugins: {acme: {path: ./bin/acme, env: [ACME_TOKEN], instances: 2, start_timeout: 5s, memory: 512MiB}}
trajectory_builders:
  z: {_type: dpo_traj_builder, ttc_step_name: "${STEP:-plan}", max_pairs_per_turn: 4}
  a: {_type: acme/curriculum, keys: {it: [wants, 1.50]}}
  m: {_type: dpo_traj_builder}
trainers: {t: {_type: nemo_customizer_trainer, num_runs: 3, max_pairs: ${MAX}}}
trainer_adapters:
  c: {_type: nemo_customizer_trainer_adapter, entity_host: http://h, datastore_host: http://h, hf_token: "${TOKEN:-c4n4ry}", namespace: n, customization_config: c@v}
  f: {_type: files_trainer_adapter}
collator: {tokenizer: model, batch_tokens: 1024, teacher: {endpoint: http://t, api_key: c4n4ry}}
dataset: {formats: trl, split: {by: task, validation: 0.5, seed: 7}}
finetuning: {enabled: yes, trainer: t, trajectory_builder: [a, z], trainer_adapter: c, output_dir: out, reward_function: {name: outcome}}
eval:
  general: {output: {dir: out/eval, workflow_output_step_filter: []}, dataset: {type: jsonl, file_path: q.jsonl, id_key: uid, structure: {trajectory_key: steps}}}
  evaluators: {outcome: {_type: mine, threshold: 0.5}}
llms: {l: {api_key: c4n4ry}}
`

func loadFull(t *testing.T, overrides ...Override) *Config {
	t.Helper()
	opt := testOptions("run env:MAX=5 env:TOKEN=from-env")
	opt.Overrides = overrides
	c, fs := Parse("config.yml", []byte(full), opt)
	if finding.Failed(fs) {
		t.Fatal(fs)
	}
	return c
}

func TestLoadedValues(t *testing.T) {
	c := loadFull(t)
	five := 5
	if d := cmp.Diff(&trainerConfig{NumRuns: 3, Dedupe: true, MaxPairs: &five}, c.Trainer().Config); d != "" {
		t.Error(d)
	}
	four := 4
	if d := cmp.Diff(&dpoConfig{
		Step:     "plan",
		All:      true,
		MaxPairs: &four,
		FromDiff: true,
		Multiple: true,
	}, c.Builders[0].Config); d != "" {
		t.Error(d)
	}
	if got := names(c.Builders); !slices.Equal(got, []string{"z", "a", "m"}) {
		t.Errorf("builders are not in the order of the file: %v", got)
	}
	if got := names(c.Selected()); !slices.Equal(got, []string{"z", "a"}) {
		t.Errorf("selected %v", got)
	}
	adapter := c.Adapter().Config.(*adapterConfig)
	if adapter.Token.Reveal() != "from-env" || adapter.Hyper.Rate != 5e-5 {
		t.Errorf("%+v", adapter)
	}
	want := Plugin{
		Name:         "acme",
		Path:         "./bin/acme",
		Env:          []string{"ACME_TOKEN"},
		Instances:    2,
		StartTimeout: 5 * time.Second,
		Timeout:      time.Minute,
		Output:       96 << 20,
		Memory:       512 << 20,
	}
	if d := cmp.Diff([]Plugin{want}, c.Plugins); d != "" {
		t.Error(d)
	}
	split := Split{By: "task", Validation: 0.5, Seed: 7, ValidationSet: true}
	if d := cmp.Diff(Dataset{
		Formats:  []string{"trl"},
		Split:    split,
		PromptAs: "user_message",
		Turns:    "every", Completion: "turn",
		JSONColumns:    "json",
		Contradictions: "drop",
	}, c.Dataset); d != "" {
		t.Error(d)
	}
	if c.Finetuning.OutputDir != "out" || c.Finetuning.NumEpochs != 1 ||
		c.Finetuning.CurriculumLearning.ExpansionInterval != 5 || !c.Finetuning.Enabled ||
		!slices.Equal(c.Finetuning.TargetFunctions, []string{"<workflow>"}) {
		t.Errorf("%+v", c.Finetuning)
	}
	g := c.Eval.General
	if g.Output.Dir != "out/eval" || !g.Output.Cleanup || g.Dataset.Structure.TrajectoryKey != "steps" ||
		g.Dataset.Structure.QuestionKey != "question" ||
		g.Dataset.IDKey != "uid" || g.Dataset.Type != "jsonl" || g.MaxConcurrency != 8 {
		t.Errorf("%+v %+v %+v", g, g.Output, g.Dataset)
	}
	if c.Collator.Tokenizer != "model" || c.Collator.MaxLength != 4096 ||
		c.Collator.Teacher.AnswerTimeout(c.Collator.Teacher.Protocol) != time.Minute {
		t.Errorf("%+v", c.Collator)
	}
	plain, fs := Parse("config.yml", []byte("finetuning: {}\n"), Options{})
	if finding.Failed(fs) || plain.Dataset.Split.Validation != 0.2 || plain.Dataset.Split.ValidationSet ||
		plain.Eval.General.Output != nil {
		t.Errorf("%v %+v", fs, plain.Dataset)
	}
}

// TestKeysOfTheReferenceTrainer checks that a key of the reference trainer's collator is refused with the key that does
// the same here.
func TestKeysOfTheReferenceTrainer(t *testing.T) {
	for key, want := range map[string]string{
		"enable_sdpo": "sdpo_traj_builder", "enable_replay_dpo": "dpo_traj_builder", "hint_generator": "hints.command",
		"rlvr_reward_key": "reward_key",
	} {
		_, fs := Parse("config.yml", []byte("collator: {"+key+": x}\n"), Options{})
		at := slices.IndexFunc(fs, func(f finding.Finding) bool { return f.Pointer == "/collator/"+key })
		if at < 0 || fs[at].Severity != finding.Error || !strings.Contains(fs[at].Fix, want) {
			t.Errorf("%s: %v", key, fs)
		}
	}
}

// TestTeacherDefaults checks the defaults of an Atropos teacher and of others.
func TestTeacherDefaults(t *testing.T) {
	for text, want := range map[string]string{
		"{endpoint: 'http://127.0.0.1:1', protocol: atropos}":                        "1 20m0s",
		"{endpoint: 'http://127.0.0.1:1', protocol: atropos, top_k: 5, timeout: 3s}": "5 3s",
		"{endpoint: 'http://127.0.0.1:1', model: m}":                                 "20 1m0s",
		"{servers: [{name: a, endpoint: 'http://127.0.0.1:1', protocol: atropos}]}":  "1 1m0s",
		"{servers: [{name: a, endpoint: 'http://127.0.0.1:1', protocol: sglang}]}":   "20 1m0s",
	} {
		c, fs := Parse("config.yml", []byte("collator: {tokenizer: t, teacher: "+text+"}\n"), Options{})
		if finding.Failed(fs) {
			t.Errorf("%s: %v", text, fs)
			continue
		}
		teacher := c.Collator.Teacher
		if got := fmt.Sprint(teacher.LogProbs(), " ", teacher.AnswerTimeout(teacher.Protocol)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// TestPluginBlocks checks a block against a schema that came from the block's plugin as JSON.
func TestPluginBlocks(t *testing.T) {
	c := loadFull(t)
	b := c.Builders[1]
	if b.Config != nil || b.Spec != nil {
		t.Fatal("nothing is known of a plugin's block yet")
	}
	spec, err := schema.FromJSONSchema([]byte(`{"type":"object","additionalProperties":false,"properties":{"keys":{"type":"object","properties":{
		"it":{"type":"array","items":{"type":"string"}}}},"depth":{"type":"integer","default":3}}}`))
	if err != nil {
		t.Fatal(err)
	}
	fs := b.Check(spec)
	if len(fs) != 1 || fs[0].Line != 6 || fs[0].Column != 50 || fs[0].Pointer != "/trajectory_builders/a/keys/it/1" {
		t.Errorf("%+v", fs)
	}
	spec, err = schema.FromJSONSchema([]byte(`{"type":"object","properties":{"keys":{},"depth":{"type":"integer","default":3}}}`))
	if err != nil {
		t.Fatal(err)
	}
	out, fs := b.JSON(spec)
	if len(fs) > 0 || string(out) != `{"depth":3,"keys":{"it":["wants",1.5]}}` {
		t.Errorf("%s %v", out, fs)
	}
	placed := b.Adopt([]finding.Finding{
		{Pointer: "/keys/it/0", Code: "acme/bad", Message: "no"},
		{Pointer: "/nowhere/x", Message: "gone"},
		{Pointer: "", Message: "all"},
	})
	if placed[0].Line != 6 || placed[0].Column != 43 || placed[0].Pointer != "/trajectory_builders/a/keys/it/0" {
		t.Errorf("%+v", placed[0])
	}
	for _, f := range placed[1:] {
		if f.Line != 6 || f.Column != 3 {
			t.Errorf("%+v", f)
		}
	}
}

// TestSource checks the copy for the run folder: it contains no secret, keeps references, and loads as the same
// configuration.
func TestSource(t *testing.T) {
	c := loadFull(t, "dataset.split.seed=9", "trainer_adapters.c.poll_interval_seconds=2")
	out, err := c.Source()
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"c4n4ry", "from-env"} {
		if strings.Contains(string(out), secret) {
			t.Errorf("%s is in the copy:\n%s", secret, out)
		}
	}
	for _, kept := range []string{
		"ttc_step_name: \"${STEP:-plan}\"", "hf_token: ${TOKEN}\n", "max_pairs: ${MAX}\n",
		"omitted, not used by nat-go: llms", "NATGO_COLLATOR_TEACHER_API_KEY",
	} {
		if !strings.Contains(string(out), kept) {
			t.Errorf("%q is not in the copy:\n%s", kept, out)
		}
	}
	again, fs := Parse("config.yml", out, testOptions("run env:MAX=5 env:TOKEN=from-env env:NATGO_COLLATOR_TEACHER_API_KEY=c4n4ry"))
	if len(fs) > 0 {
		t.Fatal(fs)
	}
	if d := cmp.Diff(c.Dataset, again.Dataset); d != "" {
		t.Error(d)
	}
	for i := range c.Adapters {
		if d := cmp.Diff(c.Adapters[i].Config, again.Adapters[i].Config,
			cmp.Comparer(func(a, b schema.Secret) bool { return a == b })); d != "" {
			t.Error(d)
		}
	}
	second, err := again.Source()
	if err != nil {
		t.Fatal(err)
	}
	if body := func(b []byte) string {
		return string(b[strings.Index(string(b), "sources:"):])
	}; body(out) != body(second) {
		t.Errorf("the copy of the copy differs:\n%s", cmp.Diff(body(out), body(second)))
	}
}

// TestValuesAreNotYAML checks that the value of a variable or file can't become structure, and keeps its type if
// quoted.
func TestValuesAreNotYAML(t *testing.T) {
	for _, c := range []struct{ text, value, want string }{
		{"a: ${V}", "{x: 1}", "{x: 1}"},
		{"a: ${V}", "b\nc: d", "b\nc: d"},
		{"a: \"${V}\"", "12", "12"},
		{"a: x${V}", "${V}", "x${V}"},
		{"a: $${V}", "y", "${V}"},
		{"{a: ${V:-b c}}", "", ""},
		{"a: ${V} # ${W}", "0123", "0123"},
	} {
		t.Run(c.text, func(t *testing.T) {
			opt := Options{
				Getenv: func(string) (string, bool) { return c.value, true },
				Types: Types{Builders: map[string]Component{
					"t": {Config: struct {
						A string `yaml:"a"`
					}{}},
				}},
			}
			got, fs := Parse("c.yml", []byte("trajectory_builders: {b: {_type: t, <<: &x {}}}\n"), opt)
			if got == nil || finding.Failed(fs) {
				t.Fatal(fs)
			}
			text := "trajectory_builders:\n  b:\n    _type: t\n    " + c.text + "\n"
			if c.text[0] == '{' {
				text = "trajectory_builders: {b: {_type: t, " + c.text[1:] + "}\n"
			}
			got, fs = Parse("c.yml", []byte(text), opt)
			if finding.Failed(fs) {
				t.Errorf("%s: %v", c.text, fs)
				return
			}
			out, _ := json.Marshal(got.Builders[0].Config)
			want, _ := json.Marshal(map[string]string{"A": c.want})
			if string(out) != string(want) {
				t.Errorf("%s with %q gives %s, want %s", c.text, c.value, out, want)
			}
		})
	}
}

func TestJoinOverrides(t *testing.T) {
	for in, want := range map[string]string{
		"-o a.b 5":                 "-o a.b=5",
		"-o a.b=5 x":               "-o a.b=5 x",
		"--override a.b -1 -o c d": "--override a.b=-1 -o c=d",
		"-o a":                     "-o a",
		"-o":                       "-o",
		"finetune run -- -o a b":   "finetune run -- -o a b",
		"-o a.b x=y --json":        "-o a.b=x=y --json",
	} {
		t.Run(in, func(t *testing.T) {
			if got := strings.Join(JoinOverrides(strings.Fields(in)), " "); got != want {
				t.Errorf("%q -> %q, want %q", in, got, want)
			}
		})
	}
}

// TestJSONSchema compiles the schema with another implementation and checks good and bad configurations against it.
func TestJSONSchema(t *testing.T) {
	for _, draft := range []schema.Draft{schema.Draft2020, schema.Draft07} {
		var doc any
		if err := json.Unmarshal(JSONSchema(testTypes, draft), &doc); err != nil {
			t.Fatal(err)
		}
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource("nat-go.json", doc); err != nil {
			t.Fatal(err)
		}
		compiled, err := compiler.Compile("nat-go.json")
		if err != nil {
			t.Fatal(err)
		}
		valid := func(text string) error {
			var v any
			if err := yaml.Unmarshal([]byte(text), &v); err != nil {
				t.Fatal(err)
			}
			return compiled.Validate(v)
		}
		good := strings.Replace(strings.Replace(full, "enabled: yes", "enabled: true", 1), "${MAX}", `"${MAX}"`, 1)
		if err := valid(good); err != nil {
			t.Errorf("%s: %v", draft, err)
		}
		for _, bad := range []string{
			"finetunning: {}", "trajectory_builders: {b: {_type: dpo_traj_builder, min_score_diff: -1}}", "trajectory_builders: {b: {_type: nope}}",
			"trajectory_builders: {b: {}}", "dataset: {split: {by: prompt}}", "finetuning: {num_epochs: 0}",
			"finetuning: {num_epochs: abc}", "collator: {rows: turns}",
			"trainer_adapters: {a: {type: nemo_customizer_trainer_adapter}}",
		} {
			if valid(bad) == nil {
				t.Errorf("%s accepts %s", draft, bad)
			}
		}
	}
}

// TestSourceHidesUnnamedSecrets checks secrets whose key doesn't reveal them: an address with a password, a flag of a
// program, and an entry in a section whose name does reveal them.
func TestSourceHidesUnnamedSecrets(t *testing.T) {
	c, fs := Parse("f.yml", []byte(`trajectory_builders: {b: {_type: dpo_traj_builder}}
plugins: {acme: {path: ./acme, args: [--api-key=c4n4ry, --level=3, "--token=${TOKEN}"]}}
trainer_adapters: {a: {_type: nemo_customizer_trainer_adapter, entity_host: "http://me:c4n4ry@host", datastore_host: "http://me:${PASS}@host",
  namespace: n, customization_config: c, custom_fields: {credentials: {user: c4n4ry}}}}
trainers: {t: {_type: nemo_customizer_trainer}}
finetuning: {enabled: true, trainer: t, trajectory_builder: b, trainer_adapter: a}
`), testOptions("run env:TOKEN=from-env env:PASS=from-env"))
	if c == nil {
		t.Fatal(fs)
	}
	warned := 0
	for _, f := range fs {
		if f.Code == codeClearSecret {
			warned++
		}
		if strings.Contains(f.Snippet, "c4n4ry") {
			t.Errorf("the snippet of a finding shows a secret: %s", f.Snippet)
		}
	}
	if warned < 2 {
		t.Errorf("%d warnings of secrets in clear, want those of args and of entity_host at least: %v", warned, fs)
	}
	out, err := c.Source()
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"c4n4ry", "from-env"} {
		if strings.Contains(string(out), secret) {
			t.Errorf("%s is in the copy:\n%s", secret, out)
		}
	}
	for _, kept := range []string{"--level=3", "http://me:${PASS}@host", "${NATGO_PLUGINS_ACME_ARGS_0}"} {
		if !strings.Contains(string(out), kept) {
			t.Errorf("%q is not in the copy:\n%s", kept, out)
		}
	}
}

// TestFilesIsAnAdapter checks that trainer_adapter: files means the same as the flag, unless an entry has that name.
func TestFilesIsAnAdapter(t *testing.T) {
	text := "trajectory_builders: {b: {_type: dpo_traj_builder}}\nfinetuning: {enabled: true, trajectory_builder: b, trainer_adapter: files}\n"
	c, fs := Parse("c.yml", []byte(text), testOptions("run"))
	if finding.Failed(fs) || c.Adapter() != nil {
		t.Errorf("%v %+v", fs, c.Adapter())
	}
	text += "trainers: {t: {_type: nemo_customizer_trainer}}\ntrainer_adapters: {files: {_type: files_trainer_adapter}}\n"
	c, fs = Parse("c.yml", []byte(text), testOptions("run -o:finetuning.trainer=t"))
	if finding.Failed(fs) || c.Adapter() == nil {
		t.Errorf("%v %+v", fs, c.Adapter())
	}
}
