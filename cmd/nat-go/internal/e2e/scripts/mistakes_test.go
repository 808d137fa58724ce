package scripts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"
)

// mistaken is a valid configuration; each mistake changes a piece of it.
const mistaken = `sources:
  samples: {_type: candidates, path: samples.jsonl}

trajectory_builders:
  pairs:
    _type: dpo_traj_builder
    ttc_step_name: dpo_candidate_move
    strategy: best_vs_worst
    min_score_diff: 0.1

collator:
  tokenizer: model
  max_length: 4096

trainer_adapters:
  local: {_type: exec_trainer_adapter, command: [sh, train.sh]}

trainers:
  t: {_type: nemo_customizer_trainer}

dataset:
  formats: [trl, customizer]
  split: {by: example, validation: 0.2, seed: 7}

finetuning:
  enabled: true
  trainer: t
  trajectory_builder: pairs
  trainer_adapter: local
  output_dir: out
`

// mistakes lists what people get wrong: from is changed to to. The answer must contain says; replacing undo (or to)
// with fix makes the configuration valid.
var mistakes = []struct{ name, from, to, says, fix, undo string }{
	// Keys and values.
	{"a key misspelt", "ttc_step_name", "ttc_stepname", "did you mean ttc_step_name?", "ttc_step_name", ""},
	{
		"an unknown type", "_type: dpo_traj_builder", "_type: dpo_builder", "write dpo_traj_builder",
		"dpo_traj_builder", "dpo_builder",
	},
	{
		"no type", "    _type: dpo_traj_builder\n", "", "has no _type",
		"    _type: dpo_traj_builder\n    ttc_step_name", "    ttc_step_name",
	},
	{"an unknown format", "[trl, customizer]", "[trll, customizer]", "write trl", "trl", "trll"},
	{"a format in capitals", "[trl, customizer]", "[TRL, customizer]", "write trl", "trl", "TRL"},
	{
		"a reference to nothing", "trajectory_builder: pairs", "trajectory_builder: pair", "write pairs", "pairs\n",
		"pair\n",
	},
	{"an unknown trainer", "trainer: t\n", "trainer: tt\n", `names "tt"`, "trainer: t\n", "trainer: tt\n"},
	{
		"a value out of an enum", "best_vs_worst", "best_vs_wrost", "write best_vs_worst", "best_vs_worst",
		"best_vs_wrost",
	},
	{"a number out of range", "validation: 0.2", "validation: 20", "below 1", "0.2", "20"},
	{"a negative number", "max_length: 4096", "max_length: -1", "at least 1", "1", "-1"},
	{"a text for a number", "seed: 7", "seed: seven", "must be a whole number", "0", "seven"},
	{"a number with a unit", "max_length: 4096", "max_length: 4k", "a whole number", "4096", "4k"},
	{"a text for a switch", "enabled: true", "enabled: yes please", "true or false", "true", "yes please"},
	{
		"an unset variable", "output_dir: out", "output_dir: ${NATGO_NOT_SET}", "${NATGO_NOT_SET:-",
		"${NATGO_NOT_SET:-default}", "${NATGO_NOT_SET}",
	},
	{
		"an open variable", "output_dir: out", "output_dir: ${OUT", "write ${NAME} or ${NAME:-default}",
		"${OUT:-default}", "${OUT",
	},
	{"a missing base", "sources:\n", "base: nat.yml\nsources:\n", "nat.yml", "", "base: nat.yml\n"},
	{
		"a key set twice", "    min_score_diff: 0.1\n", "    min_score_diff: 0.1\n    min_score_diff: 0.2\n", "twice",
		"", "    min_score_diff: 0.2\n",
	},
	{"null for a value", "strategy: best_vs_worst", "strategy: null", "null", "exhaustive", "null"},
	// Sections.
	{
		"builders for trajectory_builders", "trajectory_builders:", "builders:", "write trajectory_builders instead",
		"trajectory_builders", "builders",
	},
	{"source for sources", "sources:", "source:", "write sources instead", "sources", "source"},
	{"inputs for sources", "sources:", "inputs:", "write sources instead", "sources", "inputs"},
	{"finetune for finetuning", "finetuning:", "finetune:", "write finetuning instead", "finetuning", "finetune"},
	{
		"adapters for trainer_adapters", "trainer_adapters:", "adapters:", "write trainer_adapters instead",
		"trainer_adapters", "adapters",
	},
	{
		"a section in kebab-case", "trajectory_builders:", "trajectory-builders:", "write trajectory_builders",
		"trajectory_builders", "trajectory-builders",
	},
	{
		"an empty section", "trainers:\n  t: {_type: nemo_customizer_trainer}\n", "trainers:\n", "is empty",
		"trainers: {t: {_type: nemo_customizer_trainer}}", "trainers:",
	},
	{
		"a list for a section", "trainers:\n  t: {_type: nemo_customizer_trainer}\n", "trainers: [t]\n",
		"write `trainers: {my_name: {...}}`", "{t: {_type: nemo_customizer_trainer}}", "[t]",
	},
	{
		"not enabled", "enabled: true", "enabled: false", "set finetuning.enabled: true", "enabled: true",
		"enabled: false",
	},
	{
		"no builder is named", "  trajectory_builder: pairs\n", "", "add `trajectory_builder: pairs` under finetuning",
		"finetuning:\n  trajectory_builder: pairs", "finetuning:",
	},
	{
		"no trainer is named", "  trainer: t\n", "", "add `trainer: t` under finetuning", "finetuning:\n  trainer: t",
		"finetuning:",
	},
	{
		"score for score_key", "path: samples.jsonl}", "path: samples.jsonl, score: rating}",
		"did you mean score_key?", "score_key: score", "score: rating",
	},
	{
		"a threshold that is missing", "strategy: best_vs_worst", "strategy: threshold", "add threshold",
		"strategy: threshold\n    threshold: 0.5", "strategy: threshold",
	},
	{
		"another tool's name", "max_length: 4096", "max_seq_length: 4096", "write max_length instead of max_seq_length",
		"max_length", "max_seq_length",
	},
	{
		"a tokenizer's name for it", "max_length: 4096", "model_max_length: 4096", "write max_length", "max_length",
		"model_max_length",
	},
	{
		"a template by its long name", "  max_length", "  chat_template: chat_template.jinja\n  max_length",
		"write template instead of chat_template", "  template: ", "  chat_template: ",
	},
	{"file for path", "path: samples.jsonl", "file: samples.jsonl", "write path instead of file", "path:", "file:"},
	{"paths for path", "path: samples.jsonl", "paths: samples.jsonl", "write path instead of paths", "path:", "paths:"},
	{
		"one format", "formats: [trl, customizer]", "format: trl", "write formats instead of format", "formats:",
		"format:",
	},
	{
		"output for output_dir", "output_dir: out", "output: out", "write output_dir instead of output", "output_dir:",
		"output:",
	},
	{
		"a share by another name", "validation: 0.2", "validation_ratio: 0.2", "write validation instead of",
		"validation", "validation_ratio",
	},
	{
		"a builder's short name", "_type: dpo_traj_builder", "_type: dpo", "write dpo_traj_builder",
		"_type: dpo_traj_builder",
		"_type: dpo",
	},
	{
		"one letter of a source", "_type: candidates", "_type: candidate", "write candidates", "candidates,",
		"candidate,",
	},
	{"an unknown adapter", "trainer_adapter: local", "trainer_adapter: locl", "write local", "local", "locl"},
	{"an unknown split", "by: example", "by: row", `one of "example", "task"`, "by: task", "by: row"},
	{"no share left to train", "validation: 0.2", "validation: 1", "below 1", "validation: 0.2", "validation: 1"},
	{"a share in per cent", "validation: 0.2", "validation: 20%", "must be a number", "0.2", "20%"},
	{"half a token", "max_length: 4096", "max_length: 4096.5", "a whole number", "4096", "4096.5"},
	{"a negative difference", "min_score_diff: 0.1", "min_score_diff: -0.1", "at least 0", "0", "-0.1"},
	{"no pairs", "min_score_diff: 0.1", "max_pairs_per_turn: 0", "at least 1, or remove the key", "1\n", "0\n"},
	{
		"a setting of a trainer", "    min_score_diff: 0.1\n", "    min_score_diff: 0.1\n    beta: 0.1\n", "remove it",
		"",
		"    beta: 0.1\n",
	},
	{"a command as a text", "[sh, train.sh]", "sh train.sh", "write [sh, train.sh]", "[sh, train.sh]", "sh train.sh"},
	{"a section set twice", "dataset:\n", "collator: {}\ndataset:\n", "remove one of them", "", "collator: {}\n"},
	{
		"a file based on itself", "sources:\n", "base: finetune.yml\nsources:\n", "remove one `base:`", "",
		"base: finetune.yml\n",
	},
	{
		"a format for other records", "[trl, customizer]", "[messages]", "or write customizer, trl",
		"[customizer, trl]",
		"[messages]",
	},
	// YAML.
	{"a tab", "  tokenizer: model", "\ttokenizer: model", "indent it with spaces", "  tokenizer", "\ttokenizer"},
	{
		"an open brace", "path: samples.jsonl}", "path: samples.jsonl", "add the closing }",
		"path: samples.jsonl}", "path: samples.jsonl",
	},
	{
		"an open bracket", "[trl, customizer]", "[trl, customizer", "add the closing ]", "[trl, customizer]",
		"[trl, customizer",
	},
	{"a path of Windows", "output_dir: out", `output_dir: "C:\data"`, "use single quotes", `'C:\data'`, `"C:\data"`},
	{"an open quote", "output_dir: out", "output_dir: \"out", "add the closing \"", "\"out\"", "\"out"},
	{
		"the wrong bracket", "[trl, customizer]", "[trl, customizer}", "add the closing ]", "[trl, customizer]",
		"[trl, customizer}",
	},
	// Things named outside the configuration.
	{"a missing input", "samples.jsonl", "sample.jsonl", "write samples.jsonl", "samples.jsonl", "sample.jsonl"},
	{
		"objects by a pattern", "samples.jsonl", "s3://bucket/*.jsonl", "name each object", "s3://bucket/samples.jsonl",
		"s3://bucket/*.jsonl",
	},
	{
		"a folder of objects", "samples.jsonl", "gs://bucket/runs/", "the path names no object",
		"gs://bucket/runs/samples.jsonl", "gs://bucket/runs/",
	},
	{
		"an input over http", "samples.jsonl", "http://example.com/samples.jsonl", "use https://",
		"https://", "http://",
	},
	{
		"an input over ftp", "samples.jsonl", "ftp://example.com/samples.jsonl", "and write samples.jsonl",
		"samples.jsonl", "ftp://example.com/samples.jsonl",
	},
	{"a model's name", "tokenizer: model", "tokenizer: acme/model", "write models/model", "models/model", "acme/model"},
	{
		"a tokenizer's folder without one", "tokenizer: model", "tokenizer: models", "has no tokenizer.json",
		"models/model", "models",
	},
	{"a missing tokenizer", "tokenizer: model", "tokenizer: ./modl", "write model", "model", "./modl"},
	{
		"a missing template", "  max_length: 4096", "  template: chat.jinja", "write chat_template.jinja",
		"chat_template.jinja", "chat.jinja",
	},
	{
		"an input in the home folder", "path: samples.jsonl", "path: ~/samples.jsonl", "write ${HOME}/samples.jsonl",
		"${HOME}/samples.jsonl", "~/samples.jsonl",
	},
	{
		"an input on the hub", "samples.jsonl", "hf://acme/samples.jsonl", "hf://datasets/",
		"hf://datasets/acme/rows/samples.jsonl", "hf://acme/samples.jsonl",
	},
	{"an empty input", "samples.jsonl", "nothing.jsonl", "is empty", "samples.jsonl", "nothing.jsonl"},
	{
		"a tokenizer's file misspelt", "tokenizer: model", "tokenizer: model/tokenizer.jsn",
		"write model/tokenizer.json",
		"model/tokenizer.json", "model/tokenizer.jsn",
	},
	// What inputs contain.
	{
		"an answer under another name", "samples.jsonl}", "replies.jsonl}", "write output_key: response",
		"output_key: response, path: replies.jsonl}", "path: replies.jsonl}",
	},
	{
		"keys in another language", "samples.jsonl}", "antworten.jsonl}",
		"perhaps prompt_key: Frage, output_key: Antwort, score_key: Note",
		"prompt_key: Frage, output_key: Antwort, score_key: Note, path: antworten.jsonl}", "path: antworten.jsonl}",
	},
	{
		"ready pairs as candidates", "samples.jsonl}", "pairs.jsonl}", "write _type: traces", "_type: traces",
		"_type: candidates",
	},
	{
		"nothing to compare", "samples.jsonl}", "single.jsonl}", "write _type: sft_traj_builder",
		"_type: sft_traj_builder\n", "_type: dpo_traj_builder\n    ttc_step_name: dpo_candidate_move\n" +
			"    strategy: best_vs_worst\n    min_score_diff: 0.1\n",
	},
	{
		"an archive", "samples.jsonl}", "samples.zip}", "this is a zip archive", "samples.jsonl}", "samples.zip}",
	},
	{
		"an input that is cut off", "samples.jsonl}", "cut.jsonl}", "the last line ends inside an object",
		"samples.jsonl}", "cut.jsonl}",
	},
	{
		"a text in place of data", "samples.jsonl}", "letter.txt}", "can't be read as candidates", "samples.jsonl}",
		"letter.txt}",
	},
	{"a missing program", "[sh, train.sh]", "[./tran.sh]", "write train.sh", "./train.sh", "./tran.sh"},
}

