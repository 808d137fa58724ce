package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/tokenizer"
)

func newDatasetVerifyCmd() *cobra.Command {
	var tokens string
	var limits *dataset.Limits
	cmd := &cobra.Command{
		Use:   "verify PATH",
		Short: "Reread a data set from its files alone and report any problems",
		Long: `Reread a data set from its files alone and report any problems: rows that violate their format, files of
mixed shapes, rows or prompts on both sides of the split, repeated and contradictory rows, and rows that differ from
rows.jsonl. In a run's folder every file is compared with the manifest, and the token batches are checked against their
proofs and the tokenizer; a run without a manifest is not verifiable.

PATH is a run's folder, its dataset folder, the folder of a format, or one .jsonl file (even one written by another program),
or - for rows from standard input.
The exit code is 1 if there is an error.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := findDataset(args[0], *limits)
			// A run may have token batches but no text rows.
			if run := runfolder.Folder(args[0]); err != nil && run.IsRun() {
				p, err = &dataset.Place{Run: run}, nil
			}
			if err != nil {
				return err
			}
			r, err := verify(p)
			if err != nil {
				return exit.With(exit.Failed, err)
			}
			if err := verifyBatches(r, p.Run, tokens); err != nil {
				return err
			}
			err = printResult(cmd, r, r.Text)
			if err == nil && r.Errors > 0 {
				return exit.With(exit.Failed, nil)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&tokens, "tokenizer", "", "tokenizer of the token batches; default: the one in the run's config.yml")
	limits = rowLimits(cmd)
	return cmd
}

// verify checks the rows of a data set and, in a run's folder, the other files and the record log.
func verify(p *dataset.Place) (*dataset.Report, error) {
	if p.Run == "" {
		return dataset.Verify(p, nil, os.TempDir())
	}
	manifest, why := p.Run.ReadManifest()
	var written []runfolder.Written
	if why == nil {
		written = append([]runfolder.Written{}, manifest.Dataset...) // not nil even if the run wrote no rows
	}
	r, err := dataset.Verify(p, written, os.TempDir())
	if err != nil {
		return nil, err
	}
	err = r.VerifyRun(p.Run, manifest, why)
	if err == nil && why == nil && manifest.Status == runfolder.Completed {
		err = r.VerifyLog(p, manifest)
	}
	return r, err
}

// verifyBatches checks a run's token batches, if it has any.
func verifyBatches(r *dataset.Report, run runfolder.Folder, tokens string) error {
	if run == "" || !dataset.HasBatches(run) {
		return nil
	}
	tok, err := runTokenizer(run, tokens)
	if err != nil {
		return err
	}
	defer tok.Close()
	return exit.Default(exit.Failed, r.VerifyBatches(run, tok))
}

// runTokenizer loads the tokenizer at path or, if path is empty, the one that the run's configuration names.
func runTokenizer(run runfolder.Folder, path string) (*tokenizer.Tokenizer, error) {
	if path == "" {
		var err error
		if path, err = dataset.TokenizerOf(run); err != nil {
			return nil, exit.With(exit.Usage, err)
		}
	}
	return loadTokenizer(path)
}
