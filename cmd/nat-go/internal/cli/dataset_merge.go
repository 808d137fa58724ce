package cli

import (
	"context"

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
		Long: `Join finished runs, named by their folders or ids, into one run: their records are curated together - copies and
contradictions between runs are found, too - and split once, so that no example, task or prompt of one run's
training is in another's validation. What is left out is counted and listed with the reason, as in any run.

Of copies the first is kept, in the order in which the runs are named. Which contents are kept doesn't depend on
that order; the order of the rows does, and the side of the split that an example with copies is drawn for. An input
that several runs have read counts as one. Runs made with other settings, another nat-go or other formats are
refused, with what differs; so is a run whose files are not as they were written.

With --keep-split the validation side of a run stays as it is: its records validate, no other does, and what shares
an example, a task or a prompt with one of them is left out (shares_validation). What was once in validation is never trained on
later.`,
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
				return withRun(cmd, 0, func(ctx context.Context, env finetune.Env) (*finetune.Summary, error) {
					return finetune.Run(ctx, m, env)
				})
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
