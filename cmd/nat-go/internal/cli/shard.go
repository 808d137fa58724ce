package cli

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
)

// newShardCmd has the commands that divide a run between processes and machines.
func newShardCmd(commitBytes int64) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "shard",
		Short: "Divide a run between machines: plan it, build its shards, merge them",
		Long: `Divide a run between processes and machines that share a folder. The data set is that which one
machine makes, byte for byte, whatever the number of shards, the order they end in, and how often one was
interrupted.`,
		Example: `  nat-go shard plan --config-file finetune.yml --shards 100 --plan-dir shards
  nat-go shard run shards --index 7
  nat-go shard status shards
  nat-go shard merge shards`,
	}
	cmd.AddCommand(
		newShardPlanCmd(commitBytes),
		newShardRunCmd(commitBytes),
		newShardStatusCmd(),
		newShardMergeCmd(commitBytes),
		newShardScriptCmd(),
	)
	return cmd
}

// planArg is the folder of the plan that a command is given, else the working folder.
func planArg(args []string) shards.Folder {
	if len(args) == 0 {
		return shards.Find(".")
	}
	return shards.Find(args[0])
}

// final gives what would fail again its own exit code, by which a scheduler gives up on a shard: what is wrong with the
// plan, the configuration or the inputs. What the machine, its disk or another process did may be over the next time.
func final(err error) error {
	var errno syscall.Errno
	switch code := exit.Code(err); {
	case code != exit.Failed && code != exit.Usage:
		return err
	case errors.As(err, &errno) || errors.Is(err, fs.ErrNotExist):
		return exit.With(exit.Environment, err)
	}
	return exit.With(exit.Final, err)
}
