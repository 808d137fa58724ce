// Package builtin is the one list of the builders that nat-go itself brings. They run as third parties' do: in a process of
// their own, served by this program, so that there is one path and it is always tested.
package builtin

import (
	"github.com/nat-go/nat-go/plugins/sdk"
)

// PluginName is what the plugin of the built-in builders calls itself.
const PluginName = "nat-go"

// ServeCommand is the hidden command that serves it.
const ServeCommand = "plugin-serve"

// List returns the built-in builders.
func List() []sdk.Factory {
	return nil
}

// Plugin is the plugin of the built-in builders.
func Plugin(version string) sdk.Plugin {
	return sdk.Plugin{Name: PluginName, Version: version, Builders: List()}
}
