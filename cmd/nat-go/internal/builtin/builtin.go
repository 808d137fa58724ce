package builtin

import (
	"slices"
	"strings"
	"sync"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/builtin"
	"github.com/nat-go/nat-go/builders/divergence"
	"github.com/nat-go/nat-go/builders/dpo"
	"github.com/nat-go/nat-go/builders/grpo"
	"github.com/nat-go/nat-go/builders/sdpo"
	"github.com/nat-go/nat-go/builders/sft"
	"github.com/nat-go/nat-go/builders/states"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/plugins"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/atropos"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/customizer"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/exec"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/files"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/plugins/sdk"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// PluginName is the name by which the plugin with the built-in builders identifies itself.
const PluginName = "nat-go"

// ServeCommand is the hidden command that serves the built-in builders.
const ServeCommand = "plugin-serve"

// NATPairs is the name under which NAT's own algorithm is served for --compat nat, in place of dpo_traj_builder.
const NATPairs = "dpo_traj_builder.natcompat"

// Sources returns the source types.
func Sources() []source.Factory { return readers.Factories() }

// Source returns the source with the given `_type`.
func Source(typ string) (source.Factory, bool) {
	return lists.Find(Sources(), func(f source.Factory) bool { return f.Type == typ })
}

// adapters returns the trainer adapter types.
func adapters() []trainers.Factory {
	return []trainers.Factory{files.Factory(), customizer.Factory(), exec.Factory(), atropos.Factory()}
}

// Adapter returns the trainer adapter with the given `_type`.
func Adapter(typ string) (trainers.Factory, bool) {
	return lists.Find(adapters(), func(f trainers.Factory) bool { return f.Type == typ })
}

// Builder returns the built-in builder with the given name.
func Builder(name string) (sdk.Factory, bool) {
	return lists.Find(allBuilders(), func(f sdk.Factory) bool { return f.Info().Name == name })
}

// Builders returns the built-in builders that a configuration can name.
func Builders() []sdk.Factory { return slices.Clone(allBuilders()) }

// allBuilders builds the list on first use, because deriving the schema of each builder's settings takes time.
var allBuilders = sync.OnceValue(func() []sdk.Factory {
	return []sdk.Factory{
		sdk.New(dpo.Info(), func(c *dpo.Config) (builders.Builder, error) { return dpo.New(*c) }),
		sdk.New(divergence.Info(), func(c *divergence.Config) (builders.Builder, error) { return divergence.New(*c) }),
		sdk.New(grpo.Info(), func(c *grpo.Config) (builders.Builder, error) { return grpo.New(*c) }),
		sdk.New(sdpo.Info(), func(c *sdpo.Config) (builders.Builder, error) { return sdpo.New(*c) }),
		sdk.New(sft.Info(), func(c *sft.Config) (builders.Builder, error) { return sft.New(*c) }),
		sdk.New(states.Info(), func(c *states.Config) (builders.Builder, error) { return states.New(*c) }),
	}
})

// Plugin returns the plugin with the built-in builders.
func Plugin(version string) sdk.Plugin {
	nat := builtin.NATCompat()
	nat.Name = NATPairs
	return sdk.Plugin{Name: PluginName, Version: version, Builders: append(Builders(),
		sdk.New(nat, builtin.NewNATCompat))}
}

// stepsNeeded maps builders to the event types in NAT's output that they use. A configuration that filters out these
// events gets a warning.
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
				Doc: "collect, then hand over to a trainer adapter", Config: &trainers.NemoCustomizerTrainer{},
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
	names := lists.Map(dataset.Formats(), func(f dataset.Format) string { return f.Name })
	t.Formats = append(names, dataset.Trajectories)
	return t
}

// Split splits a builder's type into the plugin's name and the builder's name. For example, "acme/curriculum" is the
// builder curriculum of the plugin acme. A type without a slash belongs to a built-in builder.
func Split(typ string) (program, builder string) {
	if program, builder, ok := strings.Cut(typ, "/"); ok {
		return program, builder
	}
	return PluginName, typ
}
