package finetune

import (
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/plugins"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/kinds"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/ttc/source/candidates"
	"github.com/nat-go/nat-go/ttc/source/command"
	"github.com/nat-go/nat-go/ttc/source/endpoint"
	"github.com/nat-go/nat-go/ttc/source/nat"
	"github.com/nat-go/nat-go/ttc/source/traces"
)

// stepsNeeded are the event types of NAT's output that a builder works on: a configuration that filters them out is told so.
var stepsNeeded = map[string][]string{"dpo_traj_builder": {"TTC_END"}}

// Types are the types of component that a configuration may name.
func Types() config.Types {
	t := config.Types{
		Sources: map[string]config.Component{
			workflowOutput: {Doc: "the workflow_output.json that `nat eval` writes", Config: &nat.Config{}},
			endpointType:   {Doc: "a running nat serve, asked question by question", Config: &endpoint.Config{}},
			commandType:    {Doc: "nat eval, or another program that leaves a workflow_output.json", Config: &command.Config{}},
			candidatesType: {Doc: "scored candidates as JSON lines", Config: &candidates.Config{}},
			tracesType:     {Doc: "agent runs in the OpenAI chat format, as JSON lines or one array", Config: &traces.Config{}},
		},
		Builders: map[string]config.Component{},
		HasPlugin: func(name string) bool {
			_, err := plugins.Find(name, "")
			return err == nil
		},
		Trainers: map[string]config.Component{
			trainers.TrainerType: {Doc: "collect, then hand over to a trainer adapter", Config: &trainers.NemoCustomizerTrainer{}},
		},
		Adapters: map[string]config.Component{},
	}
	for _, f := range builtin.List() {
		info := f.Info()
		t.Builders[info.Name] = config.Component{Doc: info.Doc, Config: info.Config, Steps: stepsNeeded[info.Name]}
	}
	for _, k := range kinds.All() {
		t.Adapters[k.Type] = config.Component{Doc: k.Doc, Config: k.Config()}
	}
	for _, f := range rows.Formats() {
		t.Formats = append(t.Formats, f.Name)
	}
	t.Formats = append(t.Formats, dataset.TokenParquet, trajectoriesFormat)
	return t
}
