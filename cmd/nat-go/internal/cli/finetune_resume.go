package cli

import (
	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
)

func newFinetuneResumeCmd(commitBytes int64) *cobra.Command {
	var outputDirs []string
	var how finetune.Request
	cmd := &cobra.Command{
		Use:   "resume RUN",
		Short: "Continue an interrupted run, or submit a data set that was not accepted",
		Long: `Continue a run, given its folder or id. Work already done is kept: the record log is continued after its last commit, a
complete data set is submitted, a running job is waited for.

It is an error if anything that determines the data set has changed since the run began: an input, a setting, a variable
that a setting refers to, a plugin's program, the tokenizer, the template, or nat-go itself. --accept-changed continues
anyway and keeps existing output unchanged; the manifest records that.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if how.Resume, err = runNamed(args[0], outputDirs); err != nil {
				return err
			}
			return runRequest(cmd, commitBytes, &how)
		},
	}
	addOutputDirs(cmd, &outputDirs)
	cmd.Flags().BoolVar(&how.Detach, "detach", false, "submit the job and don't wait for it")
	cmd.Flags().StringArrayVarP(&how.Overrides, "override", "o", nil, "override a setting of the run: PATH=VALUE or PATH VALUE (repeatable)")
	cmd.Flags().StringArrayVar(&how.Accept, "accept-changed", nil, "continue although this, named as in the error, has changed (repeatable)")
	return cmd
}
