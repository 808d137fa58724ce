package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
)

const validConfig = `trajectory_builders:
  moves: {_type: dpo_traj_builder, strategy: adjacent}
dataset: {formats: [customizer, trl]}
finetuning: {enabled: true, trajectory_builder: moves}
`

func run(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Program{}.Main(args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestValidate(t *testing.T) {
	good := writeConfig(t, validConfig)
	bad := writeConfig(t,
		strings.Replace(validConfig, "strategy: adjacent", "custom_step_name: x, min_score_diff: -1", 1))
	for _, c := range []struct {
		args string
		code int
		want []string // in either output
	}{
		{good, 0, []string{"no findings"}},
		{good + " --no-plugins", 0, []string{"no findings"}},
		{bad, 2, []string{"config.yml:2:36: error NG1201", "did you mean ttc_step_name?", "2 errors"}},
		{bad + " --compat nat", 2, []string{"warning NG1201", "error NG1203", "1 error, 1 warning"}},
		{bad + " --compat nat -o trajectory_builders.moves.min_score_diff 0", 0, []string{"1 warning"}},
		{bad + " --compat nat -o trajectory_builders.moves.min_score_diff=0", 0, []string{"1 warning"}},
		{good + " -o dataset.formats trll", 2, []string{"(command line):1:17: error NG1205", "did you mean trl?"}},
		{
			good + " -o dataset.format trl",
			2,
			[]string{"unknown setting dataset.format", "did you mean dataset.formats?"},
		},
		{bad + " --report github", 2, []string{"::error title=NG1201,file=", "line=2,col=36,endColumn=52::"}},
		{"--config-file none.yml", 2, []string{"none.yml: error NG1001: the file does not exist"}},
		{"", 2, []string{"missing configuration: use `nat-go validate FILE`"}},
		{good + " --report xml", 2, []string{"--report xml: use one of text, json, github, sarif"}},
		{good + " --compat art", 2, []string{"--compat art"}},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, stdout, stderr := run(append([]string{"validate"}, strings.Fields(c.args)...)...)
			if code != c.code {
				t.Errorf("%s: exit %d, want %d\n%s%s", c.args, code, c.code, stdout, stderr)
			}
			for _, w := range c.want {
				if !strings.Contains(stdout+stderr, w) {
					t.Errorf("%s: no %q in\n%s%s", c.args, w, stdout, stderr)
				}
			}
		})
	}
}

func TestValidateJSON(t *testing.T) {
	bad := writeConfig(t, strings.Replace(validConfig, "adjacent", "adjacnt", 1))
	for _, flag := range []string{"--json", "--report=json"} {
		t.Run(flag, func(t *testing.T) {
			code, stdout, _ := run("validate", "--config-file", bad, flag)
			var got struct {
				OK       bool              `json:"ok"`
				Findings []finding.Finding `json:"findings"`
			}
			if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 2 {
				t.Fatalf("exit %d, %v:\n%s", code, err, stdout)
			}
			f := got.Findings[0]
			if got.OK || len(got.Findings) != 1 || f.Code != schema.CodeEnum || f.Suggestion != "adjacent" ||
				f.Line != 2 || f.Column != 46 || f.EndColumn != 53 ||
				f.Pointer != "/trajectory_builders/moves/strategy" || f.File != bad {
				t.Errorf("%+v", got)
			}
		})
	}
	code, stdout, _ := run("validate", "--config-file", bad, "--report", "sarif")
	var sarif struct {
		Runs []struct {
			Results []struct{ RuleID string }
			Tool    struct {
				Driver struct {
					Rules []struct{ ShortDescription struct{ Text string } }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(stdout), &sarif); err != nil || code != 2 {
		t.Fatalf("exit %d, %v", code, err)
	}
	if r := sarif.Runs[0]; r.Results[0].RuleID != schema.CodeEnum ||
		r.Tool.Driver.Rules[0].ShortDescription.Text == "" {
		t.Errorf("%+v", sarif)
	}
}

func TestSchemaCommand(t *testing.T) {
	for _, args := range [][]string{{"schema"}, {"schema", "--draft", "07"}} {
		code, stdout, stderr := run(args...)
		var doc map[string]any
		if err := json.Unmarshal([]byte(stdout), &doc); err != nil || code != 0 {
			t.Errorf("%v: exit %d, %v %s", args, code, err, stderr)
		}
		if !strings.Contains(stdout, "max_pairs_per_turn") ||
			!strings.Contains(stdout, "nemo_customizer_trainer_adapter") {
			t.Errorf("%v lacks component types", args)
		}
	}
	if code, _, _ := run("schema", "--draft", "04"); code != 2 {
		t.Errorf("exit %d", code)
	}
}

func specs(t *testing.T, types map[string]config.Component) map[string]*schema.Spec {
	out := map[string]*schema.Spec{}
	for name, c := range types {
		spec, err := schema.Of(c.Config)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		out[name] = spec
	}
	return out
}

// TestSettingsAreDocumented keeps `nat-go schema` useful: every setting, wherever it is, says what it is for. NAT's
// settings that are read only so that its configurations pass (eval, run_configuration) are for NAT to document.
func TestSettingsAreDocumented(t *testing.T) {
	types := builtin.Types()
	for _, section := range []any{config.Collator{}, config.Dataset{}, config.Finetuning{}, config.Plugin{}} {
		haveDocs(t, fmt.Sprintf("%T", section), schema.MustOf(section))
	}
	for section, components := range map[string]map[string]*schema.Spec{
		"sources": specs(t, types.Sources), "trajectory_builders": specs(t, types.Builders),
		"trainers": specs(t, types.Trainers), "trainer_adapters": specs(t, types.Adapters),
	} {
		t.Run(section, func(t *testing.T) {
			for name, spec := range components {
				haveDocs(t, section+": "+name, spec)
			}
		})
	}
}

func haveDocs(t *testing.T, at string, s *schema.Spec) {
	for _, f := range s.Fields {
		if f.Name == "run_configuration" {
			continue
		}
		if f.Spec.Doc == "" {
			t.Errorf("%s.%s has no doc tag", at, f.Name)
		}
		haveDocs(t, at+"."+f.Name, f.Spec)
	}
	if s.Elem != nil {
		haveDocs(t, at+"[]", s.Elem)
	}
	for i, one := range s.OneOf {
		haveDocs(t, fmt.Sprintf("%s (form %d)", at, i), one)
	}
}
