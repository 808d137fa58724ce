package cli

import (
	"os"
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
			collectOften()
			sdk.ServeArgs(builtin.Plugin(version()), args)
		},
	}
}

// collectOften keeps the peak memory of a run low: little is alive at a time, so that collecting twice as often as Go does by
// itself costs some per cent of time and saves a third.
func collectOften() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}