// TestMistakes: each mistake is reported with its position, its cause and a fix, and applying the fix as written makes
// validate pass.
func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"samples.jsonl": `{"id": "a", "turn_id": "t", "prompt": "p", "output": "x", "score": 1}` + "\n" +
			`{"id": "a", "turn_id": "t", "prompt": "p", "output": "y", "score": 0}` + "\n",
		"replies.jsonl": `{"prompt": "p", "response": "x", "score": 1} {"prompt": "p", "response": "y", "score": 0}`,
		"antworten.jsonl": `{"Frage": "Wie viel?", "Antwort": "zwei", "Note": 1}` + "\n" +
			`{"Frage": "Wie viel?", "Antwort": "drei", "Note": 0}` + "\n",
		"pairs.jsonl":                 `{"prompt": "p", "chosen": "x", "rejected": "y"}` + "\n",
		"single.jsonl":                `{"id": "a", "prompt": "p", "output": "x", "score": 1}` + "\n",
		"samples.zip":                 "PK\x03\x04",
		"cut.jsonl":                   `{"id": "a", "prompt": "p", "output": "x", "score": 1}` + "\n" + `{"id": "a", "pro`,
		"letter.txt":                  "Dear Sir or Madam,\n",
		"model/tokenizer.json":        "{}",
		"models/model/tokenizer.json": "{}",
		"chat_template.jinja":         "",
		"train.sh":                    "#!/bin/sh\n",
		"nothing.jsonl":               "",
	}
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p := &e2e.Project{Dir: dir, Exe: e2e.Program(t)}
	t.Setenv("HOME", dir)
	validate := func(t *testing.T, text string, code int) string {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "finetune.yml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := p.NatGo(t, code, "validate", "finetune.yml")
		return r.Stdout + r.Stderr
	}
	validate(t, mistaken, 0)
	if len(mistakes) < 80 {
		t.Errorf("only %d mistakes", len(mistakes))
	}
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			if !strings.Contains(mistaken, m.from) {
				t.Fatalf("%q is not in the configuration", m.from)
			}
			wrong := strings.Replace(mistaken, m.from, m.to, 1)
			code := 2
			if m.name == "not enabled" || m.name == "a format for other records" { // what is written can be read
				code = 0
			}
			says := validate(t, wrong, code)
			if !strings.Contains(says, m.says) {
				t.Errorf("%q is not in\n%s", m.says, says)
			}
			if !strings.Contains(says, "finetune.yml:") {
				t.Errorf("no place is named in\n%s", says)
			}
			if !strings.Contains(says, "fix: ") {
				t.Errorf("no fix is named in\n%s", says)
			}
			undo := m.undo
			if undo == "" {
				undo = m.to
			}
			validate(t, strings.Replace(wrong, undo, m.fix, 1), 0)
		})
	}
}
