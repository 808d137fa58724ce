package cli

import (
	"context"
	"errors"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/online"
	"github.com/nat-go/nat-go/internal/terminal"
)

func newCollateCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "collate",
		Short: "Build token batches from traces for a training loop, over standard input and output",
		Long: `Build token batches from traces for a training loop, over standard input and output: natgo.Collator of the Python
package talks to it.

An input frame is four bytes, the little-endian length of the JSON that follows. An output frame is the length of a JSON
head in four bytes and of a body in eight, then both; the body is a safetensors file, or empty. The first frame holds the
settings {"tokenizer", "channels", "collator", "source", "builders"}, named as in a configuration; each later one is
{"id", "traces"}. An answer contains the tensors and an account of drops, with reasons. A request that can't be
answered gets {"error": {"code", "message", "where"}}, and the next one is read. The command exits when its input ends.`,
		Example: `  python3 -c 'import natgo; print(natgo.Collator("models/qwen", channels=["rl"])(traces))'`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), leaveSignals...)
			defer stop()
			defer whileCollating()()
			err := online.Serve(ctx, cmd.InOrStdin(), terminal.For(cmd.OutOrStdout()).Raw())
			var bad *online.Error
			switch {
			case errors.As(err, &bad):
				return exit.With(exit.Usage, err)
			case errors.Is(err, syscall.EPIPE), errors.Is(err, context.Canceled):
				return nil // the caller has exited, or has asked the command to end
			case err != nil:
				return exit.With(exit.Failed, err)
			}
			return nil
		},
	}
	return cmd
}
