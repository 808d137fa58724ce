package states

import "github.com/nat-go/nat-go/builders/sdpo"

// Config is the `trajectory_builders.<name>` section with `_type: states_traj_builder`.
type Config struct {
	At     []string    `yaml:"at" default:"[failed_calls, divergence]" validate:"min=1,dive,oneof=failed_calls divergence turns" doc:"where to take a state: at failed calls, where a scored rollout diverges from better ones for the same task, or at the model's turns"`
	Every  int         `yaml:"every" default:"1" validate:"gte=1" doc:"with at: turns, take every turn whose number, counted from 0, is a multiple of this"`
	Where  string      `yaml:"where" doc:"condition that these turns must meet: an expression over [the fields of the turn, its example and its task](#where)" example:"\"refund\" in uses and reward == 0"`
	Agent  string      `yaml:"agent" doc:"name of the NeMo Gym agent that continues from the states (agent_ref of nemo_gym rows)"`
	Detect sdpo.Detect `yaml:"detect" doc:"detection of failed calls and of writes"`
}
