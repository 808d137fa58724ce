package config

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/oracletest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/builders/yamldoc"
)

// TestNATMistakes uses the mistakes for which NAT's own messages are on record. NAT names the section at best; ours
// must name the setting, its position, and what to write.
func TestNATMistakes(t *testing.T) {
	dir := oracletest.Path(t, "nat", "cli", "configs")
	type want struct {
		code  string
		line  int
		names string // in the message or snippet: the setting
		fix   string // in the fix
	}
	for _, c := range []struct {
		config    string
		overrides []Override
		want      []want
	}{
		{"bad_yaml", nil, []want{{yamldoc.CodeSyntax, 1, "the brace that opens here", "add the closing }"}}},
		{"empty", nil, []want{{yamldoc.CodeEmpty, 0, "no settings", "nat-go init"}}},
		{"none", nil, []want{{codeFile, 0, "does not exist", "path"}}},
		{
			"enabled_but_all_missing",
			nil,
			[]want{
				{codeIncomplete, 32, "finetuning.trainer is", "`trainer: t`"},
				{codeIncomplete, 32, "finetuning.trajectory_builder", "`trajectory_builder: b`"},
			},
		},
		{"enabled_but_trainer_missing", nil, []want{{codeIncomplete, 32, "finetuning.trainer", "`trainer: t`"}}},
		{
			"exhaustive_text_yes",
			nil,
			[]want{{schema.CodeType, 22, "trajectory_builders.b.exhaustive_pairs", "true or false"}},
		},
		{
			"learning_rate_zero",
			nil,
			[]want{{schema.CodeRange, 30, "trainer_adapters.a.hyperparameters.learning_rate", "above 0"}},
		},
		{
			"max_pairs_zero",
			nil,
			[]want{{schema.CodeRange, 22, "trajectory_builders.b.max_pairs_per_turn", "at least 1"}},
		},
		{
			"min_score_diff_nan",
			nil,
			[]want{
				{schema.CodeNonFinite, 22, "trajectory_builders.b.min_score_diff", "a number"},
				{codeNotEnabled, 34, "enabled", "finetuning.enabled: true"},
			},
		},
		{
			"min_score_diff_negative",
			nil,
			[]want{{schema.CodeRange, 22, "trajectory_builders.b.min_score_diff", "at least 0"}},
		},
		{"min_score_diff_text", nil, []want{{schema.CodeType, 22, "trajectory_builders.b.min_score_diff", "a number"}}},
		{
			"missing_adapter_field",
			nil,
			[]want{{schema.CodeMissing, 23, "trainer_adapters.a.namespace", "`namespace: "}},
		},
		{"missing_all_adapter_fields", nil, []want{
			{schema.CodeMissing, 23, "customization_config", "add"},
			{schema.CodeMissing, 23, "datastore_host", "add"},
			{schema.CodeMissing, 23, "entity_host", "add"},
			{schema.CodeMissing, 23, "namespace", "add"},
		}},
		{"missing_type", nil, []want{{codeNoType, 20, "trajectory_builders.b", "_type: dpo_traj_builder"}}},
		{"no_finetuning_section", nil, []want{{codeNotEnabled, 1, "finetuning", "add"}}},
		{"not_enabled", nil, []want{{codeNotEnabled, 33, "enabled", "finetuning.enabled: true"}}},
		{"null_section", nil, []want{{schema.CodeNull, 29, "trainers", "remove"}}},
		{"num_runs_float", nil, []want{{schema.CodeType, 32, "trainers.t.num_runs", "whole number"}}},
		{"num_runs_zero", nil, []want{{schema.CodeRange, 32, "trainers.t.num_runs", "at least 1"}}},
		{
			"several_errors",
			nil,
			[]want{
				{schema.CodeRange, 22, "min_score_diff", "at least 0"},
				{schema.CodeMissing, 24, "namespace", "add"},
				{schema.CodeRange, 32, "num_runs", "at least 1"},
			},
		},
		{"status_failures_11", nil, []want{{schema.CodeRange, 29, "max_consecutive_status_failures", "at most 10"}}},
		{"step_filter_bad", nil, []want{{schema.CodeEnum, 12, "workflow_output_step_filter", "TTC_END"}}},
		{"submit_fails_service_down", nil, nil},
		{"training_type_bad", nil, []want{{schema.CodeEnum, 30, "training_type", `"sft", "dpo"`}}},
		{"unknown_adapter_name", nil, []want{{codeNoSuchName, 36, `finetuning.trainer_adapter names "nope"`, "one of a"}}},
		{"unknown_builder_name", nil, []want{{codeNoSuchName, 35, `finetuning.trajectory_builder names "nope"`, "one of b"}}},
		{"unknown_trainer_name", nil, []want{{codeNoSuchName, 34, `finetuning.trainer names "nope"`, "one of t"}}},
		{"unknown_builder_type", nil, []want{{codeUnknownType, 21, "no_such_builder", "dpo_traj_builder"}}},
		{"unknown_trainer_type", nil, []want{{codeUnknownType, 31, "no_such_trainer", "nemo_customizer_trainer"}}},
		{
			"unknown_component_key",
			nil,
			[]want{
				{schema.CodeUnknownKey, 22, "custom_step_name", "ttc_step_name"},
				{codeNotEnabled, 34, "enabled", ""},
			},
		},
		{"unknown_dataset_key", nil, []want{{schema.CodeUnknownKey, 16, "filepath", "file_path"}}},
		{
			"unknown_finetuning_key",
			nil,
			[]want{{codeNotEnabled, 33, "enabled", ""}, {schema.CodeUnknownKey, 40, "trainr", "trainer"}},
		},
		{"unknown_top_level_key", nil, []want{{schema.CodeUnknownKey, 40, "finetunning", "finetuning"}}},
		{
			"submit_fails_service_down",
			[]Override{"eval.general.max_concurrency=abc"},
			[]want{{schema.CodeType, 1, "eval.general.max_concurrency", "whole number"}},
		},
		{
			"submit_fails_service_down",
			[]Override{"finetuning.enabled=false"},
			[]want{{codeNotEnabled, 1, "finetuning.enabled=false", "finetuning.enabled=true"}},
		},
		{
			"submit_fails_service_down",
			[]Override{"trajectory_builders.b.no_such=5"},
			[]want{{codeOverridePath, 1, "trajectory_builders.b.no_such", "ttc_step_name"}},
		},
		{"submit_fails_service_down", []Override{"nosuch.x=5"}, []want{{codeOverridePath, 1, "nosuch", "known here"}}},
		{
			"submit_fails_service_down",
			[]Override{"trainers.t.num_runs=0"},
			[]want{{schema.CodeRange, 1, "trainers.t.num_runs", "at least 1"}},
		},
	} {
		name := c.config
		for _, o := range c.overrides {
			name += " -o " + string(o)
		}
		t.Run(name, func(t *testing.T) {
			_, fs := Load(filepath.Join(dir, c.config+".yml"), Options{
				Types:     testTypes,
				Run:       true,
				Overrides: c.overrides,
			})
			checkPlaces(t, fs)
			var errs []finding.Finding
			for _, f := range fs {
				if f.Severity == finding.Error {
					errs = append(errs, f)
				}
			}
			if len(errs) != len(c.want) {
				t.Fatalf("got %d errors, want %d: %v", len(errs), len(c.want), errs)
			}
			for i, w := range c.want {
				f := errs[i]
				if f.Code != w.code || f.Line != w.line || !strings.Contains(f.Message+f.Snippet, w.names) ||
					!strings.Contains(f.Fix, w.fix) {
					t.Errorf("got %s\nwant %+v", f, w)
				}
			}
		})
	}
}

