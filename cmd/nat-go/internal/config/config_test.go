package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nat-go/nat-go/builders/schema"
)

// The component types of the tests stand for those that the program registers.
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
		Type string  `yaml:"training_type" default:"dpo" enum:"sft,dpo"`
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
	Adapters: map[string]Component{"nemo_customizer_trainer_adapter": {Config: adapterConfig{}}, "files_trainer_adapter": {}},
	Formats:  []string{"customizer", "trl", "nat_trajectories"},
}

func conformance(t *testing.T, parts ...string) string {
	t.Helper()
	root := os.Getenv("NATGO_CONFORMANCE")
	if root == "" {
		root = "../../../../../shared/conformance"
	}
	path := filepath.Join(append([]string{root}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("SKIP: no conformance data at %s; set NATGO_CONFORMANCE", path)
	}
	return path
}

func TestExplore(t *testing.T) {
	dir := conformance(t, "nat", "cli", "configs")
	files, _ := filepath.Glob(dir + "/*.yml")
	for _, f := range files {
		_, fs := Load(f, Options{Types: testTypes, Run: true})
		for i := range fs {
			fs[i].File = filepath.Base(fs[i].File)
		}
		schema.Text(os.Stdout, fs, false)
	}
}

func TestNATFilesPass(t *testing.T) {
	dir := conformance(t, "nat")
	for _, pattern := range []string{"cases/*/config.yml", "runs/*/config.yml", "runs/*/*/config.yml", "e2e/*/config.yml", "runs/*/*/config_*.yml", "runs/*/*/*/config_*.yml", "e2e/*/*/config_*.yml"} {
		files, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, f := range files {
			c, fs := Load(f, Options{Types: testTypes, Compat: true})
			if schema.Failed(fs) || c == nil {
				t.Errorf("%s: %v", f, fs)
			}
		}
	}
}
