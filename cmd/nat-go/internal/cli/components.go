package cli

import (
	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/dpo"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/kinds"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/ttc/source/candidates"
	"github.com/nat-go/nat-go/ttc/source/nat"
)

// components are the component types that this build has, for checking configurations and printing their schema.
func components() config.Types {
	t := config.Types{
		Sources: map[string]config.Component{
			"workflow_output": {Doc: "what nat eval wrote", Config: nat.Config{}},
			"candidates":      {Doc: "JSON lines of scored candidates", Config: candidates.Config{}},
		},
		Builders: map[string]config.Component{},
		Trainers: map[string]config.Component{
			trainers.TrainerType: {Doc: "collects, curates and submits once", Config: trainers.NemoCustomizerTrainer{}},
		},
		Adapters: map[string]config.Component{},
		Formats:  []string{"nat_trajectories"},
	}
	steps := map[string][]string{"dpo_traj_builder": {"TTC_END"}}
	for _, info := range []builders.Info{dpo.Info()} {
		t.Builders[info.Name] = config.Component{Doc: info.Doc, Config: info.Config, Steps: steps[info.Name]}
	}
	for _, k := range kinds.All() {
		t.Adapters[k.Type] = config.Component{Doc: k.Doc, Config: k.Config()}
	}
	for _, f := range rows.Formats() {
		t.Formats = append(t.Formats, f.Name)
	}
	return t
}
