package config

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
)

// dpoConfig and the other component types stand in for those that the program registers.
type dpoConfig struct {
	Step     string  `yaml:"ttc_step_name" default:"dpo_candidate_move" doc:"name of the steps to pair" aka:"custom_step_name"`
	All      bool    `yaml:"exhaustive_pairs" default:"true"`
	MinDiff  float64 `yaml:"min_score_diff" default:"0.0" validate:"gte=0"`
	MaxPairs *int    `yaml:"max_pairs_per_turn" validate:"omitempty,gte=1"`
	FromDiff bool    `yaml:"reward_from_score_diff" default:"true"`
	Multiple bool    `yaml:"require_multiple_candidates" default:"true"`
}

type trainerConfig struct {
	NumRuns  int  `yaml:"num_runs" default:"1" validate:"gte=1"`
	Dedupe   bool `yaml:"deduplicate_pairs" default:"true"`
	MaxPairs *int `yaml:"max_pairs" validate:"omitempty,gte=1"`
}

type adapterConfig struct {
	EntityHost string        `yaml:"entity_host" validate:"required" doc:"base URL of the entity store"`
	DataHost   string        `yaml:"datastore_host" validate:"required"`
	Token      schema.Secret `yaml:"hf_token"`
	Namespace  string        `yaml:"namespace" validate:"required"`
	OutputDir  *string       `yaml:"dataset_output_dir"`
	Create     bool          `yaml:"create_namespace_if_missing" default:"true"`
	Config     string        `yaml:"customization_config" validate:"required"`
	FullHist   bool          `yaml:"use_full_message_history"`
	Deploy     bool          `yaml:"deploy_on_completion"`
	Poll       float64       `yaml:"poll_interval_seconds" default:"30" validate:"gt=0"`
	Failures   int           `yaml:"max_consecutive_status_failures" default:"3" validate:"gte=1,lte=10"`
	Hyper      struct {
		Type string  `yaml:"training_type" default:"dpo" validate:"oneof=sft dpo"`
		Rate float64 `yaml:"learning_rate" default:"5e-5" validate:"gt=0"`
	} `yaml:"hyperparameters"`
}

type sourceConfig struct {
	Path []string `yaml:"path" scalar:"true"`
}

var testTypes = Types{
	Sources:  map[string]Component{"workflow_output": {Config: sourceConfig{}}, "traces": {Config: sourceConfig{}}},
	Builders: map[string]Component{"dpo_traj_builder": {Config: dpoConfig{}, Steps: []string{"TTC_END"}}},
	Trainers: map[string]Component{"nemo_customizer_trainer": {Config: trainerConfig{}}},
	Adapters: map[string]Component{
		"nemo_customizer_trainer_adapter": {Config: adapterConfig{}},
		"files_trainer_adapter":           {},
	},
	Formats: []string{"customizer", "trl", "nat_trajectories"},
}

var update = flag.Bool("update", false, "write the findings into testdata")

// TestFindings compares the findings printed for the configurations in testdata. The first line of an archive holds the
// options: run, compat, env:NAME=VALUE, -o:OVERRIDE.
func TestFindings(t *testing.T) {
	archives, err := filepath.Glob("testdata/findings/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal("no test data", err)
	}
	for _, path := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			dir, want := t.TempDir(), -1
			for i, f := range ar.Files {
				if f.Name == "want" {
					want = i
					continue
				}
				name := filepath.Join(dir, f.Name)
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, f.Data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Chdir(dir)
			_, fs := Load("config.yml", testOptions(string(ar.Comment)))
			checkPlaces(t, fs)
			var got bytes.Buffer
			if err := finding.Text(&got, fs, false); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(got.String(), "c4n4ry") {
				t.Error("a secret or a variable's value is shown")
			}
			if *update {
				ar.Files[want].Data = got.Bytes()
				t.Chdir(testDir)
				if err := os.WriteFile(path, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(string(ar.Files[want].Data), got.String()); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

var testDir = func() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return dir
}()

// TestPageHasAllSections checks that page.md has a line for the settings of each section.
func TestPageHasAllSections(t *testing.T) {
	lines := []string{"{{settings plugins.NAME}}"}
	for name := range sectionSpecs() {
		lines = append(lines, "{{settings "+name+"}}")
	}
	for name := range componentSections {
		lines = append(lines, "{{types "+name+"}}")
	}
	for _, line := range lines {
		if !strings.Contains(pageText, "\n"+line+"\n") {
			t.Errorf("page.md lacks the line %s", line)
		}
	}
}

func testOptions(line string) Options {
	opt := Options{Types: testTypes}
	env := map[string]string{}
	for _, word := range strings.Fields(line) {
		switch kind, rest, _ := strings.Cut(word, ":"); kind {
		case "run":
			opt.Run = true
		case "compat":
			opt.Compat = true
		case "env":
			name, value, _ := strings.Cut(rest, "=")
			env[name] = value
		case "-o":
			opt.Overrides = append(opt.Overrides, Override(rest))
		}
	}
	opt.Getenv = func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	return opt
}

// checkPlaces fails if a finding points outside its file.
func checkPlaces(t testing.TB, fs []finding.Finding) {
	t.Helper()
	for _, f := range fs {
		text, err := os.ReadFile(f.File)
		if f.Line == 0 || err != nil {
			continue
		}
		lines := strings.Split(strings.TrimPrefix(string(text), "\ufeff"), "\n")
		if f.Line > len(lines) || f.Column < 1 || f.Column > utf8.RuneCountInString(lines[f.Line-1])+1 ||
			f.EndColumn < f.Column {
			t.Errorf("outside the file: %s", f)
		}
	}
}
