package cli

import (
	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/plugins/sdk"
)

// newPluginServeCmd serves the built-in builders to a nat-go that started this program as its child. It does not
// return.
func newPluginServeCmd() *cobra.Command {
	return &cobra.Command{
		Use:                builtin.ServeCommand,
		Hidden:             true,
		DisableFlagParsing: true,
		Run: func(_ *cobra.Command, args []string) {
			plugin := builtin.Plugin(finetune.Version())
			collectOften(50, 8<<20)
			leaveCores()
			sdk.ServeArgs(plugin, args)
		},
	}
}
