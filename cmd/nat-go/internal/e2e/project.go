package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/customizer/customizertest"
)

// Project is a folder with a configuration that submits to a service.
type Project struct {
	Dir, Exe, Input string
	Service         *customizertest.Service
}

// NewProject returns a project whose jobs go to a service. extra contains additional lines for the adapter's
// configuration.
func NewProject(t *testing.T, s *customizertest.Service, extra string) *Project {
	t.Helper()
	p := newProject(t)
	p.Service = customizertest.Start(t, s)
	write(t, p.Dir, "finetune.yml", fmt.Sprintf(`
trajectory_builders: {b: {_type: dpo_traj_builder}}
trainers: {t: {_type: nemo_customizer_trainer}}
trainer_adapters:
  a:
    _type: nemo_customizer_trainer_adapter
    entity_host: %s
    datastore_host: %s
    hf_token: "${TEST_HF_TOKEN}"
    entity_token: %s-in-clear
    wandb_api_key: "${TEST_WANDB}"
    namespace: team-a
    customization_config: meta/x@v1+A100
    poll_interval_seconds: 0.02
    %s
finetuning: {enabled: true, trainer: t, trajectory_builder: b, trainer_adapter: a, output_dir: out}
`, s.URL, s.URL, Canary, extra))
	return p
}

// newProject returns a project without a configuration.
func newProject(t *testing.T) *Project {
	t.Helper()
	if testing.Short() {
		t.Skip("-short")
	}
	input, err := filepath.Abs(filepath.Join("..", "..", "..", "..", "..", "examples", "demo", "workflow_output.json"))
	if err != nil {
		t.Fatal(err)
	}
	return &Project{Dir: t.TempDir(), Input: input, Exe: Program(t)}
}

// Command returns a command that runs the program in the project's folder.
func (p *Project) Command(args ...string) *exec.Cmd {
	cmd := exec.Command(p.Exe, args...)
	cmd.Dir = p.Dir
	// When a configuration with a plaintext secret is stored, the secret is replaced by a reference to a variable that
	// the file's header names.
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	for _, granted := range [][2]string{
		{"TEST_HF_TOKEN", "-hf"}, {"TEST_WANDB", "-wandb"}, {"NATGO_TRAINER_ADAPTERS_A_ENTITY_TOKEN", "-in-clear"},
	} {
		cmd.Env = append(cmd.Env, granted[0]+"="+Canary+granted[1])
	}
	return cmd
}

// NatGo runs a command that must exit with the wanted code.
func (p *Project) NatGo(t *testing.T, want int, args ...string) Result {
	t.Helper()
	r := Finish(t, p.Command(args...))
	if r.Code != want {
		t.Fatalf("nat-go %s: exit %d, want %d\n%s\n%s", strings.Join(args, " "), r.Code, want, r.Stdout, r.Stderr)
	}
	return r
}

// RunArgs returns the arguments of a run.
func (p *Project) RunArgs(more ...string) []string {
	return append([]string{
		"finetune", "run", "--config-file", "finetune.yml", "--from", p.Input, "--run-id", "r1",
	}, more...)
}
