package finetune

import (
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/kinds"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/ttc/source/nat"
)

// Types are the types of component that a configuration may name.
func Types() config.Types {
	natConfig := nat.DefaultConfig()
	t := config.Types{
		Sources: map[string]config.Component{
			workflowOutput: {Doc: "the workflow_output.json that `nat eval` writes", Config: &natConfig},
		},
		Builders: map[string]config.Component{},
		Trainers: map[string]config.Component{
			trainers.TrainerType: {Doc: "collect, then hand over to a trainer adapter", Config: &trainers.NemoCustomizerTrainer{}},
		},
		Adapters: map[string]config.Component{},
	}
	for _, f := range builtin.List() {
		info := f.Info()
		t.Builders[info.Name] = config.Component{Doc: info.Doc, Config: info.Config}
	}
	for _, k := range kinds.All() {
		t.Adapters[k.Type] = config.Component{Doc: k.Doc, Config: k.Config()}
	}
	for _, f := range rows.Formats() {
		t.Formats = append(t.Formats, f.Name)
	}
	t.Formats = append(t.Formats, trajectoriesFormat)
	return t
}
