package cli

import (
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/kinds"
	"github.com/nat-go/nat-go/ttc/source/nat"
)

// components are the component types that this build has, for checking configurations and printing their schema.
func components() config.Types {
	t := config.Types{
		Sources: map[string]config.Component{
			"workflow_output": {Doc: "what nat eval wrote", Config: nat.Config{}},
		},
		Builders: map[string]config.Component{},
		Trainers: map[string]config.Component{
			trainers.TrainerType: {Doc: "collects, curates and submits once", Config: trainers.NemoCustomizerTrainer{}},
		},
		Adapters: map[string]config.Component{},
	}
	for _, k := range kinds.All() {
		t.Adapters[k.Type] = config.Component{Doc: k.Doc, Config: k.Config()}
	}
	return t
}