// TestNATFilesPass uses the configurations that NAT was actually run with, and those that it wrote itself.
func TestNATFilesPass(t *testing.T) {
	dir := oracletest.Path(t, "nat")
	n := 0
	for _, pattern := range []string{
		"cases/*/config.yml", "runs/*/config.yml", "runs/*/*/config.yml", "e2e/*/config.yml", "runs/*/*/config_*.yml",
		"runs/*/*/*/*/config_*.yml", "e2e/*/*/config_*.yml",
	} {
		t.Run(pattern, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				n++
				c, fs := Load(f, Options{Types: testTypes, Compat: true})
				if finding.Failed(fs) || c == nil {
					t.Errorf("%s: %v", f, fs)
				}
				checkPlaces(t, fs)
			}
		})
	}
	if n < 80 {
		t.Errorf("only %d files found", n)
	}
}

// TestDefaultsAreNATs compares our defaults with those that NAT itself wrote out.
func TestDefaultsAreNATs(t *testing.T) {
	theirs, fs := Load(filepath.Join(oracletest.Path(t, "nat", "runs", "a", "out"), "config_effective.yml"), Options{})
	if finding.Failed(fs) {
		t.Fatal(fs)
	}
	ours, fs := Parse("c.yml", []byte("finetuning: {}\neval: {general: {output: {}, dataset: {}}}\n"), Options{})
	if finding.Failed(fs) {
		t.Fatal(fs)
	}
	clean := func(f Finetuning) Finetuning { f.OutputDir = filepath.Clean(f.OutputDir); return f }
	if d := cmp.Diff(clean(theirs.Finetuning), clean(ours.Finetuning), cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
	a, b := theirs.Eval.General, ours.Eval.General
	if d := cmp.Diff(a.Dataset.Structure, b.Dataset.Structure); d != "" {
		t.Error(d)
	}
	if a.Output.WriteATIF != b.Output.WriteATIF || a.ValidateLLMEndpoints != b.ValidateLLMEndpoints ||
		a.PerInputUserID != b.PerInputUserID || a.Dataset.IDKey != b.Dataset.IDKey {
		t.Errorf("theirs %+v\nours %+v", a, b)
	}
	job, fs := Parse("c.yml", []byte("eval: {general: {output: {job_management: {}}}}\n"), Options{})
	if d := cmp.Diff(a.Output.JobManagement, job.Eval.General.Output.JobManagement); d != "" || finding.Failed(fs) {
		t.Error(d, fs)
	}
}
