package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
)

// newShardCmd groups the commands that divide a run between processes and machines.
func newShardCmd(commitBytes int64) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "shard",
		Short: "Divide a run between machines: plan it, build its shards, merge them",
		Long: `Divide a run between processes and machines that share a folder or object storage. The data set is the
one that a single machine would make, byte for byte, whatever the number of shards, the order they end in, and how
often one was interrupted.`,
		Example: `  nat-go shard plan --config-file finetune.yml --shards 100 --plan-dir shards
  nat-go shard run shards --index 7
  nat-go shard status shards
  nat-go shard merge shards`,
	}
	cmd.AddCommand(newShardPlanCmd(commitBytes), newShardRunCmd(commitBytes), newShardStatusCmd(),
		newShardMergeCmd(commitBytes), newShardScriptCmd())
	return cmd
}

// copied is the folder of a plan on this machine: the folder itself, or a copy of one in object storage.
type copied struct {
	dir    shards.Folder
	plan   *shards.Plan   // nil unless dir is a copy
	remote *shards.Remote // the original of dir; nil means that dir is not a copy
}

// copyPlan copies a plan in object storage to a folder below work.
func copyPlan(ctx context.Context, dir shards.Folder, work string) (c *copied, err error) {
	c = &copied{dir: dir, remote: dir.Remote()}
	if c.remote != nil {
		c.dir, c.plan, err = c.remote.Copy(ctx, work)
	}
	return c, err
}

// runsOf returns the local folder for a run that belongs in object storage: next to the plan's shards, which read and
// write there.
func runsOf(dir shards.Folder) string { return filepath.Join(string(dir), "run") }

// withOriginalPath makes an error name the folder rather than its copy.
func (c *copied) withOriginalPath(err error) error {
	if c.remote == nil {
		return err
	}
	return c.remote.RewriteError(c.dir, err)
}

// restoreSummary does the same for the text of a summary.
func (c *copied) restoreSummary(s *finetune.Summary) {
	if c.remote == nil || s == nil {
		return
	}
	s.Error, s.Next = c.remote.RewritePaths(c.dir, s.Error), c.remote.RewritePaths(c.dir, s.Next)
	for i := range s.Warnings {
		s.Warnings[i] = c.remote.RewritePaths(c.dir, s.Warnings[i])
	}
}

// workFlag names the folder for copies of stored objects.
func workFlag(f *pflag.FlagSet, work *string) {
	f.StringVar(work, "work-dir", "", "folder on this machine for a plan in object storage, where an interrupted "+
		"shard continues; default: in the user's cache")
}

// workDir returns the folder for copies.
func workDir(flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", exit.Environmentf("can't find the user's cache folder: %w; name a folder with --work-dir", err)
	}
	return filepath.Join(cache, "nat-go", "shards"), nil
}

// inWorkDir calls do with a new folder for copies, which it removes afterwards.
func inWorkDir(flag string, do func(work string) error) error {
	work, err := workDir(flag)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(work, 0o700); err != nil {
		return exit.With(exit.Environment, err)
	}
	own, err := os.MkdirTemp(work, "once-")
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	defer os.RemoveAll(own)
	return do(own)
}

// planArg returns the folder of the plan given to a command, or the current folder.
func planArg(args []string) shards.Folder {
	if len(args) == 0 {
		return shards.Find(".")
	}
	return shards.Find(args[0])
}

// final gives errors that would recur on a retry a separate exit code, which makes a scheduler give up on a shard:
// something is wrong with the plan, the configuration or the inputs. A failure of the machine, its disk or another
// process may be gone by the next attempt.
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
