// Package jobs submits jobs, leaves and picks them up, and looks for secrets in what is left.
package jobs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/customizer/customizertest"
)

func TestMain(m *testing.M) { e2e.Main(m) }

// project is a folder with a configuration that submits to a service.
type project struct {
	*e2e.Project
	service *customizertest.Service
}

// newProject returns a project whose jobs go to a service. extra contains additional lines for the adapter's
// configuration.
func newProject(t *testing.T, s *customizertest.Service, extra string) *project {
	t.Helper()
	p := &project{e2e.NewProject(t), customizertest.Start(t, s)}
	config := fmt.Sprintf(`
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
`, s.URL, s.URL, e2e.Canary, extra)
	if err := os.WriteFile(filepath.Join(p.Dir, "finetune.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// place is where a test's job runs.
type place struct{ *e2e.Place }

func newLocal(t *testing.T) *place {
	t.Helper()
	return &place{e2e.NewLocal(t)}
}
