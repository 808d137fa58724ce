package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/online"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/plugins/sdk"
)

func newCollateCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "collate",
		Short: "Build token batches from traces for a training loop, over standard input and output",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), leaveSignals...)
			defer stop()
			defer whileCollating()()
			err := online.Serve(ctx, cmd.InOrStdin(), terminal.For(cmd.OutOrStdout()).Raw())
			switch {
			case errors.As(err, new(*online.Error)):
				return exit.With(exit.Usage, err)
			case errors.Is(err, syscall.EPIPE), errors.Is(err, context.Canceled):
				return nil // the caller has exited, or has asked the command to end
			case err != nil:
				return exit.With(exit.Failed, err)
			}
			return nil
		},
	}
}

// newPluginServeCmd returns the command that serves the built-in builders to the nat-go process that started this
// program. The command ends by exiting the program.
func newPluginServeCmd() *cobra.Command {
	return &cobra.Command{
		Use:                builtin.ServeCommand,
		Hidden:             true,
		DisableFlagParsing: true,
		Run: func(_ *cobra.Command, args []string) {
			plugin := builtin.Plugin(finetune.Version())
			setHeapGrowth(50, 8<<20)
			// Leave half of the cores to the host, which has as much work as the builders. Otherwise, idle threads of
			// this process that search for work would slow down the run.
			if os.Getenv("GOMAXPROCS") == "" {
				runtime.GOMAXPROCS((runtime.GOMAXPROCS(0) + 1) / 2)
			}
			sdk.ServeArgs(plugin, args)
		},
	}
}
