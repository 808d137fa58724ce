// Package builtin is the one list of the builders that nat-go itself brings. They run as third parties' do: in a process of
// their own, served by this program, so that there is one path and it is always tested.
package builtin

import (
	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/dpo"
	"github.com/nat-go/nat-go/builders/dpo/natcompat"
	"github.com/nat-go/nat-go/builders/grpo"
	"github.com/nat-go/nat-go/builders/sdpo"
	"github.com/nat-go/nat-go/builders/sft"
	"github.com/nat-go/nat-go/plugins/sdk"
)

// PluginName is what the plugin of the built-in builders calls itself.
const PluginName = "nat-go"

// ServeCommand is the hidden command that serves it.
const ServeCommand = "plugin-serve"

// natDPO is the name under which NAT's own algorithm is served: the dpo_traj_builder of --compat nat.
const natDPO = "dpo_traj_builder.natcompat"

// List returns the built-in builders that a configuration can name.
func List() []sdk.Factory {
	return []sdk.Factory{
		sdk.New(dpo.Info(), func(c *dpo.Config) (builders.Builder, error) { return dpo.New(*c) }),
		sdk.New(grpo.Info(), func(c *grpo.Config) (builders.Builder, error) { return grpo.New(*c) }),
		sdk.New(sdpo.Info(), func(c *sdpo.Config) (builders.Builder, error) { return sdpo.New(*c) }),
		sdk.New(sft.Info(), func(c *sft.Config) (builders.Builder, error) { return sft.New(*c) }),
	}
}

// Plugin is the plugin of the built-in builders.
func Plugin(version string) sdk.Plugin {
	nat := natcompat.Info()
	nat.Name = natDPO
	return sdk.Plugin{Name: PluginName, Version: version, Builders: append(List(),
		sdk.New(nat, func(c *dpo.Config) (builders.Builder, error) { return natcompat.New(*c) }))}
}

// Compat is the builder that does in NAT's own way what a built-in builder does in ours.
func Compat(builder string) string {
	if builder == dpo.Info().Name {
		return natDPO
	}
	return builder
}
