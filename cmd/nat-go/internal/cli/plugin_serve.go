package cli

import (
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/plugins/sdk"
)

// newPluginServeCmd serves the built-in builders to a nat-go that started this program again. It does not return.
func newPluginServeCmd() *cobra.Command {
	return &cobra.Command{
		Use:                builtin.ServeCommand,
		Hidden:             true,
		DisableFlagParsing: true,
		Run: func(_ *cobra.Command, args []string) {
			plugin := builtin.Plugin(version())
			collectOften(50)
			leaveCores()
			sdk.ServeArgs(plugin, args)
		},
	}
}

// collectOften keeps the peak memory of a run low: little is alive at a time, so that collecting more often than Go does by
// itself saves a fifth of it. The percent counts the ballast as alive.
func collectOften(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// leaveCores leaves half of the cores to the host, which has as much to do as the builders: on two cores threads of this
// process that look for work cost a run a twentieth of its time.
func leaveCores() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS((runtime.GOMAXPROCS(0) + 1) / 2)
	}
}
