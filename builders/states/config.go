package states

import "github.com/nat-go/nat-go/builders/sdpo"

// Config is `trajectory_builders.<name>` with `_type: states_traj_builder`.
type Config struct {
	At     []string    `yaml:"at" default:"[failed_calls, divergence]" validate:"min=1,dive,oneof=failed_calls divergence turns" doc:"where to take a state: at failed calls, where a scored rollout parts from better ones of its task, or at turns of the model"`
	Every  int         `yaml:"every" default:"1" validate:"gte=1" doc:"at: turns takes each turn whose number, from 0, is a multiple of this"`
	Where  string      `yaml:"where" doc:"which of these turns, one expression over [their fields, their example's and their task's](#where)" example:"\"refund\" in uses and reward == 0"`
	Agent  string      `yaml:"agent" doc:"name of the NeMo Gym agent that goes on from the states (agent_ref of nemo_gym rows)"`
	Detect sdpo.Detect `yaml:"detect" doc:"what counts as a failed call, and what as a write"`
}
