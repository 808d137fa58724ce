package cli

import (
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/plugins/sdk"
)

// newPluginServeCmd returns the command that serves the built-in builders to the nat-go process that started this
// program. The command ends the program.
func newPluginServeCmd() *cobra.Command {
	return &cobra.Command{
		Use:                builtin.ServeCommand,
		Hidden:             true,
		DisableFlagParsing: true,
		Run: func(_ *cobra.Command, args []string) {
			plugin := builtin.Plugin(finetune.Version())
			setHeapGrowth(50, 8<<20)
			// Leave half of the cores to the host, which has as much to do as the builders. On two cores, idle threads
			// that look for work in this process would slow a run down by a twentieth.
			if os.Getenv("GOMAXPROCS") == "" {
				runtime.GOMAXPROCS((runtime.GOMAXPROCS(0) + 1) / 2)
			}
			sdk.ServeArgs(plugin, args)
		},
	}
}
