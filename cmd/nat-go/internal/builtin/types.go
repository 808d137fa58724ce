package builtin

import (
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/plugins"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
)

// stepsNeeded lists the event types in NAT's output that builders work on, by builder. A configuration that filters
// them out gets a warning.
var stepsNeeded = map[string][]string{"dpo_traj_builder": {"TTC_END"}}

// Types returns the component types that a configuration may name.
func Types() config.Types {
	t := config.Types{
		Sources:  map[string]config.Component{},
		Builders: map[string]config.Component{},
		HasPlugin: func(name string) bool {
			_, err := plugins.Find(name, "")
			return err == nil
		},
		Trainers: map[string]config.Component{
			trainers.TrainerType: {
				Doc:    "collect, then hand over to a trainer adapter",
				Config: &trainers.NemoCustomizerTrainer{},
			},
		},
		Adapters: map[string]config.Component{},
	}
	for _, f := range Sources() {
		t.Sources[f.Type] = config.Component{Doc: f.Doc, Config: f.New()}
	}
	for _, f := range Builders() {
		info := f.Info()
		t.Builders[info.Name] = config.Component{Doc: info.Doc, Config: info.Config, Steps: stepsNeeded[info.Name]}
	}
	for _, f := range adapters() {
		t.Adapters[f.Type] = config.Component{Doc: f.Doc, Config: f.New()}
	}
	for _, f := range dataset.Formats() {
		t.Formats = append(t.Formats, f.Name)
	}
	t.Formats = append(t.Formats, dataset.Trajectories)
	return t
}
