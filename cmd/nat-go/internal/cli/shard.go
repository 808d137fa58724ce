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

// newShardCmd returns the group of commands that divide a run among processes and machines.
func newShardCmd(commitBytes int64) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "shard",
		Short: "Divide a run between machines: plan it, build its shards, merge them",
		Long: `Divide a run between processes and machines that share a folder or object storage. The data set is the
one that a single machine would build, byte for byte, regardless of how many shards there are, in which order they finish,
and how often one was interrupted.`,
		Example: `  nat-go shard plan --config-file finetune.yml --shards 100 --plan-dir shards
  nat-go shard run shards --index 7
  nat-go shard status shards
  nat-go shard merge shards`,
	}
	cmd.AddCommand(newShardPlanCmd(commitBytes), newShardRunCmd(commitBytes), newShardStatusCmd(),
		newShardMergeCmd(commitBytes), newShardScriptCmd())
	return cmd
}

// localPlan is a plan's folder on this machine, or a local copy of one in object storage.
type localPlan struct {
	dir    shards.Folder
	plan   *shards.Plan   // nil unless dir is a copy
	remote *shards.Remote // the original of dir; nil means that dir is not a copy
}

// copyPlan copies a plan in object storage to a folder below work. A plan on a disk is not copied.
func copyPlan(ctx context.Context, dir shards.Folder, work string) (c *localPlan, err error) {
	c = &localPlan{dir: dir, remote: dir.Remote()}
	if c.remote != nil {
		c.dir, c.plan, err = c.remote.Copy(ctx, work)
	}
	return c, err
}

// withPlan calls do with a plan, or with a copy of it for this call alone, below the folder for copies.
func withPlan(ctx context.Context, dir shards.Folder, work string, do func(*localPlan) error) error {
	if dir.Remote() == nil {
		return do(&localPlan{dir: dir})
	}
	return inWorkDir(work, func(own string) error {
		c, err := copyPlan(ctx, dir, own)
		if err != nil {
			return err
		}
		return c.withOriginalPath(do(c))
	})
}

// runsOf returns the Env.Runs folder for a plan on a disk. It is inside the plan's folder, which the processes of all
// shards can use.
func runsOf(dir shards.Folder) string { return filepath.Join(string(dir), "run") }

// withOriginalPath returns err with the path of a plan's copy replaced by the address of the original.
func (c *localPlan) withOriginalPath(err error) error {
	if c.remote == nil {
		return err
	}
	return c.remote.RewriteError(c.dir, err)
}

// restoreSummary makes the same replacement in the strings in a summary.
func (c *localPlan) restoreSummary(s *finetune.Summary) {
	if c.remote == nil || s == nil {
		return
	}
	s.Error, s.Next = c.remote.RewritePaths(c.dir, s.Error), c.remote.RewritePaths(c.dir, s.Next)
	for i := range s.Warnings {
		s.Warnings[i] = c.remote.RewritePaths(c.dir, s.Warnings[i])
	}
}

// workFlag adds the flag for the folder that holds copies of a stored plan.
func workFlag(f *pflag.FlagSet, work *string) {
	f.StringVar(work, "work-dir", "", "local folder for copies of a plan in object storage, from which an "+
		"interrupted shard continues; default: in the user's cache")
}

// workDir returns the folder for copies given by the flag, or the default.
func workDir(flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", exit.Environmentf("cannot find the user's cache folder: %w; specify a folder with --work-dir", err)
	}
	return filepath.Join(cache, "nat-go", "shards"), nil
}

// inWorkDir calls do with a new folder inside the folder for copies, then removes the new folder.
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

// planArg returns the folder of the plan named by a command's argument or, without an argument, of a plan in the
// current folder.
func planArg(args []string) shards.Folder {
	if len(args) == 0 {
		return shards.Find(".")
	}
	return shards.Find(args[0])
}

// withFinalCode returns err with the exit code that tells a scheduler not to retry the shard, if a retry would fail
// again because the plan, the configuration or the inputs are wrong. A system error or a missing file gets the code for
// the environment, because the next attempt may succeed.
func withFinalCode(err error) error {
	var errno syscall.Errno
	switch code := exit.Code(err); {
	case code != exit.Failed && code != exit.Usage:
		return err
	case errors.As(err, &errno) || errors.Is(err, fs.ErrNotExist):
		return exit.With(exit.Environment, err)
	}
	return exit.With(exit.Final, err)
}
