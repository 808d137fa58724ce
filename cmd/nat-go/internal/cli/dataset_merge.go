package cli

import (
	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/objects"
)

func newDatasetMergeCmd() *cobra.Command {
	var m finetune.Request
	var keep string
	var outputDirs []string
	cmd := &cobra.Command{
		Use:   "merge RUN...",
		Short: "Join finished runs into one, without repeats, contradictions or leaks across the split",
		Long: `Join finished runs, named by their folders or ids, into one run. Their records are curated together,
which also finds copies and contradictions between runs, and split once, so that no example, task or prompt in one run's
training set is in another's validation set. Dropped records are counted and listed with the reason, as in any run.

The first of several copies is kept, in the order in which the runs are named. That order doesn't affect which contents
are kept, but it does affect the order of the rows, and the side of the split for an example with copies. An input that
several runs read is counted once. Runs made with different settings, formats or versions of nat-go are refused, and the
error names the differences. A run whose files were changed is refused, too.

With --keep-split, the validation side of a run is kept: only its records are used for validation, and other records
that share an example, a task or a prompt with one of them are dropped (shares_validation). So records that were once in
the validation set are never trained on later.`,
		Example: `  nat-go dataset merge out/monday out/tuesday --run-id week
  nat-go dataset merge out/week out/wednesday --keep-split out/week`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if m.OutputDir == "" && objects.Is(args[0]) {
				return exit.Usagef("%s is in object storage: specify the merged run's folder with --to", args[0])
			}
			if keep != "" {
				args = append(args, keep)
			}
			return withCopies(cmd, args, func(args []string) error {
				for _, arg := range args {
					f, err := runNamed(arg, outputDirs)
					if err != nil {
						return err
					}
					m.Join = append(m.Join, f)
				}
				if last := len(m.Join) - 1; keep != "" {
					m.Join, m.KeepSplit = m.Join[:last], m.Join[last]
				}
				return runRequest(cmd, 0, &m)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&keep, "keep-split", "", "the `RUN` whose validation side is kept unchanged")
	f.StringVar(&m.RunID, "run-id", "", "name of the merged run and its folder; default: based on the time")
	f.StringVar(&m.OutputDir, "to", "", "folder for the merged run; default: next to the first run")
	addOutputDirs(cmd, &outputDirs)
	return cmd
}

// runNamed returns the folder of the run that an argument names, either by path or by the id of a run in outputDirs.
func runNamed(arg string, outputDirs []string) (runfolder.Folder, error) {
	if runfolder.Has(arg) {
		return runfolder.Folder(arg), nil
	}
	return runfolder.Find(arg, outputDirs...)
}
